"""Names for models, tables for papers, analyses and selections: the options of `eval`, `compare` and `check`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import Detections, InputError, Protocol
from boxscore.cli import main, sample
from boxscore.cli.command_line import make_parser
from boxscore.cli.parsing import commands_of
from boxscore.formats import read_detections, read_truths
from tests.support.shared import shared_data
from tests.support.small_files import write

TRUTHS, DETECTIONS = sample.FOLDER / "truths.json", sample.FOLDER / "detections.json"

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample, and every other of its detections."""
    (tmp_path / "truths.json").write_text(TRUTHS.read_text())
    (tmp_path / "found.json").write_text(DETECTIONS.read_text())
    (tmp_path / "fewer.json").write_text(json.dumps(json.loads(DETECTIONS.read_text())[::2]))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: Captured, command: str, *, err: str = "") -> str:
    """What a command that ends well prints on stdout; on stderr it says `err`."""
    assert main(command.split()) == 0
    out, said = capsys.readouterr()
    assert said == err
    return out


def refused(capsys: Captured, command: str, code: int) -> str:
    """What a command that ends with this exit code says."""
    try:
        ended: Any = main(command.split())
    except SystemExit as stop:
        ended = stop.code
    assert ended == code
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("option", "shown"),
    [
        ("0.5", "IoU 0.50"),
        ("0.5,0.9", "IoU 0.50, 0.90"),
        ("0.5:0.95:0.05", "IoU 0.50:0.95"),
        ("0.5:0.9:0.1", "IoU 0.50:0.90:0.10"),
        ("0.3,0.4,0.6,0.8,0.9", "IoU 5 from 0.30 to 0.90"),
        ("0.625", "IoU 0.625"),
    ],
)
def test_a_table_says_which_thresholds_it_is_of(folder: Path, capsys: Captured, option: str, shown: str) -> None:
    """Only a range looks like one."""
    lines = printed(capsys, f"eval truths.json found.json --iou {option} --areas none --max-dets 100").splitlines()
    assert lines[2].split("  ")[-3] == shown


def test_detections_beyond_the_limit_are_counted_and_said(folder: Path, capsys: Captured) -> None:
    """All are counted; those within the limit are true, false or ignored, and these add up."""
    detections, truths = sample.load()
    result = boxscore.evaluate(detections, truths, Protocol.named("coco", limits=(1, 2)))
    within = int(result.per_class.num_detections.sum())
    assert within < len(detections) == 356
    out = printed(capsys, "eval truths.json found.json --max-dets 1,2 --per-class")
    beyond = f"{356 - within} beyond the limit of 2 per image and class"
    assert out.splitlines()[0] == f"coco, changed: 4 classes, 215 truths, 356 detections ({beyond})"
    assert out.splitlines()[-1] == f"without {356 - within} detections beyond the limit of 2 per image and class"
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in result.per_class.name]
    assert len(rows) == 4
    for row in rows:
        assert int(row[5]) == sum(map(int, row[6:9]))
    assert result.to_dict()["num_left_out"] == 356 - within
    assert printed(capsys, "eval truths.json found.json --protocol voc2012").startswith(
        "voc2012: 4 classes, 215 truths, 356 detections\n"
    )


def test_a_metric_that_forgot_them_says_which_detections_it_counts() -> None:
    """Those within the limit."""
    result = boxscore.finish(boxscore.evaluate(*sample.load()).tally)
    assert str(result).startswith(
        "coco: 4 classes, 215 truths, 356 detections within the limit of 100 per image and class\n"
    )


def test_real_detections_within_and_beyond_the_limit() -> None:
    """Of COCO val2017: the file's own number."""
    truths = read_truths(shared_data("coco_val2017/instances_val2017_boxes.json"))
    found = read_detections(shared_data("coco_val2017/yolox_nano.json"), truths)
    result = boxscore.evaluate(found, truths)
    assert len(found) == 256_982
    assert "256,982 detections" in str(result)
    assert result.summary.num_left_out == 256_982 - result.per_class.num_detections.sum()


def test_classes_have_ap50_in_every_table(folder: Path, capsys: Captured, result: boxscore.Result) -> None:
    """In the listing, CSV, LaTeX and Markdown; by the fast path, too."""
    half = [f"{value:.4f}" for value in result.per_class.ap_50]
    table = printed(capsys, "eval truths.json found.json --per-class").splitlines()
    head = next(line for line in table if line.startswith("class "))
    assert head.split()[:4] == ["class", "AP", "AP50", "AR"]
    assert [line.split()[2] for line in table[-4:]] == half
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "eval truths.json found.json --csv -"))))
    assert [float(row["value"]) for row in rows if row["number"] == "ap_50"] == result.per_class.ap_50.tolist()
    markdown = printed(capsys, "eval truths.json found.json --markdown -")
    assert markdown == f"{result.to_markdown()}\n"
    assert "| class | AP | AP50 | AR | truths | detections |" in markdown
    assert printed(capsys, "eval truths.json found.json --latex -") == f"{result.to_latex()}\n"
    several = printed(capsys, "eval truths.json found.json fewer.json --per-class").split("\n\n")[-1].splitlines()
    assert several[0].split() == ["AP50", "by", "class", "found.json", "fewer.json"]
    assert [line.split()[1] for line in several[2:]] == half


def test_classes_have_precision_and_recall_at_their_operating_point(
    folder: Path, capsys: Captured, result: boxscore.Result
) -> None:
    """In every table of classes, where a point is asked for: P, R, AP, AP50."""
    points = result.operating_points()
    command = "eval truths.json found.json --operating-point f1"
    table = printed(capsys, f"{command} --per-class").split("\n\n")[3].splitlines()
    assert table[0].split()[:6] == ["class", "P", "R", "AP", "AP50", "AR"]
    dog = [points.precision[4], points.recall[4], result.per_class.ap[3], result.per_class.ap_50[3]]
    assert table[-1].split()[:5] == ["dog", *(f"{value:.4f}" for value in dog)]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, f"{command} --csv -"))))
    found = {row["number"]: float(row["value"]) for row in rows if row["class"] == "dog"}
    assert [found[name] for name in ("precision", "recall", "score")] == [*dog[:2], points.score[4]]
    latex = printed(capsys, f"{command} --latex -").splitlines()
    assert r"class & P & R & AP & AP50 & AR & truths & detections \\" in latex
    assert any(line.startswith(f"dog & {100 * dog[0]:.1f} & {100 * dog[1]:.1f} & ") for line in latex)
    assert "| class | P | R | AP | AP50 | AR |" in printed(capsys, f"{command} --markdown -")


def test_models_have_the_names_they_are_given(folder: Path, capsys: Captured) -> None:
    """In tables, CSV, JSON, LaTeX, Markdown and comparisons; what is there under the whole word is a path."""
    head = printed(capsys, "eval truths.json large=found.json fewer.json").splitlines()[0]
    assert head.split()[:3] == ["coco", "large", "fewer.json"]
    plain = json.loads(printed(capsys, "eval truths.json large=found.json small=fewer.json --json -"))
    assert [(each["name"], each["detections"]) for each in plain] == [("large", "found.json"), ("small", "fewer.json")]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "eval truths.json large=found.json --csv -"))))
    assert {row["detections"] for row in rows} == {"large"}
    latex = printed(capsys, "eval truths.json large=found.json small=fewer.json --latex -")
    assert latex.splitlines()[2].startswith("model & AP & ")
    assert [line.split(" & ")[0] for line in latex.splitlines()[4:6]] == ["large", "small"]
    assert "large & person & " in latex
    assert "| small | person | " in printed(capsys, "eval truths.json large=found.json small=fewer.json --markdown -")
    (folder / "a=b.json").write_text(DETECTIONS.read_text())
    assert "a=b.json" in printed(capsys, "eval truths.json a=b.json fewer.json").splitlines()[0]
    both = printed(capsys, "compare truths.json old=fewer.json new=found.json --bootstrap 20")
    assert both.splitlines()[2].split()[:2] == ["old", "new"]
    assert "models must have different names; got 'a' twice" in refused(
        capsys, "eval truths.json a=found.json a=fewer.json", 2
    )


def test_long_tables_go_on_on_the_next_page() -> None:
    """As a longtable, with the head on every page; a short one is a tabular."""
    names = [f"class {k}" for k in range(80)]
    truths = boxscore.Truths(image_ids=[0] * 80, labels=range(80), boxes=[[0, 0, 9, 9]] * 80, class_names=names)
    nothing = Detections(image_ids=[], labels=[], scores=[], boxes=[])
    numbers, classes = boxscore.evaluate(nothing, truths).to_latex(name="A_1").split("\n\n")
    assert numbers.startswith("\\begin{tabular}{lrrrr")
    assert "\nA\\_1 & 0.0 & " in numbers
    lines = classes.splitlines()
    assert lines[:2] == [r"% \usepackage{booktabs, longtable}", r"\begin{longtable}{llrrrrr}"]
    assert lines[3] == r"model & class & AP & AP50 & AR & truths & detections \\"
    assert lines[4:8] == [r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot"]
    assert len(lines) == 8 + 80 + 1
    assert lines[-1] == r"\end{longtable}"


def test_a_comparison_is_exported(folder: Path, capsys: Captured) -> None:
    """As tables for LaTeX and Markdown, and as CSV; with a column for the model where several are compared."""
    truths = read_truths("truths.json")
    old, new = (boxscore.evaluate(read_detections(name, truths), truths) for name in ("fewer.json", "found.json"))
    comparison = boxscore.compare({"old_1": old, "new": new}, resamples=50)
    change = comparison.differences[0].numbers["map"]
    assert comparison.to_markdown().splitlines()[:3] == [
        "| number | old_1 | new | difference | interval | p |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        f"| map | {' | '.join(change.cells())} |",
    ]
    low, high = 100 * change.low, 100 * change.high
    latex = comparison.to_latex().splitlines()
    assert latex[2] == r"number & old\_1 & new & difference & interval & p \\"
    values = f"{100 * change.first:.1f} & {100 * change.second:.1f} & {100 * change.difference:+.1f}"
    assert latex[4] == rf"map & {values} & [{low:+.1f}, {high:+.1f}] & $\le$ 0.040 \\"
    assert change.p_text == "≤ 0.040"
    assert comparison.to_dict()["differences"][0]["map"]["is_least"] is True
    assert "| AP by class | old_1 |" in comparison.to_markdown()
    content = comparison.to_csv()
    assert next(csv.DictReader(io.StringIO(content)))["is_least"] == "True"
    comparison.to_csv(folder / "changes.csv")
    assert (folder / "changes.csv").read_text() == content
    command = "compare truths.json old_1=fewer.json new=found.json --bootstrap 50"
    assert printed(capsys, f"{command} --csv -") == content
    assert printed(capsys, f"{command} --latex -") == f"{comparison.to_latex()}\n"
    assert printed(capsys, f"{command} --markdown -") == f"{comparison.to_markdown()}\n"
    three = boxscore.compare({"a": old, "b": new, "c": new}, resamples=2).to_markdown().splitlines()
    assert three[0] == "| model | number | a | value | difference | interval | p |"
    assert [row.split(" | ")[0] for row in three[2:26:12]] == ["| b", "| c"]


def test_what_was_written_is_said(folder: Path, capsys: Captured) -> None:
    """On stderr, after the table; not with --quiet."""
    command = "eval truths.json found.json --json a.json --csv b.csv --latex c.tex --markdown d.md"
    said = "".join(f"wrote {name}\n" for name in ("b.csv", "c.tex", "d.md", "a.json"))
    assert printed(capsys, command, err=said) == printed(capsys, "eval truths.json found.json")
    assert printed(capsys, f"{command} --quiet") == ""
    assert main(["eval", "truths.json", "found.json", "--html", "report.html", "--bootstrap", "2", "--quiet"]) == 0
    assert main(["eval", "truths.json", "found.json", "--html", "report.html", "--bootstrap", "2"]) == 0
    assert capsys.readouterr().err == "wrote report.html\n"


def test_no_intervals_are_wanted(folder: Path, capsys: Captured) -> None:
    """`--bootstrap 0`: the same as without, also where there would be some."""
    assert printed(capsys, "eval truths.json found.json --bootstrap 0") == printed(
        capsys, "eval truths.json found.json"
    )
    out = printed(capsys, "compare truths.json fewer.json found.json --bootstrap 0 --per-class --images-changed 0")
    assert out.startswith("coco: differences on 40 images, without confidence intervals\n")
    assert out.splitlines()[4].split()[-2:] == ["-", "-"]
    plain = json.loads(printed(capsys, "compare truths.json fewer.json found.json --bootstrap 0 --json -"))
    assert plain["differences"][0]["map"]["p_value"] is None
    assert plain["differences"][0]["map"]["difference"] > 0
    assert "must be 2 or more, or 0 for none; got '1'" in refused(
        capsys, "eval truths.json found.json --bootstrap 1", 2
    )


def test_confusion_calibration_and_worst_images(folder: Path, capsys: Captured, result: boxscore.Result) -> None:
    """Printed below the table, and in the JSON."""
    command = "eval truths.json found.json --confusion --calibration --worst-images 3"
    analyses: dict[str, Any] = {
        "confusion": result.confusion(),
        "calibration": result.calibration(),
        "worst_images": result.worst_images(num=3),
    }
    assert printed(capsys, command) == "\n\n".join(map(str, [result, *analyses.values()])) + "\n"
    plain = json.loads(printed(capsys, f"{command} --json -"))
    assert plain == result.to_dict() | {name: analysis.to_dict() for name, analysis in analyses.items()}
    assert len(plain["worst_images"]["images"]) == 3


def test_detections_with_low_scores_are_left_out(folder: Path, capsys: Captured) -> None:
    """Those below; the JSON says so."""
    detections, truths = sample.load()
    kept = np.asarray(detections.scores) >= 0.5
    some = Detections(
        image_ids=detections.image_ids[kept],
        labels=detections.labels[kept],
        scores=detections.scores[kept],
        boxes=detections.boxes[kept],
        box_format=detections.box_format,
    )
    some_numbers = boxscore.evaluate(some, truths)
    expected = boxscore.evaluate(detections, truths, Protocol.named("coco", min_score=0.5))
    assert 0 < kept.sum() < kept.size
    assert dict(expected) == dict(some_numbers)
    assert expected.summary.num_left_out == (~kept).sum()
    plain = json.loads(printed(capsys, "eval truths.json found.json --min-score 0.5 --json -"))
    assert plain == expected.to_dict() | {"min_score": 0.5}
    out = printed(capsys, "eval truths.json found.json --min-score 0.5")
    left_out = f"{(~kept).sum()} left out: with a score below 0.5 or beyond the limit of 100 per image and class"
    assert out.startswith(f"coco, changed: 4 classes, 215 truths, 356 detections ({left_out})\n")
    assert out.endswith("not comparable with COCO leaderboard rules: lowest score 0.5 in place of none\n")
    assert "argument --min-score: must be a finite number; got 'nan'" in refused(
        capsys, "eval truths.json found.json --min-score nan", 2
    )


def test_classes_may_be_disregarded(folder: Path, capsys: Captured) -> None:
    """All boxes are of one class then."""
    expected = boxscore.evaluate(*sample.load(), Protocol.named("coco", class_agnostic=True))
    assert json.loads(printed(capsys, "eval truths.json found.json --class-agnostic --json -")) == expected.to_dict()
    assert [row.name for row in expected.per_class.rows()] == ["all"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("0:1,1:2,2:3,7:18", None),
        ("0:1,1:2,2:3,7:18" + "".join(f",{k}:1" for k in range(100, 200)), None),
        ("map.json", '{"0": 1, "1": "bicycle", "2": 3, "7": "dog"}'),
        ("map.csv", "from,to\n0,person\n1,2\n2,car\n7,18\n"),
        ("map.tsv", "0\t1\n1\t2\n2\t3\n7\tdog\n"),
    ],
)
def test_classes_of_detections_are_mapped(folder: Path, capsys: Captured, name: str, content: str | None) -> None:
    """By a list on the command line or in a file: ids of a detector to ids or names of the truths."""
    other = {1: 0, 2: 1, 3: 2, 18: 7}
    rows = [row | {"category_id": other[row["category_id"]]} for row in json.loads(DETECTIONS.read_text())]
    (folder / "other.json").write_text(json.dumps(rows))
    if content is not None:
        (folder / name).write_text(content)
    expected = printed(capsys, "eval truths.json found.json --json -")
    assert printed(capsys, f"eval truths.json other.json --map-classes {name} --json -") == expected
    truths = read_truths("truths.json")
    given = name if content is not None else {0: 1, 1: 2, 2: 3, 7: 18}
    mapped = read_detections("other.json", truths, map_classes=given)
    assert np.array_equal(mapped.labels, read_detections("found.json", truths).labels)


def test_names_of_detections_are_mapped_and_others_stay(folder: Path) -> None:
    """A table with names of its own for two of four classes."""
    truths = read_truths("truths.json")
    found = read_detections("found.json", truths)
    own = {1: "human", 2: "bicycle", 3: "automobile", 18: "dog"}
    lines = [
        f"{image},{own[label]},{score},{','.join(map(str, box))}"
        for image, label, score, box in zip(
            found.image_ids.tolist(), found.labels.tolist(), found.scores.tolist(), found.boxes.tolist(), strict=True
        )
    ]
    (folder / "named.csv").write_text("\n".join(["image_id,class_name,score,x,y,w,h", *lines]))
    mapped = read_detections("named.csv", truths, map_classes="human:person,automobile:3")
    assert np.array_equal(mapped.labels, found.labels)


def test_classes_that_are_numbers_in_text_files(tmp_path: Path) -> None:
    """A number is the name that the line has, on both sides, whatever the order of the names."""
    found = write(tmp_path / "found" / "a.txt", "7 0.9 1 2 30 40\n10 0.8 1 2 30 40\n").parent
    named = read_truths(write(tmp_path / "named" / "a.txt", "cat 1 2 30 40\n").parent)
    for given in ("7:cat,10:cat", {7: "cat", 10: "cat"}, {"7": "cat", "10": "cat"}):
        assert read_detections(found, named, map_classes=given).labels.tolist() == [0, 0]
    numbers = read_truths(write(tmp_path / "numbers" / "a.txt", "2 1 2 30 40\n10 1 2 30 40\n1 1 2 30 40\n").parent)
    assert numbers.names_by_label == {0: "1", 1: "10", 2: "2"}
    assert read_detections(found, numbers, map_classes="7:1").labels.tolist() == [0, 1]
    with pytest.raises(InputError, match=r"`map_classes`: '0' is not a class of the truths; they have 0 \(1\)"):
        read_detections(found, numbers, map_classes="7:0")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("1-0", "`map_classes` must be a file, or like 1:0,2:1; got '1-0'"),
        ("1:99", "`map_classes`: 99 is not a class of the truths; they have 1 (person), 2 (bicycle)"),
        ("1:cat", "`map_classes`: 'cat' is not a class of the truths"),
        ("1:2,1:3", "`map_classes`: class '1' is given twice, as 2 and '3'"),
        ("bad.json", "bad.json: must be a JSON object from classes to classes; got a list"),
        ("bad.csv", "bad.csv: line 1 must have two classes, `from` and `to`; got '1,2,3'"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(folder: Path, capsys: Captured, option: str, message: str) -> None:
    """With what is wrong, and where."""
    (folder / "bad.json").write_text("[1]")
    (folder / "bad.csv").write_text("1,2,3\n")
    assert message in refused(capsys, f"eval truths.json found.json --map-classes {option}", 1)


def test_a_map_of_other_classes_is_warned_about(folder: Path, capsys: Captured) -> None:
    """It changes nothing."""
    assert main(["eval", "truths.json", "found.json", "--map-classes", "55:1"]) == 0
    out, err = capsys.readouterr()
    assert "no detection is of a class that `map_classes` has (55); they are of 1, 2, 3, 18" in err
    assert out == printed(capsys, "eval truths.json found.json")


def test_a_report_has_the_title_it_is_given(folder: Path, capsys: Captured) -> None:
    """And only a report has one."""
    page = printed(capsys, "eval truths.json a=found.json --html - --bootstrap 0 --title Tuesday")
    assert "<title>Tuesday</title>" in page
    assert "argument --title: needs --html" in refused(capsys, "eval truths.json found.json --title x", 2)


def test_strict_checks_take_warnings_for_errors(folder: Path, capsys: Captured) -> None:
    """In the exit code."""
    (folder / "odd.json").write_text(
        json.dumps([*json.loads(DETECTIONS.read_text()), json.loads(DETECTIONS.read_text())[0]])
    )
    assert main(["check", "truths.json", "odd.json"]) == 0
    assert "warning: 1 detection with the image, class and box of an earlier one" in capsys.readouterr().out
    assert main(["check", "truths.json", "odd.json", "--strict", "--quiet"]) == 1


@pytest.mark.parametrize("command", ["eval {} {}", "compare {} {} found.json", "check {} {}"])
def test_who_gives_detections_first_is_told(folder: Path, capsys: Captured, command: str) -> None:
    """That the ground truth comes first."""
    assert main(command.format("found.json", "truths.json").split()) == 1
    err = capsys.readouterr().err
    assert "the ground truth comes first, then detections, but found.json looks like detections" in err
    assert "try truths.json found.json" in err
    assert main(command.format("fewer.json", "nothing.json").split()) == 1
    assert "comes first" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--verson", "boxscore: error: unknown option --verson; did you mean --version?"),
        ("--latex", "unknown option --latex; it is an option of eval and compare: `boxscore eval … --latex`"),
        ("evaluate a b", "unknown command 'evaluate'; did you mean `boxscore eval`?"),
        ("comapre a b c", "unknown command 'comapre'; did you mean `boxscore compare`?"),
        ("truths.json found.json", "did you mean `boxscore eval truths.json found.json`?"),
        ("xyzzy", "unknown command 'xyzzy' (commands: eval, compare, explain, serve, label-errors, check, convert"),
        ("check a b --latex x", "unknown option --latex; it is an option of eval and compare"),
    ],
)
def test_a_mistyped_word_is_told_with_the_one_that_was_meant(
    folder: Path, capsys: Captured, words: str, message: str
) -> None:
    """Commands and options; exit code 2."""
    assert message in refused(capsys, words, 2)


GROUPED = ("eval", "compare", "explain", "label-errors", "check", "convert")
TITLES = ["input files", "what is evaluated", "rules", "analysis", "output", "pictures", "speed"]


@pytest.mark.parametrize("command", GROUPED)
def test_every_option_is_in_a_titled_group_of_the_help(command: str) -> None:
    """In the same order in each command; only the help itself is outside."""
    parser = commands_of(make_parser())[command]
    groups = {str(group.title): group._group_actions for group in parser._action_groups if group._group_actions}
    (help_option,) = groups.pop("options")
    assert help_option.option_strings == ["-h", "--help"]
    assert [*groups] == [title for title in TITLES if title in groups]
    assert {"input files", "output"} <= {*groups}
    shown = parser.format_help()
    assert all(f"\n\n{title}:\n" in shown for title in groups)
