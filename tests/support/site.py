"""The site, built as `make docs` builds it, and what a browser notices while it is read."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page, Request

from tests.support.documents import ROOT


def shared_site(base: Path) -> Path:
    """The folder with the site, which the first of several test processes has built, the others have waited for."""
    folder, is_done = base / "server" / "some" / "path", base / "site_is_done"
    try:
        (base / "server").mkdir()
    except FileExistsError:
        while not is_done.exists():
            time.sleep(0.1)
    else:
        try:
            build_site(folder)
        finally:
            is_done.touch()
    assert (folder / "index.html").exists(), "another process could not build the site"
    return folder


def build_site(folder: Path) -> None:
    """`make docs`, into a folder."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
