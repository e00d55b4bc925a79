"""`boxscore serve`: a real server and a real browser. The page shows what is on disk, and nothing else."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

import boxscore
from boxscore import Detections, Result
from boxscore.cli import main, sample
from boxscore.report.serving import web
from tests.support.saved_files import sealed
from tests.support.servers import Server, serving

DETECTIONS, TRUTHS = sample.load()


def after_epoch(epoch: int, *, seed: int = 0) -> Result:
    """The result of a detector that finds more of the sample after each epoch."""
    random = np.random.default_rng(seed)
    is_found = random.random(len(DETECTIONS)) < 0.3 + 0.1 * epoch
    columns: dict[str, Any] = {
        name: np.asarray(getattr(DETECTIONS, name)) for name in ("image_ids", "labels", "scores")
    }
    found = {name: column[is_found] for name, column in columns.items()}
    return boxscore.evaluate(
        Detections(**found, boxes=np.asarray(DETECTIONS.boxes)[is_found], box_format="xywh"), TRUTHS
    )


RESULTS = {name: [after_epoch(epoch, seed=seed) for epoch in range(4)] for seed, name in enumerate(("a", "b"))}


def write_runs(folder: Path) -> None:
    """Two runs of four epochs."""
    for name, results in RESULTS.items():
        for epoch, result in enumerate(results):
            result.save(folder / name / f"epoch_{epoch:03}.boxscore", step=epoch)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs, which tests leave as they found it."""
    folder = tmp_path_factory.mktemp("served") / "runs"
    write_runs(folder)
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Server]:
    """The server of that folder."""
    with serving(runs) as server:
        yield server


@pytest.fixture(scope="module")
def changing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Server]]:
    """A folder and its server."""
    folder = tmp_path_factory.mktemp("changing") / "runs"
    folder.mkdir()
    with serving(folder) as server:
        yield folder, server


@pytest.fixture
def changing(changing_server: tuple[Path, Server]) -> tuple[Path, Server]:
    """The same, with an empty folder."""
    shutil.rmtree(changing_server[0])
    changing_server[0].mkdir()
    return changing_server


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """A page that asks every second may wait for a busy machine."""
    expect.set_options(timeout=20_000)
    yield
    expect.set_options(timeout=5_000)


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens an address, from whose server alone something may be asked, and in whose page nothing may go wrong."""
    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def visit(address: str, *, width: int = 1280, **settings: Any) -> Page:
        root = "/".join(address.split("/")[:3])
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if request.url.startswith(root) else troubles.append(request.url))
        page.goto(address)
        return page

    yield visit
    for context in contexts:
        context.close()
    assert troubles == []


def shown(value: float) -> str:
    """A number as tables show it."""
    return f"{value:.4f}"


def rows(page: Page, name: str) -> list[str]:
    """The rows of a table as text."""
    return page.get_by_role("table", name=name).locator("tbody tr").all_inner_texts()


def best(name: str) -> int:
    """The epoch of a run with the highest mAP."""
    return int(np.argmax([result["map"] for result in RESULTS[name]]))


def test_it_shows_the_last_and_the_best_of_each_run_and_a_line_each(visit: Visit, server: Server) -> None:
    """The numbers are those of the results; another number is chosen from a list."""
    page = visit(server.address)
    expect(page.get_by_role("heading", level=1)).to_have_text("runs")
    by_best = sorted(RESULTS, key=lambda name: -RESULTS[name][best(name)]["map"])
    for name, row in zip(by_best, rows(page, "Runs"), strict=True):
        assert name in row
        assert f"{shown(RESULTS[name][3]['map'])} epoch 3" in row
        assert f"{shown(RESULTS[name][best(name)]['map'])} epoch {best(name)}" in row
    expect(page.locator(".over-epochs path.run")).to_have_count(2)
    page.get_by_label("Number").select_option("map_50")
    expect(page.get_by_role("table", name="Runs")).to_contain_text(shown(RESULTS["a"][3]["map_50"]))
    page.get_by_role("checkbox", name="Show a in the chart").uncheck()
    expect(page.locator(".over-epochs path.run")).to_have_count(1)
    page.reload()
    expect(page.locator(".over-epochs path.run")).to_have_count(1)


def test_a_point_of_the_chart_opens_its_report_by_mouse_and_by_keyboard(visit: Visit, server: Server) -> None:
    """Reports are those of `to_html`, and lead to their neighbours and back."""
    page = visit(server.address)
    chart = page.locator(".over-epochs")
    chart.focus()
    for key in ("ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator("#tip")).to_contain_text(shown(RESULTS["a"][2]["map"]))
    expect(page.locator("#tip")).to_contain_text(shown(RESULTS["b"][2]["map"]))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("a, epoch 2")
    numbers = page.get_by_role("table", name="All numbers")
    expect(numbers).to_contain_text(shown(RESULTS["a"][2]["map"]))
    page.get_by_role("link", name="epoch 3 →").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a, epoch 3")
    page.get_by_role("link", name="All runs").click()
    box = chart.bounding_box()
    assert box is not None
    circle = page.locator(".over-epochs circle").nth(1).bounding_box()
    assert circle is not None
    page.mouse.click(circle["x"] + circle["width"] / 2, circle["y"] + circle["height"] / 2)
    expect(page.get_by_role("heading", level=1)).to_have_text("a, epoch 1")


def test_any_two_results_are_compared(visit: Visit, server: Server) -> None:
    """Two that are ticked, or the best of two runs, with the differences of `boxscore.compare`."""
    page = visit(server.address)
    for name in ("Compare a, epoch 0", "Compare b, epoch 3"):
        page.get_by_role("checkbox", name=name).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("a, epoch 0 and b, epoch 3")
    expected = boxscore.compare([RESULTS["a"][0], RESULTS["b"][3]], resamples=20).differences[0].numbers["map"]
    row = page.get_by_role("table", name="Differences between").locator("tbody tr").first
    expect(row).to_contain_text(f"{expected.difference:+.4f}".replace("-", "−"))
    expect(row).to_contain_text(f"{expected.low:+.4f} to {expected.high:+.4f}".replace("-", "−"))
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    titles = " and ".join(f"{name}, epoch {best(name)}" for name in "ab")
    expect(page.get_by_role("heading", level=1)).to_have_text(titles)


def test_it_follows_the_folder_without_losing_the_readers_position(visit: Visit, changing: tuple[Path, Server]) -> None:
    """New files appear, changed numbers change, and a file that breaks loses its number at once, with the reason."""
    folder, server = changing
    write_runs(folder)
    page = visit(server.address, width=1280)
    page.get_by_role("searchbox").fill("a epoch")
    expect(page.get_by_role("table", name="Results").locator("tbody tr")).to_have_count(4)
    box = page.get_by_role("checkbox", name="Compare a, epoch 1")
    box.check()
    position = page.evaluate("() => { window.scrollTo(0, 400); return window.scrollY }")
    better = after_epoch(7)
    better.save(folder / "a" / "epoch_004.boxscore", step=4)
    expect(page.get_by_role("table", name="Runs")).to_contain_text(f"{shown(better['map'])} epoch 4")
    expect(page.get_by_role("table", name="Results").locator("tbody tr")).to_have_count(5)
    assert page.evaluate("window.scrollY") == position
    assert page.get_by_role("searchbox").input_value() == "a epoch"
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    whole = (folder / "a" / "epoch_004.boxscore").read_bytes()
    (folder / "a" / "epoch_004.boxscore").write_bytes(whole[: len(whole) // 2])
    broken = page.get_by_role("table", name="Files that can't be read")
    expect(broken).to_contain_text("a/epoch_004.boxscore")
    expect(broken).to_contain_text(f"the saved result is truncated: got {len(whole) // 2:,} of {len(whole):,} bytes")
    expect(page.get_by_role("table", name="Runs")).not_to_contain_text(shown(better["map"]))
    (folder / "a" / "epoch_004.boxscore").write_bytes(whole)
    expect(page.get_by_role("table", name="Runs")).to_contain_text(shown(better["map"]))
    expect(broken).to_be_hidden()
    shutil.rmtree(folder / "b")
    expect(page.locator(".over-epochs path.run")).to_have_count(1)


def test_it_warns_who_serves_everyone_and_ends_by_ctrl_c(browser: Browser, runs: Path) -> None:
    """With code 0, also while a page is open, which then says that its numbers are old. Proxies may be allowed."""
    with serving(runs, "--host", "0.0.0.0", "--allow-host", "proxy.example") as server:
        assert server.ask("/data", Host="proxy.example:80").status == 200
        assert server.ask("/data", Host="other.example").status == 421
        page = browser.new_page()
        page.goto(server.address)
        expect(page.locator("#live")).to_have_text("live")
        rule = "everyone who can reach this machine can read these results, without a password"
        warning = f"boxscore: warning: --host 0.0.0.0: {rule}\n"
        assert server.stop() == (0, "stopped\n", warning)
        expect(page.locator("#live")).to_have_text("no connection")
        expect(page.locator(".note").first).to_contain_text("The numbers below are of that time.")
        page.close()


def test_it_does_not_wait_for_a_report_that_takes_long(runs: Path) -> None:
    """Ctrl-C ends it while another thread draws resamples."""
    with serving(runs, "--bootstrap", "1000000") as server:
        parts = urlsplit(server.address)
        with closing(socket.create_connection((parts.hostname, parts.port))) as connection:
            connection.sendall(b"GET /report?result=a/epoch_003.boxscore HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert server.ask("/data").status == 200
            assert server.stop() == (0, "stopped\n", "")


def test_json_of_eval_has_numbers_and_classes_but_no_comparison(visit: Visit, changing: tuple[Path, Server]) -> None:
    """Also of several models in one file; other JSON files are left alone."""
    folder, server = changing
    files = [str(sample.FOLDER / name) for name in ("truths.json", "detections.json")]
    (folder / "one").mkdir()
    assert main(["eval", *files, "--json", str(folder / "one" / "nightly.json"), "--quiet"]) == 0
    assert main(["eval", *files, f"old={files[1]}", "--json", str(folder / "two.json"), "--quiet"]) == 0
    (folder / "config.json").write_text('{"lr": 0.1}')
    (folder / "half.json").write_text((folder / "two.json").read_text()[:500])
    (folder / "infinite.json").write_text('{"protocol": "coco", "map": Infinity, "per_class": []}')
    (folder / "checkpoint.pt").write_bytes(b"PK")
    page = visit(server.address)
    expect(page.get_by_role("table", name="Results").locator("tbody tr")).to_have_count(3)
    assert page.get_by_role("checkbox", name="Compare").count() == 0
    expect(page.get_by_role("region", name="Compare two results")).to_be_hidden()
    expect(page.get_by_text("so there is no chart")).to_be_visible()
    unreadable = rows(page, "Files that can't be read")
    assert len(unreadable) == 2
    assert re.search(r"half\.json\s+it is not valid JSON: ", unreadable[0])
    assert re.search(r"infinite\.json\s+`map` must be a finite number; got inf", unreadable[1])
    page.get_by_role("table", name="Results").get_by_role("link", name="nightly.json").click()
    result = boxscore.evaluate(DETECTIONS, TRUTHS)
    expect(page.get_by_role("table", name="All numbers")).to_contain_text(shown(result["map_small"]))
    names = page.get_by_role("table", name="Classes").locator("tbody th").all_text_contents()
    assert sorted(names) == sorted(result.per_class.name)
    refused = server.ask("/compare?first=one/nightly.json&second=two.json%230")
    assert refused.status == 422
    assert b"nightly.json: has numbers only; a report needs a file of `Result.save`" in refused.body


def test_an_empty_folder_says_what_to_write_and_a_missing_one_why(visit: Visit, changing: tuple[Path, Server]) -> None:
    """And neither is an error."""
    folder, server = changing
    page = visit(server.address)
    expect(page.locator(".note pre").first).to_contain_text("metric.compute().save(")
    expect(page.locator(".over-epochs")).to_be_hidden()
    folder.rmdir()
    expect(page.locator("main")).to_contain_text("can't be read: No such file or directory")
    RESULTS["a"][0].save(folder / "epoch_0.boxscore")
    expect(page.locator(".over-epochs circle")).to_have_count(1)


HOSTILE = "<img src=x onerror=alert(1)>"


def test_no_name_becomes_markup(visit: Visit, changing: tuple[Path, Server]) -> None:
    """Neither of a folder, nor of a file, nor of a model, nor an address."""
    folder, server = changing
    RESULTS["a"][0].save(folder / HOSTILE / "epoch_0.boxscore", name=HOSTILE)
    RESULTS["a"][1].save(folder / HOSTILE / "'\"&?#%2e.boxscore", name=HOSTILE)
    (folder / HOSTILE / f"{HOSTILE}.boxscore").write_text("no")
    page = visit(server.address)
    expect(page.get_by_role("table", name="Runs")).to_contain_text(HOSTILE)
    expect(page.get_by_role("table", name="Files that can't be read")).to_contain_text(f"{HOSTILE}.boxscore")
    assert page.locator("img").count() == 0
    page.get_by_role("table", name="Results").get_by_role("link", name=HOSTILE).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{HOSTILE}, {HOSTILE}")
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(visit: Visit, server: Server, scheme: str) -> None:
    """And the colours that the reader chooses are those of the reports, too."""
    page = visit(server.address, width=375, has_touch=True, is_mobile=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    paper = "() => getComputedStyle(document.body).backgroundColor"
    other = "Light colours" if scheme == "dark" else "Dark colours"
    before = page.evaluate(paper)
    page.get_by_role("button", name=other).click()
    chosen = page.evaluate(paper)
    assert chosen != before
    page.goto(f"{server.address}report?result=a/epoch_000.boxscore")
    assert page.evaluate(paper) == chosen


def test_only_this_machine_is_answered_and_only_under_its_own_names(server: Server) -> None:
    """A site whose name is made to lead here (DNS rebinding) reads nothing."""
    assert server.address.startswith("http://127.0.0.1:")
    for host in ("localhost", "localhost:8400", "127.0.0.1", "[::1]:80", "10.0.0.7"):
        assert server.ask("/data", Host=host).status == 200, host
    strange = ["evil.example", "evil.example:8400", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1"]
    strange += ["[::1].evil.example", "[::1]evil.example:80", "[localhost]", "::1", "localhost:", "localhost:80:80"]
    strange += ["evil.example@127.0.0.1", "127.0.0.1@evil.example", "127.0.0.1/evil", "[127.0.0.1", "127.0.0.1]"]
    for host in strange:
        answer = server.ask("/data", Host=host)
        assert answer.status in (400, 421), host
        assert b"epoch" not in answer.body


@pytest.fixture(scope="module")
def hasty(runs: Path) -> Iterator[Server]:
    """A server that waits for less than a second."""
    setup = "import boxscore.report.serving.connections as its; its.REQUEST_SECONDS, its.RESPONSE_SECONDS = 0.4, 1.0"
    with serving(runs, setup=setup) as server:
        yield server


def connected(server: Server, sent: bytes) -> socket.socket:
    """A connection that has sent something."""
    parts = urlsplit(server.address)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=30)
    connection.sendall(sent)
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Whether the server ends a connection, after whatever it sends."""
    try:
        while connection.recv(2**16):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


WHOLE = b"GET /favicon.ico HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        WHOLE + b"GET / HTTP/1.1\r\n",
        WHOLE.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000\r\n\r\nhalf"),
        WHOLE.replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha"),
    ],
    ids=["nothing", "method", "header", "second", "body", "chunk"],
)
def test_a_request_that_is_not_sent_whole_ends_its_connection(hasty: Server, sent: bytes) -> None:
    """Also if a byte of it comes now and then."""
    with closing(connected(hasty, sent)) as connection:
        connection.settimeout(0.1)
        for _ in range(100):
            if is_ended(connection):
                break
            with suppress(OSError):
                connection.sendall(b"x")
        else:
            pytest.fail("the connection is still open after ten seconds")
    assert hasty.ask("/data").status == 200


def test_responses_that_are_not_read_end_their_connection(hasty: Server) -> None:
    """They would be kept in memory; those that are read slowly are sent to their end."""
    num_asked = 12  # together more than the system's buffers hold
    asked = b"GET /report?result=a/epoch_003.boxscore HTTP/1.1\r\nHost: localhost\r\n\r\n" * num_asked
    size = num_asked * len(hasty.ask("/report?result=a/epoch_003.boxscore").body)
    received = {}
    for name, pause in (("slowly", 0.05), ("too late", 3.0)):
        with closing(connected(hasty, asked)) as connection:
            time.sleep(pause)
            got = 0
            with suppress(ConnectionResetError):
                while part := connection.recv(2**16):
                    got += len(part)
                    time.sleep(0.005)
            received[name] = got
    assert received["slowly"] >= size
    assert received["too late"] < size


def test_connections_that_wait_make_room_for_those_that_ask(runs: Path) -> None:
    """Half-sent requests can't use up the files that a process may open."""
    setup = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    with serving(runs, setup=setup) as server, ExitStack() as stack:
        connections = [stack.enter_context(closing(connected(server, b"GET / HTTP/1.1\r\nHost: "))) for _ in range(300)]
        assert server.ask("/data").status == 200
        assert is_ended(connections[0])
        connections[-1].sendall(b"localhost\r\n\r\n")
        assert connections[-1].recv(15) == b"HTTP/1.1 200 OK"
        assert server.stop() == (0, "stopped\n", "")


CRAFTED: list[dict[str, Any]] = [
    {"numbers": {"map": 10**400}},
    {"numbers": {"map": "0.5"}},
    {"step": 10**400},
    {"num_given": "all"},
    {"name": "\ud800"},
    {"subset": ["\ud800"]},
    {"image_names": [[1, "\ud800"], [2, ""]]},
    {"time": "9999-12-31T23:59:59-14:00"},
    {"title": 10**400},
]


def test_a_crafted_file_is_no_failure_of_the_server(changing: tuple[Path, Server]) -> None:
    """It is listed with the reason, or its report is shown."""
    folder, server = changing
    path = folder / "whole.boxscore"
    RESULTS["a"][0].save(path)
    for index, changes in enumerate(CRAFTED):
        (folder / f"{index}.boxscore").write_bytes(sealed(path.read_bytes(), **changes))
    classes = [{"name": "\ud800", "ap": 10**400, "ar": "1"}, {"name": 10**400}, 3, None]
    document = {"protocol": ["coco"], "map": 0.5, "name": 10**400, "per_class": classes, "comparable": 10**400}
    (folder / "odd.json").write_text(json.dumps(document))
    (folder / "large.json").write_text(json.dumps(document | {"map": 10**400}))
    assert server.ask("/").status == 200
    (run,) = json.loads(server.ask("/data").body)["runs"]
    listed = {each["id"]: each["why"] for each in run["unreadable"]}
    assert listed["0.boxscore"] == "the saved result is invalid: `numbers` must be finite"
    assert listed["3.boxscore"] == "the saved result is invalid: `num_given` must be a non-negative integer"
    assert listed["large.json"].startswith("`map` must be a finite number; got 1000")
    for result in run["results"]:
        assert server.ask(f"/report?{urlencode({'result': result['id']})}").status == 200, result["id"]
    assert {"whole.boxscore", "odd.json"} <= {result["id"] for result in run["results"]}


def test_the_overview_has_the_numbers_of_the_report(changing: tuple[Path, Server]) -> None:
    """Whatever the header of a file says."""
    folder, server = changing
    RESULTS["a"][0].save(folder / "epoch_0.boxscore")
    content = (folder / "epoch_0.boxscore").read_bytes()
    (folder / "epoch_0.boxscore").write_bytes(sealed(content, numbers={"map": 0.99}, title="better rules"))
    (run,) = json.loads(server.ask("/data").body)["runs"]
    (result,) = run["results"]
    assert shown(result["numbers"]["map"]) == shown(RESULTS["a"][0]["map"])
    assert result["title"] == RESULTS["a"][0].protocol.title


@pytest.mark.parametrize(
    "path",
    [
        "/report?result=../runs/a/epoch_000.boxscore",
        "/report?result=a/../a/epoch_000.boxscore",
        "/report?result=/etc/passwd",
        "/report?result=%2e%2e%2fsecret.boxscore",
        "/report?result=a/epoch_000.boxscore&result=a/epoch_000.boxscore",
        "/report",
        "/compare?first=a/epoch_000.boxscore",
        "/assets/..%2fshell.html",
        "/assets/../../web.py",
        "/../../../etc/passwd",
        "/a/epoch_000.boxscore",
    ],
)
def test_an_address_is_never_a_path(server: Server, runs: Path, path: str) -> None:
    """Results are found by name among those that are listed."""
    shutil.copy(runs / "a" / "epoch_000.boxscore", runs.parent / "secret.boxscore")
    answer = server.ask(path)
    assert answer.status == 404
    assert b"Not found" in answer.body


def test_every_answer_has_a_policy_and_data_is_sent_once(server: Server) -> None:
    """Pages run their own scripts alone, in no frame; what has not changed is not sent again."""
    for path in ("/", "/data", "/assets/runs.js", "/nothing"):
        policy = server.ask(path).headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy, path
        assert "unsafe" not in policy
    report = server.ask("/report?result=a/epoch_000.boxscore")
    assert report.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert b"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-" in report.body
    tag = server.ask("/data").headers["etag"]
    again = server.ask("/data", If_None_Match=tag)
    assert (again.status, again.body) == (304, b"")


def test_a_port_in_use_is_named_with_the_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And so is a host that is not of this machine, and a folder that is none."""
    with closing(web.listen("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(tmp_path), "--port", port]) == 1
    expected = f"boxscore: port {port} is in use; choose another with --port, or any free one with --port 0\n"
    assert capsys.readouterr().err == expected
    assert main(["serve", str(tmp_path), "--host", "192.0.2.1", "--port", "0"]) == 1
    assert capsys.readouterr().err == "boxscore: --host must be an address of this machine; got '192.0.2.1'\n"
    (tmp_path / "file").write_text("")
    assert main(["serve", str(tmp_path / "file")]) == 1
    assert "file: must be a folder; got a file" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "nothing")]) == 1
    assert "nothing: no such folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["serve", str(tmp_path), "--port", "65536"])
    assert "argument --port: must be at most 65535; got '65536'" in capsys.readouterr().err


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """Before a port is opened."""
    code = (
        f"import sys; sys.modules['uvicorn'] = None; from boxscore.cli import main; main(['serve', {str(tmp_path)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "boxscore: `boxscore serve` needs starlette and uvicorn: pip install 'boxscore[serve]'\n"


def test_the_data_has_every_result_once(server: Server) -> None:
    """In the order of steps, with the numbers of each."""
    runs = json.loads(server.ask("/data").body)["runs"]
    assert [run["name"] for run in runs] == ["a", "b"]
    for run in runs:
        assert [result["step"] for result in run["results"]] == [0, 1, 2, 3]
        found = [result["numbers"]["map"] for result in run["results"]]
        assert [shown(value) for value in found] == [shown(result["map"]) for result in RESULTS[run["name"]]]
