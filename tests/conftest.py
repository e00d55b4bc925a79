"""Backends: the same test on every array library, eager and compiled. And torchmetrics' own metric, and a browser."""

import math
import os
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    from boxscore import Result

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow greets on stderr
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")


@dataclass(frozen=True)
class Backend:
    """One way to run a kernel."""

    name: str
    array: Callable[[Any], Any]
    """NumPy array to the library's own."""
    compile: Callable[[Callable[..., Any]], Callable[..., Any]]
    """The function as the library compiles it, or as it is."""


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _read_only(values: Any) -> Any:
    array = np.array(values)
    array.flags.writeable = False
    return array


def make_backend(name: str) -> Backend:
    """A backend by name; imports its library."""
    library, _, mode = name.partition("-")
    if library == "numpy":
        return Backend(name, _read_only if mode == "readonly" else np.asarray, _as_it_is)
    if library == "torch":
        import torch

        def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
            # The whole graph or an error; no C++ compiler in the loop, so that a test takes a moment.
            torch.compiler.reset()  # every test compiles anew; PyTorch allows one function 8 times
            return torch.compile(function, fullgraph=True, backend="aot_eager")  # type: ignore[no-any-return]

        return Backend(name, lambda values: torch.from_numpy(np.array(values)), compiled if mode else _as_it_is)
    if library == "jax":
        import jax

        jax.config.update("jax_enable_x64", True)
        return Backend(name, jax.numpy.asarray, jax.jit if mode else _as_it_is)
    import tensorflow as tf

    return Backend(name, tf.convert_to_tensor, tf.function if mode else _as_it_is)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The file that takes longest comes first, so that no process waits for it at the end."""
    items.sort(key=lambda item: item.path.name != "test_ray.py")


EAGER = ["numpy", "numpy-readonly", "torch", "jax", "tensorflow"]
COMPILED = ["torch-compile", "jax-jit", "tensorflow-function"]


@pytest.fixture(params=EAGER)
def eager(request: pytest.FixtureRequest) -> Backend:
    """Every library, as it runs by itself."""
    return make_backend(request.param)


@pytest.fixture(params=[*EAGER, *COMPILED])
def backend(request: pytest.FixtureRequest) -> Backend:
    """Every library, eager and compiled."""
    return make_backend(request.param)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Torchmetrics' own metric, with the one function of torchvision that it calls."""
    import torchmetrics.detection.mean_ap as module

    def box_convert(boxes: Any, in_fmt: str, out_fmt: str) -> Any:
        assert (in_fmt, out_fmt) == ("xywh", "xywh")
        return boxes

    ops = types.ModuleType("torchvision.ops")
    ops.box_convert = box_convert  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.ops", ops)
    monkeypatch.setattr(module, "_TORCHVISION_AVAILABLE", True)
    return module.MeanAveragePrecision


@pytest.fixture(scope="session")
def result() -> "Result":
    """The sample under COCO."""
    import boxscore
    from boxscore.cli import sample

    return boxscore.evaluate(*sample.load())


@pytest.fixture(scope="session")
def html(result: "Result") -> str:
    """The HTML report on the sample."""
    return result.to_html(title="The sample")


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """Headless Chromium, from the system; where CI is set it has to be there.

    For one module only: other modules have tests that interrupt processes.
    """
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        why = f"none of {', '.join(names)} is installed (Debian: apt-get install chromium)"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        yield chromium
        chromium.close()


@pytest.fixture
def show(browser: "Browser", tmp_path: Path) -> "Iterator[Callable[..., Page]]":
    """Shows HTML as a file, from which nothing may be asked and in which nothing may go wrong."""
    from playwright.sync_api import expect

    contexts: list[BrowserContext] = []
    troubles: list[str] = []

    def show(html: str, *, width: int = 1280, **settings: Any) -> "Page":
        file = tmp_path / f"report {len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **settings))
        page = contexts[-1].new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if request.url == file.as_uri() else troubles.append(request.url))
        page.goto(file.as_uri())
        figures = page.locator("figure")
        for i in range(figures.count()):
            expect(figures.nth(i).locator("svg")).to_be_attached()
        return page

    yield show
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def libm_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's exp is the C library's, as on processors without AVX-512: pycocotools' last bits depend on that."""

    def exp(values: Any) -> Any:
        if np.asarray(values).dtype == object:
            return numpy_exp(values)  # and its error
        exps = [math.exp(value) if value < 709 else float(numpy_exp(value)) for value in np.ravel(values).tolist()]
        return np.array(exps).reshape(np.shape(values))

    numpy_exp = np.exp
    monkeypatch.setattr(np, "exp", exp)
