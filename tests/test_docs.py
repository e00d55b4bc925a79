"""The documents tell the truth: their examples run, and their output is the output."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import boxscore
from boxscore.analysis.diagnosis import Kind
from boxscore.cli import main
from boxscore.cli.sample import FOLDER
from boxscore.model.protocol_table import PROTOCOLS, REFERENCES
from tests.support.documents import ROOT, blocks
from tests.support.rule_table import RULES, TOOLS_BETWEEN, documented, rule_table, tool_table
from tests.support.shared import shared_data


def test_the_readme_opens_with_an_example_that_gives_what_it_says() -> None:
    """Each line with a number behind a # evaluates to it."""
    example = blocks("README.md", "python")[0]
    names: dict[str, Any] = {}
    exec(example.split("\n\nresult[")[0], names)
    claims = re.findall(r"^(result\[.*?\]) +# ([\d.]+)$", example, flags=re.MULTILINE)
    assert len(claims) == 2
    for expression, value in claims:
        assert eval(expression, names) == float(value)


def test_the_readme_shows_what_make_demo_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """To the letter."""
    main(["demo"])
    assert blocks("README.md", "text") == [capsys.readouterr().out]


def test_the_examples_of_training_run() -> None:
    """One after the other, with a detector that finds every truth."""
    import torch

    boxes, labels = torch.tensor([[0.0, 0.0, 9.0, 9.0], [5.0, 5.0, 20.0, 30.0]]), torch.tensor([0, 1])
    found = {"boxes": boxes, "scores": torch.tensor([0.9, 0.8]), "labels": labels}
    masks = torch.eye(2)[:, :, None].expand(2, 2, 3)
    dataset = [(torch.zeros(3, 8, 8), {"boxes": boxes, "labels": labels, "image_id": image}) for image in (7, 8)]
    names: dict[str, Any] = {"boxes": boxes, "labels": labels, "dataset": dataset, "class_names": ["cat", "dog"]}
    names["masked_loader"] = [([torch.zeros(3, 2, 3)], [{"masks": masks.bool(), "labels": labels}])]
    names["mask_rcnn"] = lambda _: [{**found, "masks": masks[:, None]}]
    names["loader"] = [([image], [target]) for image, target in dataset]
    names["model"] = lambda images: [found] * (1 if torch.is_tensor(images) else len(images))
    names["padded_model"] = lambda images: {key: torch.stack([value] * len(images)) for key, value in found.items()}
    names["print"] = lambda *_: None
    examples = blocks("docs/training.md", "python")
    assert len(examples) == 8
    for example in examples:
        exec(example, names)
        if "result" in names:
            assert names["result"]["map"] == pytest.approx(1)
    assert names["metric"].compute()["map_per_class"].tolist() == pytest.approx([1, 1])


def test_the_examples_of_protocols_run() -> None:
    """Changed protocols, kinds and coverage."""
    shapes: dict[str, Any] = {"image": [0], "label": [3], "box": [[0, 0, 10, 10]], "mask": np.ones((1, 10, 10), bool)}
    truths = boxscore.Truths(**shapes)
    detections = boxscore.Detections(**shapes, score=[0.9])
    names: dict[str, Any] = {"boxscore": boxscore, "np": np, "truths": truths, "detections": detections}
    saying, changing, comparing, posing, turning, covering, adding = blocks("docs/protocols.md", "python")
    exec(saying, names)
    for expression, words in re.findall(r"^(\S.*?)  # (.*)$", saying, flags=re.MULTILINE):
        assert str(eval(expression, names)) == words
    exec(changing, names)
    assert "mar_300" in boxscore.evaluate(detections, truths, names["coco300"])
    assert boxscore.evaluate(detections, truths, names["strict"])["map_tiny"] == pytest.approx(1)
    exec(comparing, names)
    exec(posing, names)
    assert boxscore.evaluate(names["found_poses"], names["truth_poses"], names["arrows"])["map"] == pytest.approx(0.9)
    exec(turning, names)
    assert boxscore.evaluate(names["found_ships"], names["ships"])["map"] == pytest.approx(0.505, abs=1e-3)
    assert boxscore.evaluate(names["found_ships"], names["ships"], "dota")["map"] == 0.5
    exec(covering, names)
    assert names["coverage"].is_exhaustive.tolist() == [True, False, True]
    exec(adding, names)
    assert {"map", "mr", "olrp"} <= boxscore.evaluate(detections, truths, names["pedestrians"]).keys()


def test_the_pieces_of_scaling_make_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard to a file, and files to the result."""
    import pyarrow as pa

    table = pa.table({"image": [1, 2], "label": [1, 1], "score": [0.9, 0.8], "box": [[0, 0, 9, 9]] * 2})
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"detections": table, "truths": table, "paths": ["part-00017.tally"], "boxscore": boxscore}
    _, pieces = blocks("docs/scaling.md", "python")
    exec(pieces, names)
    assert names["result"]["map"] == pytest.approx(1)


def test_table_1_in_the_docs_is_the_one_that_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """From the real data."""
    main(["table1", str(shared_data("voc2007/Annotations.zip")), str(shared_data("voc2007/results"))])
    shown = blocks("docs/table1.md", "console")[0]
    assert shown.split("\n", 1)[1] == capsys.readouterr().out


@pytest.fixture
def sample_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the documents' examples run: a folder with the sample and half of its detections."""
    for name in ("truths.json", "detections.json"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    every_other = json.loads((FOLDER / "detections.json").read_text())[::2]
    (tmp_path / "fewer.json").write_text(json.dumps(every_other))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_commands_print(shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each in turn, to the letter."""
    for block in shown:
        command, expected = block.removeprefix("$ boxscore ").split("\n", 1)
        main(command.split())
        out, err = capsys.readouterr()
        assert err + out == expected, command


def test_the_script_of_pycocotools_prints_what_the_docs_show(tmp_path: Path) -> None:
    """To the letter, but for seconds."""
    for name in ("truths.json", "detections.json"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    script = blocks("docs/pycocotools.md", "python")[0]
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert [re.sub(r"t=\d+\.\d\ds", "t=0.00s", done.stdout)] == blocks("docs/pycocotools.md", "text")


def test_the_commands_print_what_the_docs_show(sample_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the files that the docs show."""
    for name, content in zip(
        ("masks", "found", "poses", "found_poses", "odd", "odd_poses"), blocks("docs/commands.md", "json"), strict=True
    ):
        (sample_folder / f"{name}.json").write_text(content)
    for name, content in zip(("ships", "found_ships"), blocks("docs/commands.md", "csv"), strict=True):
        (sample_folder / f"{name}.csv").write_text(content)
    shown = blocks("docs/commands.md", "console")
    assert len(shown) == 18
    assert_commands_print(shown, capsys)


def test_the_analysis_is_what_the_docs_show(sample_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, with the groups that the docs show; and examples in Python, which print the text below them, if any."""
    (groups,) = blocks("docs/analysis.md", "csv")
    (sample_folder / "weather.csv").write_text(groups)
    shown = blocks("docs/analysis.md", "console")
    assert len(shown) == 3
    assert_commands_print(shown, capsys)

    truths = boxscore.read_truths("truths.json")
    old, new = (
        boxscore.evaluate(boxscore.read_detections(name, truths), truths) for name in ("fewer.json", "detections.json")
    )
    names: dict[str, Any] = {"boxscore": boxscore, "truths": truths, "old": old, "new": new, "result": new}
    block = r"```python\n((?:(?!```).)*)```(?:\n\n```text\n((?:(?!```).)*)```)?"
    examples = re.findall(block, (ROOT / "docs" / "analysis.md").read_text(), flags=re.DOTALL)
    assert len([text for _, text in examples if text]) >= 5
    for example, text in examples:
        exec(example, names)
        printed = capsys.readouterr().out
        assert not text or printed == text, example
    assert names["intervals"].low["map"] < new["map"] < names["intervals"].high["map"]
    assert names["change"].difference == new["map"] - old["map"]
    assert list(names["parts"]) == ["rain", "fog", "(none)"]


def test_every_kind_of_finding_is_in_the_docs() -> None:
    """And no other."""
    sources = [path.read_text() for path in (ROOT / "src" / "boxscore" / "formats" / "inspection").glob("*.py")]
    kinds = set(re.findall(r'(?<!, )kind="([a-z-]+)"(?! if)', "".join(sources)))
    kinds |= {"unreadable", "refused", "unused-class", "no-size"}
    kinds |= {"invalid-mask", "invalid-keypoints"}
    kinds |= {"score-range", "score-percent", "score-not-finite", "area-not-finite"}
    kinds |= set(get_args(Kind))
    kinds |= {"large-angle", "self-crossing", "not-convex", "large-side"}
    kinds |= {"swapped-sides", "turned-backwards", "radians-as-degrees"}
    text = (ROOT / "docs" / "commands.md").read_text()
    table = text.split("| kind | severity | found in |\n|---|---|---|\n")[1].split("\n\n")[0]
    documented = {kind for row in table.splitlines() for kind in re.findall(r"`([a-z-]+)`", row.split("|")[1])}
    assert documented == kinds


def test_every_link_between_documents_leads_somewhere() -> None:
    """Relative ones, from where they stand."""
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_table_of_rules_is_true() -> None:
    """Every rule of every protocol and every known tool are in docs/protocols.md; every protocol has a reference."""
    assert documented(RULES) == rule_table()
    assert documented(TOOLS_BETWEEN) == tool_table()
    parts = {name for name in PROTOCOLS if name.startswith("coco_wholebody_")}
    assert {*REFERENCES} == {*PROTOCOLS} - parts
