"""The site in a real browser: from disk and below a path, with search, and without external requests."""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

import boxscore
from tests.support.documents import ROOT

PHONE = 400
"""Pixels."""


@dataclass(frozen=True)
class Watch:
    """What goes wrong in a page: requests to elsewhere, requests that fail, errors and messages of scripts."""

    root: str
    """The address that all requests must begin with."""
    troubles: list[str] = field(default_factory=list)

    def follow(self, page: Page) -> None:
        """Note the troubles of a page from now on."""
        page.on("request", lambda request: self._note_request(request))  # Playwright marks the object of a method
        page.on("requestfailed", lambda request: self._note_failure(request))
        page.on("response", lambda response: None if response.ok else self.troubles.append(f"failed: {response.url}"))
        page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        page.on("console", lambda message: self.troubles.append(f"console: {message.text}"))

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith((self.root, "data:", "about:")):
            self.troubles.append(f"elsewhere: {request.url}")

    def _note_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by going on to the next page
            self.troubles.append(f"failed: {request.url}: {request.failure}")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site on disk, below the root of a server, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("server") / "some" / "path"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def pages(site: Path) -> list[Path]:
    """Every page, in the order of its path."""
    return sorted(path for path in site.rglob("*.html") if path.name != "404.html")


def opened(browser: Browser, watch: Watch, address: str, **settings: Any) -> Page:
    """A page in a window of its own."""
    page = browser.new_context(**settings).new_page()
    watch.follow(page)
    page.goto(address)
    return page


@dataclass(frozen=True)
class Visit:
    """One visit of every page from disk, on a phone."""

    titles: list[str]
    troubles: list[str]
    too_wide: list[str]


@pytest.fixture(scope="module")
def visit(site: Path, browser: Browser) -> Visit:
    """All pages, one after the other."""
    watch, titles, too_wide = Watch(site.as_uri()), [], []
    page = opened(browser, watch, (site / "index.html").as_uri(), viewport={"width": PHONE, "height": 800})
    for path in pages(site):
        page.goto(path.as_uri())
        titles.append(page.locator("h1").first.inner_text())
        if page.evaluate("document.documentElement.scrollWidth") > PHONE:
            too_wide.append(str(path.relative_to(site)))
    return Visit(titles, watch.troubles, too_wide)


def test_every_page_opens_from_disk(visit: Visit, site: Path) -> None:
    """With a title."""
    assert len(visit.titles) == len(pages(site)) > 40
    assert all(visit.titles)


def test_no_page_makes_an_external_request(visit: Visit) -> None:
    """No request fails, none goes elsewhere, and scripts report no error."""
    assert visit.troubles == []


def test_no_page_is_wider_than_a_phone(visit: Visit) -> None:
    """Wide tables and code scroll within themselves."""
    assert visit.too_wide == []


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """On every page the same links, relative to it."""
    linked = re.findall(r'<a href="([^":]+\.html)" class="md-nav__link', (site / "index.html").read_text())
    assert {site / link for link in linked} | {site / "index.html"} == set(pages(site))


def expect_found(page: Page, words: str, title: str) -> None:
    """Search finds a page of this title; results change while words are typed, so that this waits for it."""
    page.get_by_role("textbox", name="Search").press_sequentially(words)
    titles = page.locator(".md-search-result__item h1")
    expect(titles.filter(has_text=re.compile(f"^{title}$")).first).to_be_visible()


def test_search_works_from_disk(site: Path, browser: Browser) -> None:
    """Though browsers give pages on disk no workers."""
    watch = Watch(site.as_uri())
    page = opened(browser, watch, (site / "guides" / "poses.html").as_uri())
    expect_found(page, "oriented", "Oriented boxes")
    page.locator(".md-search-result__item a").first.click()
    expect(page).not_to_have_url(re.compile("poses"))
    assert watch.troubles == []


@pytest.fixture
def server(site: Path) -> Iterator[str]:
    """The address of the site below a path of a server on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = partial(Quiet, directory=str(site.parents[1]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{http.server_address[1]}/some/path/"
        http.shutdown()
        thread.join()


def test_the_site_works_below_a_path(server: str, browser: Browser) -> None:
    """Links and search, with workers."""
    watch = Watch(server)
    page = opened(browser, watch, server)
    page.get_by_role("link", name="Evaluate two files").first.click()
    expect(page).to_have_url(f"{server}get-started/files.html")
    expect_found(page, "segmentation", "Segmentation")
    assert watch.troubles == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system(site: Path, browser: Browser, scheme: Any) -> None:
    """Light text on dark, or the reverse."""
    page = opened(browser, Watch(site.as_uri()), (site / "index.html").as_uri(), color_scheme=scheme)
    background = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", background)[:3])) / 3
    assert (brightness > 128) == (scheme == "light")


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    """As a heading of its own, with its docstring."""
    text = "".join(path.read_text() for path in (site / "reference" / "api").glob("*.html"))
    headings = set(re.findall(r'<h2 id="boxscore\.([\w.]+)"', text))
    names = set(boxscore.__all__)
    for module in (
        boxscore.analysis,
        boxscore.data,
        boxscore.protocol,
        boxscore.report,
        boxscore.result,
        boxscore.scaling,
    ):
        package = module.__name__.removeprefix("boxscore.")
        names |= {f"{package}.{name}" for name in module.__all__ if name not in boxscore.__all__}
    assert names <= headings


def test_examples_in_docstrings_are_code(site: Path) -> None:
    """Not quotations, which is what `>>>` means in Markdown."""
    text = (site / "reference" / "api" / "evaluation.html").read_text()
    assert "<blockquote>" not in text
    assert '<span class="gp">&gt;&gt;&gt; </span>' in text
