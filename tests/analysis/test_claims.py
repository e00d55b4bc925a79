"""The search for what gives a claimed number: every setting is found again, and shortcuts change no bit."""

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.analysis import claims
from boxscore.analysis.claim_settings import SETTINGS, Setting, images_with, labelled
from boxscore.analysis.claims import (
    MAIN_NUMBERS,
    MAIN_RULES,
    Variant,
    _Search,
    _Steps,
    _tools_alone,
    distinct_rules,
    explain_claim,
    read_claim,
)
from boxscore.analysis.known_tools import TOOLS
from boxscore.cli import main, terminal
from boxscore.cli.sample import FOLDER
from boxscore.data import Coverage
from boxscore.data.dataset import host_ids, take
from boxscore.protocol.table import PROTOCOLS
from tests.support.scenes import Scene, random_scene
from tests.support.shared import shared_data

BY_NAME = {setting.name: setting for setting in SETTINGS}


def apply_settings(
    detections: Detections, truths: Truths, protocol: Protocol, settings: Sequence[Setting]
) -> tuple[Detections, Truths, Protocol]:
    """Apply settings to the inputs and to the protocol."""
    for setting in settings:
        protocol = protocol.replace(**setting.changes)
    detections = labelled(detections, truths, settings)
    if any(setting.drops_images for setting in settings):
        truths = take(truths, np.isin(host_ids(truths.image_ids), images_with(detections, protocol.min_score)))
    return detections, truths, protocol


def crowded_scene(seed: int = 3) -> Scene:
    """A scene in which every setting has an effect: many detections per image, images without any, ignored truths."""
    scene = random_scene(seed, num_images=30, num_classes=5, most_detections=40)
    is_kept = scene.detection["image_ids"] % 5 > 0
    found = {name: column[is_kept] for name, column in scene.detection.items()}
    # The first image has hundreds, so limits of 100 and 300 matter.
    first = {
        name: np.concatenate([column, np.tile(column[:60], (20,) + (1,) * (column.ndim - 1))])
        for name, column in found.items()
    }
    rng = np.random.default_rng(seed)
    first["image_ids"][len(found["image_ids"]) :] = 1
    first["labels"][len(found["image_ids"]) :] = 0
    first["scores"] = rng.random(len(first["scores"]))
    return Scene(detection=first, truth=scene.truth, num_classes=scene.num_classes, num_images=scene.num_images)


LABELS = np.array([1, 2, 4, 7, 8])
"""With gaps, so that labels that are off by one, and positions, are others."""


@pytest.fixture(scope="module")
def scene() -> tuple[Detections, Truths]:
    """Both sides of it."""
    crowded = crowded_scene()
    detections, truths = crowded.detections, crowded.truths
    names = {label: f"class {label}" for label in LABELS.tolist()}
    return (
        replace(detections, labels=LABELS[np.asarray(detections.labels)]),
        replace(truths, labels=LABELS[np.asarray(truths.labels)], class_names=names),
    )


@pytest.mark.parametrize(
    ("claim", "low", "high"),
    [
        ("0.531", 0.5305, 0.5315),
        ("0.5310", 0.53095, 0.53105),
        (" .53", 0.525, 0.535),
        ("53.1", 0.5305, 0.5315),
        ("53.1%", 0.5305, 0.5315),
        ("53", 0.525, 0.535),
        ("0.5 %", 0.0045, 0.0055),
        ("1.0", 0.95, 1.05),
        ("100", 0.995, 1.005),
        (0.531, 0.5305, 0.5315),
        (53.1, 0.5305, 0.5315),
        ("5.31e-1", 0.5305, 0.5315),
    ],
)
def test_a_claim_has_the_digits_it_was_given_with(claim: Any, low: float, high: float) -> None:
    """The lower bound rounds to it, the upper one no longer does; percent are above 1."""
    wanted = read_claim(claim)
    assert (wanted.low, wanted.high) == (low, high)
    assert wanted.holds(low)
    assert not wanted.holds(high)
    assert not wanted.holds(float("nan"))


@pytest.mark.parametrize("claim", ["", "abc", "nan", "inf", "-0.5", "101", "120%", "0.5.1", None, True, [0.5]])
def test_what_is_no_claim_is_an_error(claim: Any) -> None:
    """With two examples."""
    with pytest.raises(InputError, match=r"`claim` must be a number from 0 to 1, such as 0\.531, or in percent"):
        read_claim(claim)


@pytest.mark.parametrize("claim", ["0", "1", 1])
def test_a_claim_needs_digits(claim: Any) -> None:
    """Half of all numbers round to 1."""
    with pytest.raises(InputError, match="`claim` must have digits behind the point"):
        read_claim(claim)


def test_rules_come_once_with_all_their_names(scene: tuple[Detections, Truths]) -> None:
    """Every tool and every protocol is among them, the main rules first."""
    rules = distinct_rules(*scene)
    names = [name for each in rules for name in each.names]
    assert set(names) == {*TOOLS, *PROTOCOLS}
    assert len(names) == len(set(names))
    assert [each.names[0] for each in rules[: len(MAIN_RULES)]] == list(MAIN_RULES)
    keys = {each.protocol.replace(name="", extra_numbers=()) for each in rules}
    assert len(keys) == len(rules)
    assert {"coco", "pycocotools", "olrp"} <= set(rules[0].names)


@pytest.mark.parametrize("name", ["coco", "ultralytics", "voc2007", "torchmetrics", "paper"])
def test_a_tool_alone_is_found(scene: tuple[Detections, Truths], name: str) -> None:
    """Without settings, by nine digits of its `map`."""
    protocol = TOOLS[name].protocol if name in TOOLS else Protocol.named(name)
    number = boxscore.evaluate(*scene, protocol)["map"]
    explanation = boxscore.analysis.explain_claim(*scene, f"{number:.9f}")
    first = explanation.matches[0]
    assert name in first.names
    assert (first.number, first.value, first.settings) == ("map", number, ())
    assert explanation.nearest == ()


@pytest.mark.parametrize("setting", SETTINGS, ids=BY_NAME)
def test_every_setting_is_found_again(scene: tuple[Detections, Truths], setting: Setting) -> None:
    """A number that a tool gives with one setting leads to it, unless a tool gives the same number without one."""
    for name in ("coco", "ultralytics"):
        detections, truths, protocol = apply_settings(*scene, Protocol.named(name), [setting])
        number = boxscore.evaluate(detections, truths, protocol)["map"]
        explanation = boxscore.analysis.explain_claim(*scene, f"{100 * number:.8f} %")
        assert all(each.value == pytest.approx(number, abs=1e-9) for each in explanation.matches)
        first = explanation.matches[0]
        is_simpler = not first.settings and first.value == pytest.approx(number, abs=1e-9)
        with_settings = {(rules, match.settings) for match in explanation.matches for rules in match.names}
        assert is_simpler or (name, (setting,)) in with_settings
    if setting.name not in ("limit 100", "limit 1,000", "no limit", "score cut-off 0.001"):
        coco = boxscore.evaluate(*scene)["map"]
        assert boxscore.evaluate(*apply_settings(*scene, Protocol.named("coco"), [setting]))["map"] != coco


def test_two_settings_are_found(scene: tuple[Detections, Truths]) -> None:
    """Where one is not enough."""
    chosen = [BY_NAME["score cut-off 0.3"], BY_NAME["images without detections left out"]]
    number = boxscore.evaluate(*apply_settings(*scene, Protocol.named("voc2012"), chosen))["map"]
    explanation = explain_claim(*scene, f"{number:.9f}")
    first = explanation.matches[0]
    assert first.names[0] == "voc2012"
    assert list(first.settings) == chosen
    assert first.how == "voc2012, score cut-off 0.3, images without detections left out"


def test_other_numbers_are_found_and_named(scene: tuple[Detections, Truths]) -> None:
    """After the numbers that are called mAP, if these match, too."""
    result = boxscore.evaluate(*scene)
    for number in ("map_50", "map_75", "mar_10", "map_small"):
        explanation = explain_claim(*scene, f"{result[number]:.10f}")
        assert number in {match.number for match in explanation.matches if "coco" in match.names and not match.settings}
    olrp = boxscore.evaluate(*scene, "olrp")["olrp"]
    assert explain_claim(*scene, f"{olrp:.10f}").matches[0].names == ("olrp",)


def covered(truths: Truths, *, is_federated: bool) -> Truths:
    """With half of the classes verified in half of the images."""
    if not is_federated:
        return truths
    image, label = (each.reshape(-1) for each in np.meshgrid(np.arange(0, 30, 2), LABELS[::2]))
    coverage = Coverage(image_ids=image, labels=label, is_exhaustive=(image + label) % 3 > 0)
    return boxscore.Truths(
        image_ids=truths.image_ids,
        labels=truths.labels,
        geometry=truths.geometry,
        ignore=truths.ignore,
        area=truths.area,
        coverage=coverage,
        class_names=truths.class_names,
        class_groups={1: "rare", 2: "common"},
        image_sizes=dict.fromkeys(range(30), (60, 60)),
    )


@pytest.mark.parametrize("is_federated", [False, True])
def test_shortcuts_change_no_bit(scene: tuple[Detections, Truths], is_federated: bool) -> None:
    """Cut-offs and limits by taking rows of one tally are evaluations of their own, for all rules and settings."""
    detections, truths = scene[0], covered(scene[1], is_federated=is_federated)
    search = _Search(detections, truths, None)
    assert search.settings == list(SETTINGS)
    every = distinct_rules(detections, truths)
    _, possible = _tools_alone(search, every, _Steps(search, every, None))
    assert {rules.protocol.federated for rules in possible} == {False, is_federated}
    rng = np.random.default_rng(0)
    variants = [Variant(rules, (setting,)) for rules in possible for setting in SETTINGS if rng.random() < 0.3]
    pairs = [(one, two) for one in SETTINGS for two in SETTINGS if one.kind < two.kind]
    variants += [Variant(rules, pair) for rules in possible[:8] for pair in pairs if rng.random() < 0.1]
    found = {(each.names, each.settings, each.number): each.value for each in search.numbers_of(variants)}
    assert len(found) > 150
    num_checked = 0
    for rules, settings in variants:
        try:
            result = boxscore.evaluate(*apply_settings(detections, truths, rules.protocol, settings))
        except InputError:
            assert not [key for key in found if key[:2] == (rules.names, settings)]
            continue
        for number in MAIN_NUMBERS:
            if (rules.names, settings, number) in found:
                assert found[rules.names, settings, number] == result[number], (rules.names, settings, number)
                num_checked += 1
    assert num_checked == len(found)


def test_an_unexpected_error_is_not_dropped(scene: tuple[Detections, Truths], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rules that contradict the data are left out of the search; any other refusal ends it."""
    detections, truths = scene

    def refuse(*_: Any, **__: Any) -> Any:
        raise InputError("`box` row 3 must be finite")

    monkeypatch.setattr(claims, "match", refuse)
    with pytest.raises(InputError, match=r"^`box` row 3 must be finite$"):
        explain_claim(detections, truths, "0.123456")


def test_nothing_gives_it(scene: tuple[Detections, Truths]) -> None:
    """Then what comes nearest without settings, with one and with two."""
    explanation = explain_claim(*scene, "0.98765")
    assert explanation.matches == ()
    assert [len(match.settings) for match in explanation.nearest] == [0, 1, 2]
    assert explanation.num_tried > 500
    assert str(explanation).startswith(
        f"No number of {explanation.num_tried} combinations of rules and settings gives 0.98765"
    )
    assert "\n\nThe nearest without settings, with one and with two:\n\nnumber" in str(explanation)
    document = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert document["is_reproduced"] is False
    assert document["may_be_chance"] is False
    assert len(document["nearest"]) == 3


def test_settings_that_can_change_nothing_are_not_tried() -> None:
    """Crowds where there are none, labels off by one where they overlap nowhere."""
    truths = Truths(image_ids=[0], labels=[7], boxes=[[0, 0, 10, 10]])
    detections = Detections(image_ids=[0], labels=[7], scores=[0.9], boxes=[[0, 0, 10, 9]])
    kinds = {setting.name for setting in _Search(detections, truths, 1).settings}
    labels = {setting.name for setting in SETTINGS if setting.changes_labels}
    assert len(labels) == 4
    assert not kinds & {"ignored truths left out", "ignored truths as regular ones", *labels}
    assert {"labels disregarded", "+1 pixel", "limit 10"} <= kinds


@pytest.mark.parametrize(
    ("classes", "labels", "names"),
    [
        ([1, 2, 3], [1, 2, 3], {"labels + 1", "labels - 1"}),  # positions from 0 are labels + 1, from 1 as they are
        ([0, 1, 2], [0, 1, 2], {"labels + 1", "labels - 1"}),
        (
            [1, 2, 9],
            [0, 1, 2],
            {"labels + 1", "labels - 1", "labels are positions from 0"},  # from 1, those that are known stay
        ),
        (
            [1, 2, 9],
            [1, 2, 3],
            {"labels + 1", "labels - 1", "labels are positions from 0", "labels are positions from 1"},
        ),
        ([5, 6], [1], {"labels are positions from 0", "labels are positions from 1"}),
    ],
)
def test_other_labels_are_tried_once(classes: list[int], labels: list[int], names: set[str]) -> None:
    """Of settings that make the same classes of labels only the first; and none that changes nothing."""
    truths = Truths(
        image_ids=[0] * len(classes),
        labels=classes,
        boxes=[[0, 0, 9, 9]] * len(classes),
        class_names={label: str(label) for label in classes},
    )
    found: dict[str, Any] = {
        "image_ids": [0] * len(labels),
        "scores": [0.9] * len(labels),
        "boxes": [[0, 0, 9, 9]] * len(labels),
    }
    search = _Search(Detections(**found, labels=labels), truths, 1)
    assert {setting.name for setting in search.settings if setting.changes_labels} == names


def test_labels_that_are_off_by_one_are_found_out() -> None:
    """By a number that only labels of one class less give."""
    truths = Truths(
        image_ids=[0, 0, 0], labels=[1, 2, 3], boxes=[[0, 0, 10, 10]] * 3, class_names={1: "a", 2: "b", 3: "c"}
    )
    detections = Detections(image_ids=[0, 0], labels=[1, 2], scores=[0.9, 0.8], boxes=[[0, 0, 10, 10]] * 2)
    # Two of three classes are found, and so they are with labels 2 and 3. Labels 0 and 1 leave one of three.
    assert explain_claim(detections, truths, "0.333333").matches[0].how == "coco, labels - 1"


def test_no_truths_and_no_detections() -> None:
    """Nothing is near an undefined number; without detections every number is 0."""
    truths = Truths(image_ids=[0], labels=[7], boxes=[[0, 0, 10, 10]])
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=np.zeros((0, 4)))
    assert explain_claim(nothing, truths, "0.0").matches[0].how == "coco"
    no_truths = Truths(image_ids=[], labels=[], boxes=np.zeros((0, 4)))
    explanation = explain_claim(
        Detections(image_ids=[0], labels=[7], scores=[0.9], boxes=[[0, 0, 9, 9]]), no_truths, "0.5"
    )
    assert (explanation.matches, explanation.nearest) == ((), ())
    assert str(explanation).startswith("No number of")


def test_labels_that_are_no_classes_are_left_out() -> None:
    """As readers do; they count where a setting makes classes of them. By position, 0 is class 7, and there is no 8."""
    truths = Truths(image_ids=[0, 0], labels=[7, 9], boxes=[[0, 0, 10, 10]] * 2, class_names={7: "a", 9: "b"})
    detections = Detections(image_ids=[0, 0], labels=[8, 7], scores=[0.9, 0.8], boxes=[[0, 0, 10, 10]] * 2)
    alone = explain_claim(detections, truths, "0.500000")  # class 7 of both
    assert (alone.matches[0].how, alone.num_unknown, alone.num_detections) == ("coco", 1, 2)
    assert str(alone).endswith(
        "1 of 2 detections have labels that are not among the classes of the truths; these count only where a"
        " setting changes labels."
    )
    assert boxscore.evaluate(*apply_settings(detections, truths, Protocol.named("coco"), []))["map"] == pytest.approx(
        0.5
    )
    far = replace(detections, labels=np.array([100, 101]))
    with pytest.raises(
        InputError, match=r"no label of the detections \(100, 101\) is a class of the truths \(7, 9\), nor"
    ):
        explain_claim(far, truths, "0.5")


def test_data_that_no_rules_can_use_is_an_error() -> None:
    """That of the first rules."""
    truths = Truths(image_ids=[0], labels=[7], boxes=[[0, 0, 10, 10]], kind=[3])
    detections = Detections(image_ids=[0], labels=[7], scores=[0.9], masks=np.ones((1, 9, 9), bool))
    with pytest.raises(InputError, match="`iou_type` 'bbox' needs other shapes"):
        explain_claim(detections, truths, "0.5")


@pytest.mark.parametrize(
    ("claim", "may_be", "words"),
    [
        ("0.5", True, "one digit"),
        ("0.479", True, "three digits"),
        ("47.87", True, "four digits"),
        ("0.478652", False, ""),  # six digits
        ("0.5375", False, ""),  # a tool as it is
    ],
)
def test_a_match_may_be_chance(claim: str, may_be: bool, words: str) -> None:
    """Where it needs settings, or is not `map`, and has few digits."""
    truths = boxscore.read_truths(FILES[0])
    explanation = explain_claim(boxscore.read_detections(FILES[1], truths), truths, claim)
    if claim == "0.5":
        explanation = replace(explanation, matches=tuple(m for m in explanation.matches if m.number != "map"))
    assert explanation.matches
    assert (explanation.may_be_chance, explanation.to_dict()["may_be_chance"]) == (may_be, may_be)
    sentence = (
        f"{explanation.num_tried} combinations were tried, so a match of {words} may be chance: more digits tell more."
    )
    assert (sentence in str(explanation)) == may_be
    assert ("chance" in str(explanation)) == may_be


def test_progress_is_reported() -> None:
    """Before each matching: how many are done, of how many at most."""
    truths = boxscore.read_truths(FILES[0])
    detections = boxscore.read_detections(FILES[1], truths)
    calls: list[tuple[int, int]] = []
    found = explain_claim(detections, truths, "0.98765", progress=lambda *numbers: calls.append(numbers))
    assert [done for done, _ in calls] == list(range(len(calls)))
    (num,) = {num for _, num in calls}
    assert len(distinct_rules(detections, truths)) < len(calls) <= num
    assert found.to_dict() == explain_claim(detections, truths, "0.98765").to_dict()


def test_poses_of_17_points_are_of_no_whole_body() -> None:
    """The body of a whole body has the same rules in all that matters, and is no match of its own."""
    points: dict[str, Any] = {
        "image_ids": [0],
        "labels": [1],
        "keypoints": [[[3.0 * i, 2.0 * i, 2] for i in range(17)]],
    }
    truths, detections = Truths(**points, area=[400.0]), Detections(**points, scores=[0.9])
    (match,) = [each for each in explain_claim(detections, truths, "1.000").matches if each.number == "map"]
    assert match.names == ("coco", "coco_keypoints", "pycocotools")
    whole = {**points, "keypoints": [[[3.0 * i, 2.0 * i, 2] for i in range(133)]]}
    both = Detections(**whole, scores=[0.9]), Truths(**whole, area=[400.0])
    assert "coco_wholebody_body" in {name for rules in distinct_rules(*both) for name in rules.names}


FILES = [str(FOLDER / "truths.json"), str(FOLDER / "detections.json")]


def test_the_command_prints_what_gives_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    """And why, for each setting."""
    assert main(["explain", *FILES, "--claim", "0.5375"]) == 0
    out = capsys.readouterr().out
    assert "of rules and settings give" in out.splitlines()[0]
    assert out.splitlines()[0].endswith("0.5375 (at least 0.53745 and below 0.53755)")
    assert "map     0.537482  -         coco, olrp, pycocotools" in out
    truths = boxscore.read_truths(FILES[0])
    detections = boxscore.read_detections(FILES[1], truths)
    chosen = Protocol.named("coco", min_score=0.3)
    number = boxscore.evaluate(detections, truths, chosen)["map"]
    assert main(["explain", *FILES, "--claim", f"{number:.6f}"]) == 0
    out = capsys.readouterr().out
    assert "score cut-off 0.3: Detections with a score below 0.3 are left out" in out


@pytest.mark.parametrize(
    ("setting", "change"),
    [
        ("labels + 1", lambda label, _: label - 1),
        ("labels - 1", lambda label, _: label + 1),
        ("labels are positions from 0", lambda label, classes: classes.index(label)),
        ("labels are positions from 1", lambda label, classes: classes.index(label) + 1),
    ],
)
def test_the_command_finds_other_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], setting: str, change: Any
) -> None:
    """In files whose labels are not those of the truths; without --claim these are an error."""
    classes = sorted(each["id"] for each in json.loads(Path(FILES[0]).read_text())["categories"])
    rows = json.loads(Path(FILES[1]).read_text())
    path = tmp_path / "off.json"
    path.write_text(json.dumps([{**row, "category_id": change(row["category_id"], classes)} for row in rows]))
    assert main(["explain", FILES[0], str(path), "--claim", "0.5375"]) == 0
    out, err = capsys.readouterr()
    assert f"map     0.537482  {setting}" in out
    assert f"{setting}: The labels of detections are" in out
    assert "of 356 detections have labels that are not among the classes of the truths" in out
    assert err == ""
    assert main(["explain", FILES[0], str(path)]) == 1
    assert "is not among those of the truths" in capsys.readouterr().err


def test_the_search_is_shown_on_terminals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line, which is removed at the end."""
    monkeypatch.setattr(terminal, "_is_terminal", lambda stream: stream is sys.stderr)
    assert main(["explain", *FILES, "--claim", "0.98765"]) == 0
    err = capsys.readouterr().err
    shown = re.findall(r"searching for 0\.98765: matching (\d+) of (\d+) at most", err)
    assert [int(index) for index, _ in shown] == list(range(1, len(shown) + 1))
    assert len({num for _, num in shown}) == 1
    assert err.endswith("\r\033[K")
    assert "\n" not in err
    assert main(["explain", *FILES, "--claim", "0.98765", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_selected_classes_are_found_by_other_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels are selected once they are classes."""
    rows = json.loads(Path(FILES[1]).read_text())
    path = tmp_path / "off.json"
    path.write_text(json.dumps([{**row, "category_id": row["category_id"] - 1} for row in rows]))
    assert main(["eval", *FILES, "--classes", "dog", "--json", "-"]) == 0
    number = json.loads(capsys.readouterr().out)["map"]
    assert main(["explain", FILES[0], str(path), "--classes", "dog", "--claim", f"{number:.9f}", "--json", "-"]) == 0
    match = json.loads(capsys.readouterr().out)["matches"][0]
    assert (match["value"], [each["name"] for each in match["settings"]]) == (number, ["labels + 1"])


def test_labels_that_can_not_be_joined_are_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that the truths don't have, and numbers that are no classes, however they are taken."""
    rows = json.loads(Path(FILES[1]).read_text())
    path = tmp_path / "far.json"
    path.write_text(json.dumps([{**row, "category_id": row["category_id"] + 1000} for row in rows]))
    assert main(["explain", FILES[0], str(path), "--claim", "0.5375"]) == 1
    assert capsys.readouterr().err.startswith(f"boxscore: {path}: no label of the detections (1001, 1002, 1003, 1018)")
    table = tmp_path / "far.csv"
    table.write_text("image,label,score,x1,y1,x2,y2\n1,zebra,0.5,0,0,9,9\n")
    assert main(["explain", FILES[0], str(table), "--claim", "0.5375"]) == 1
    assert "class 'zebra' is not among those of the truths" in capsys.readouterr().err


def test_the_command_writes_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With all matches."""
    assert main(["explain", *FILES, "--claim", "53.75", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["claim"], document["low"], document["high"]) == ("53.75", 0.53745, 0.53755)
    assert document["is_reproduced"]
    assert "pycocotools" in document["matches"][0]["rules"]


@pytest.mark.parametrize("name", ["score cut-off 0.25", "labels disregarded"])
def test_real_claims_are_found_out(name: str) -> None:
    """Of YOLOX-nano on COCO val2017, by four digits."""
    truths = boxscore.read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    detections = boxscore.read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    setting = BY_NAME[name]
    number = boxscore.evaluate(*apply_settings(detections, truths, Protocol.named("coco"), [setting]))["map"]
    matches = explain_claim(detections, truths, f"{number:.4f}").matches
    assert ("coco", (setting,)) in {(match.names[0], match.settings) for match in matches}
