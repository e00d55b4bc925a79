"""`boxscore devices`: every way on every device has the bits of host memory, and the report says so."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boxscore.cli import devices, main

pytest.importorskip("torch")

SMALL = ["--images", "2", "--updates", "1"]
LISTS = devices.WAYS["lists"]
GEOMETRIES = {"boxes", "masks", "keypoints", "oriented boxes"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The JSON for PyTorch."""
    path = tmp_path_factory.mktemp("devices") / "devices.json"
    assert main(["devices", "--frameworks", "torch", *SMALL, "--json", str(path), "--quiet"]) == 0
    return json.loads(path.read_text())


def rows_on(report: Any, device: str) -> list[dict[str, Any]]:
    """The rows of one device."""
    return [row for row in report["rows"] if row["device"] == device]


@pytest.mark.parametrize("device", ["cpu", "counting"])
def test_every_way_has_the_bits_of_host_memory(report: Any, device: str) -> None:
    """For every geometry."""
    rows = rows_on(report, device)
    ways = {(geometry, way) for geometry in GEOMETRIES for way in devices.WAYS} | {("boxes", "boxscore.torch")}
    assert {(row["geometry"], row["way"]) for row in rows} == ways
    assert {row["bits"] for row in rows} == {"equal"}


def test_times_are_those_of_real_devices(report: Any) -> None:
    """The counting device has counts instead."""
    for row in rows_on(report, "cpu"):
        assert row["update_ms"] > 0
        assert row["total_ms"] > 0
        assert "launches" not in row
    for row in rows_on(report, "counting"):
        assert "total_ms" not in row
        assert row["launches"] + row["copies_to_host"] > 0


def test_an_update_of_lists_waits_for_nothing_on_the_counting_device(report: Any) -> None:
    """While a copy by the caller waits for each array."""
    reads = {(row["geometry"], row["way"]): row["reads"] for row in rows_on(report, "counting")}
    for geometry in GEOMETRIES - {"masks"}:
        assert reads[geometry, "lists"] == 0
        assert reads[geometry, devices.HOST_COPY] >= 10


def test_the_report_names_versions_and_the_machine(report: Any) -> None:
    """What one needs to read it elsewhere."""
    import torch

    assert report["frameworks"] == {"torch": torch.__version__}
    assert {"boxscore", "python", "platform", "processor", "cores", "images", "updates"} <= report.keys()


def test_the_state_of_jax_has_its_row(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """For boxes; double precision is on for the command and not afterwards."""
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    monkeypatch.setattr(devices, "WAYS", {devices.HOST_COPY: devices.WAYS[devices.HOST_COPY]})
    try:
        assert main(["devices", "--frameworks", "jax", *SMALL]) == 0
        assert not jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", before)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "boxscore.jax" in line]
    assert [row[:5] for row in rows] == [["jax", "cpu", "boxes", "boxscore.jax", "equal"]]


def test_a_framework_that_is_not_installed_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others are measured."""
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setattr(devices, "WAYS", {devices.HOST_COPY: devices.WAYS[devices.HOST_COPY]})
    assert main(["devices", "--frameworks", "jax,torch", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("PyTorch ")
    assert lines[2].endswith(", JAX: not installed")
    assert any(line.startswith("torch cpu") for line in lines)


Begin = Callable[[Any, Any, int], devices.Stream]


def losing_a_detection(case: Any, place: Any, num_updates: int) -> devices.Stream:
    """A way that evaluates something else."""
    preds = [{name: column[:-1] for name, column in pred.items()} for pred in case.preds]
    return LISTS(case._replace(preds=preds), place, num_updates)


def failing(case: Any, place: Any, num_updates: int) -> devices.Stream:
    """A way that an accelerator has no operation for."""
    raise NotImplementedError("no such operation\non this device")


@pytest.mark.parametrize(
    ("way", "bits", "message"),
    [
        (losing_a_detection, "differ", "differ"),
        (failing, "failed", "torch cpu, boxes, losing: NotImplementedError: no such operation"),
    ],
)
def test_other_bits_and_failures_are_exit_code_1(
    way: Begin, bits: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row says which way on which device; a failure has its message below the table."""
    monkeypatch.setattr(devices, "WAYS", {devices.HOST_COPY: devices.WAYS[devices.HOST_COPY], "losing": way})
    assert main(["devices", "--frameworks", "torch", *SMALL]) == 1
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.startswith("torch cpu") and " losing " in line]
    assert {row[row.index("losing") + 1] for row in rows} == {bits}
    assert len(rows) == len(GEOMETRIES)
    assert message in out


def test_an_unknown_framework_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """With the names there are."""
    with pytest.raises(SystemExit) as stopped:
        main(["devices", "--frameworks", "torch,mxnet"])
    assert stopped.value.code == 2
    assert "argument --frameworks: must be among torch, jax, tensorflow; got 'mxnet'" in capsys.readouterr().err


def test_json_to_stdout_replaces_the_tables(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a pipe."""
    monkeypatch.setattr(devices, "WAYS", {devices.HOST_COPY: devices.WAYS[devices.HOST_COPY]})
    assert main(["devices", "--frameworks", "torch", *SMALL, "--json", "-"]) == 0
    assert {row["device"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"cpu", "counting"}


def test_an_output_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is measured."""
    assert main(["devices", "--json", str(tmp_path / "missing" / "devices.json")]) == 1
    assert "can't be written" in capsys.readouterr().err
