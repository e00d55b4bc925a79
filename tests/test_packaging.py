"""What is released says the same everywhere, and holds what it says."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore._support.versions import OLDEST, VersionError
from tests.support.documents import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_all_texts_name_the_same_version() -> None:
    """The module, the installed package, the newest entry of the changelog and the citation."""
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert cited is not None
    assert {version("boxscore"), newest.group(1).rstrip(","), cited.group(1)} == {boxscore.__version__}


def test_all_texts_name_the_same_addresses() -> None:
    """Those of `project.urls`."""
    site, repository = PROJECT["urls"]["Homepage"], PROJECT["urls"]["Repository"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"url: {site}\nrepository-code: {repository}\n" in citation
    settings = (ROOT / "mkdocs.yml").read_text()
    assert f"site_url: {site}\n" in settings
    assert f"repo_url: {repository}\n" in settings


def test_the_page_on_a_package_index_has_no_relative_links() -> None:
    """Nor pictures: no files are beside it."""
    page = str(distribution("boxscore").metadata["Description"])
    assert "# boxscore" in page
    targets = re.findall(r"\]\(([^)]+)\)", page) + re.findall(r'(?:src|srcset|href)="([^"]+)"', page)
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []


def test_the_licences_of_everything_inside_are_in_the_package() -> None:
    """One text for each component of the list of contents, and the expression names them all."""
    package = distribution("boxscore")
    texts = {Path(str(path)).stem for path in package.files or [] if "licenses" in Path(str(path)).parts}
    assert texts >= {"LICENSE", "nanobind", "robin-map", "libcxx", "libcxxabi", "libunwind", "zig"}
    expression = package.metadata["License-Expression"]
    assert expression == "MIT AND BSD-3-Clause AND Apache-2.0 WITH LLVM-exception"


def test_the_list_of_contents_names_what_was_compiled_in() -> None:
    """CycloneDX, in the package's metadata."""
    (path,) = [path for path in distribution("boxscore").files or [] if str(path).endswith("sboms/boxscore.cdx.json")]
    contents = json.loads(path.read_text())
    components = {component["name"]: component for component in contents["components"]}
    assert contents["metadata"]["component"]["version"] == boxscore.__version__
    assert {"nanobind", "robin-map"} <= components.keys()
    assert re.fullmatch(r"\d+\.\d+\.\d+", components["nanobind"]["version"])


@pytest.mark.parametrize("name", ["sbom.cdx.json.in", "sbom_zig.cdx.json.in"])
def test_a_list_of_contents_names_a_licence_and_its_users(name: str) -> None:
    """Each component has both."""
    contents = json.loads((ROOT / "release" / name).read_text())
    references = {component["bom-ref"] for component in contents["components"]}
    used = {user for each in contents["dependencies"] for user in each["dependsOn"]}
    assert used == references
    assert all(component["licenses"] for component in contents["components"])


def test_differences_between_systems_and_compilers_are_in_one_place() -> None:
    """The rest of the engine is plain C++."""
    macros = r"_MSC_VER|_WIN32|_M_X64|__APPLE__|__linux__|__GNUC__|__clang__|__SSE|__AVX|__builtin_|__attribute__"
    core = ROOT / "src" / "core"
    found = {
        str(path.relative_to(core))
        for path in [*core.rglob("*.h"), *core.rglob("*.cpp")]
        if re.search(macros, path.read_text())
    }
    names = ("compiler.h", "processor.h", "system.cpp", "system.h", "thread_end.cpp")
    assert found == {f"platform/{name}" for name in names}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_what_anyone_can_run(path: Path) -> None:
    """Targets of the Makefile, or the one script of CI; and actions that nobody can change afterwards."""
    text = path.read_text()
    commands = re.findall(r"^ +- run: (.*)$", text, flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for command in commands:
        assert command == "bash .ci/run" or command.split()[0] == "make"
        if command.startswith("make "):
            assert {word for word in command.split()[1:] if "=" not in word} <= targets
    actions = re.findall(r"uses: ([^.\s]\S*)", text)
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in actions)
    assert commands or actions


def test_classifiers_name_the_versions_that_are_tested() -> None:
    """Those of the workflow."""
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "test.yml").read_text())
    assert matrix is not None
    tested = set(re.findall(r"3\.\d+", matrix.group(1)))
    prefix = "Programming Language :: Python :: "
    named = {text.removeprefix(prefix) for text in PROJECT["classifiers"] if re.fullmatch(prefix + r"3\.\d+", text)}
    assert named == tested


def test_adapters_need_the_versions_that_their_extras_install() -> None:
    """One table, the same as pyproject.toml and the page on installing."""
    page = (ROOT / "docs" / "get-started" / "install.md").read_text()
    for extra, packages in OLDEST.items():
        requirements = [
            re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+).*", each) for each in PROJECT["optional-dependencies"][extra]
        ]
        assert packages == {each[1]: each[2] for each in requirements if each}
        assert ", ".join(f"{package} {oldest}" for package, oldest in packages.items()) in page


ADAPTERS = {
    "evaluate": "import boxscore.huggingface; boxscore.huggingface.EvaluateMetric",
    "huggingface": "import boxscore.huggingface; boxscore.huggingface.DetectionMetrics",
    "jax": "import boxscore.jax",
    "keras": "import boxscore.keras",
    "ray": "import boxscore.ray; boxscore.ray.connect()",
    "torch": "import boxscore.torch",
    "torchmetrics": "import boxscore.torchmetrics",
    "ultralytics": "import boxscore.ultralytics",
}
"""What needs the packages of each extra."""


@pytest.mark.parametrize(("extra", "package"), [(extra, package) for extra in OLDEST for package in OLDEST[extra]])
@pytest.mark.parametrize("is_imported", [False, True])
def test_an_adapter_fails_loudly_with_an_older_framework(
    extra: str, package: str, is_imported: bool, tmp_path: Path
) -> None:
    """It names what was found, what is needed and the command; an older framework may run, and add no number."""
    assert ADAPTERS.keys() == OLDEST.keys()
    oldest = OLDEST[extra][package]
    older = "0.0.9" if oldest.startswith("0.") else f"{int(oldest.split('.')[0]) - 1}.999.0"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text(f'__version__ = "{older}"\n')
    (tmp_path / f"{package}-{older}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {older}\n"
    (tmp_path / f"{package}-{older}.dist-info" / "METADATA").write_text(metadata)
    code = (f"import {package}; " if is_imported else "") + ADAPTERS[extra]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert f"needs {package} {oldest} or newer; found {older}: pip install 'boxscore[{extra}]'" in done.stderr
    assert "VersionError: " in done.stderr


def test_a_version_error_is_an_import_error_and_an_input_error() -> None:
    """So that `except ImportError` around an adapter finds it, and the command prints one line."""
    assert issubclass(VersionError, ImportError)
    assert issubclass(VersionError, boxscore.InputError)
