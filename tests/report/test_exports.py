"""Exports: CSV, Markdown, LaTeX, loggers."""

import csv
import io
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore.cli import main, sample
from boxscore.protocol.measures import quantity_of
from boxscore.protocol.protocol import EXTRA_NUMBERS
from boxscore.report import exports
from boxscore.report.html import make_report

BOX = [[0, 0, 10, 10]]


@pytest.fixture(scope="module")
def result() -> boxscore.Result:
    """One class found, one without truths, one with a name that every format has to mind."""
    truths = Truths(
        image_ids=[0, 0], labels=[3, 5], boxes=BOX * 2, class_names={3: "cat", 4: "dog", 5: r"50%_of|{a}\b"}
    )
    return boxscore.evaluate(Detections(image_ids=[0], labels=[3], scores=[0.9], boxes=BOX), truths, "voc2012")


def test_loggers_get_flat_floats_without_what_is_undefined(result: boxscore.Result) -> None:
    """Under the prefix as it is."""
    logged = result.log_dict("val/")
    assert logged == {"val/map": 0.5, "val/mar": 0.5, "val/ap/cat": 1.0, r"val/ap/50%_of|{a}\b": 0.0}
    assert all(type(value) is float for value in logged.values())
    assert list(boxscore.evaluate(*sample.load()).log_dict())[:2] == ["map", "map_50"]


def test_classes_that_share_a_name_keep_apart_in_loggers() -> None:
    """By their labels."""
    truths = Truths(image_ids=[0, 0], labels=[3, 5], boxes=BOX * 2, class_names={3: "cat", 5: "cat"})
    result = boxscore.evaluate(Detections(image_ids=[0], labels=[3], scores=[0.9], boxes=BOX), truths, "voc2012")
    assert result.log_dict() == {"map": 0.5, "mar": 0.5, "ap/cat 3": 1.0, "ap/cat 5": 0.0}


def test_csv_has_all_digits_and_nothing_for_undefined(result: boxscore.Result, tmp_path: Path) -> None:
    """As a string, and as a file."""
    content = result.to_csv()
    result.to_csv(tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text() == content
    rows = list(csv.DictReader(io.StringIO(content)))
    assert rows[0] == {"class": "", "number": "map", "value": "0.5"}
    assert {row["value"] for row in rows if row["class"] == "dog" and row["number"] == "ap"} == {""}
    other = boxscore.evaluate(*sample.load())
    rows = [row for row in csv.DictReader(io.StringIO(other.to_csv())) if not row["class"]]
    assert {row["number"]: float(row["value"]) for row in rows} == dict(other)


def test_a_file_that_cannot_be_written_is_named(result: boxscore.Result, tmp_path: Path) -> None:
    """And nothing is left behind."""
    with pytest.raises(InputError, match=r"nowhere/scores.csv: can't be written: No such file or directory"):
        result.to_csv(tmp_path / "nowhere" / "scores.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder: can't be written: Is a directory"):
        result.to_csv(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_markdown_tables(result: boxscore.Result) -> None:
    """A bar in a name does not end its cell."""
    assert result.to_markdown().splitlines() == [
        "| map | mar |",
        "| ---: | ---: |",
        "| 0.5000 | 0.5000 |",
        "",
        "| class | AP | AR | truths | detections |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| cat | 1.0000 | 1.0000 | 1 | 1 |",
        "| dog | - | - | 0 | 0 |",
        r"| 50%_of\|{a}\\b | 0.0000 | 0.0000 | 1 | 0 |",
    ]


def test_latex_tables(result: boxscore.Result) -> None:
    """What LaTeX would take as its own is escaped."""
    assert result.to_latex().splitlines() == [
        r"\begin{tabular}{rr}",
        r"\toprule",
        r"AP & AR \\",
        r"\midrule",
        r"50.0 & 50.0 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "",
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r"class & AP & AR & truths & detections \\",
        r"\midrule",
        r"cat & 100.0 & 100.0 & 1 & 1 \\",
        r"dog & -- & -- & 0 & 0 \\",
        r"50\%\_of|\{a\}\textbackslash{}b & 0.0 & 0.0 & 1 & 0 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    header = boxscore.evaluate(*sample.load()).to_latex().splitlines()[2]
    assert header.startswith(r"AP & AP\textsubscript{50} & AP\textsubscript{75} & AP\textsubscript{small} & ")


def test_every_number_has_a_name_in_papers() -> None:
    """Whatever is measured beside AP and recall; a number that nobody knows is shown by its name."""
    result = boxscore.evaluate(*sample.load(), Protocol.named("coco", extra_numbers=[*EXTRA_NUMBERS]))
    assert all(quantity_of(name) for name in result)
    header = result.to_latex().splitlines()[2]
    assert header.endswith(
        r" & MR\textsuperscript{-2} & JI & oLRP & oLRP\textsubscript{loc} & oLRP\textsubscript{fp}"
        r" & oLRP\textsubscript{fn} \\"
    )
    assert exports._short_name("new_number") == r"new\_number"


def test_nothing_at_all_is_exported_too() -> None:
    """Every number is undefined."""
    nothing = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    )
    assert math.isnan(nothing["map"])
    assert nothing.log_dict("val/") == {}
    assert nothing.log_dict("val/", undefined=-1.0) == {f"val/{name}": -1 for name in nothing}
    assert list(nothing.log_dict(undefined=float("nan"))) == list(nothing)
    assert "| - | - |" in nothing.to_markdown()
    assert "-- & --" in nothing.to_latex()


ODD = [
    "a\rb",
    "=1+1",
    "+cmd",
    "-x",
    "@sum",
    "-5",
    "<img src=x onerror=y>",
    "[a](http://b)",
    "\u202eabc",
    "\x1b[31mred",
    "a\u2028b",
]


@pytest.fixture(scope="module")
def odd() -> boxscore.Result:
    """Classes whose names would do something where they are shown as they are."""
    truths = Truths(image_ids=[0] * len(ODD), labels=range(len(ODD)), boxes=BOX * len(ODD), class_names=ODD)
    return boxscore.evaluate(Detections(image_ids=[], labels=[], scores=[], boxes=[]), truths, "voc2012")


def test_csv_has_no_formulas_and_one_line_for_each_row(odd: boxscore.Result) -> None:
    """An apostrophe stands before what a spreadsheet would compute; a number is none."""
    content = odd.to_csv()
    assert "\r" not in content
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    assert len(rows) == len(content.splitlines()) - 1 == 2 + 5 * len(ODD)
    names = list(dict.fromkeys(row["class"] for row in rows if row["class"]))
    assert names[:6] == [r"a\rb", "'=1+1", "'+cmd", "'-x", "'@sum", "-5"]


def test_markdown_has_no_html_and_no_links(odd: boxscore.Result) -> None:
    """They are shown as text."""
    content = odd.to_markdown()
    assert "<" not in content
    assert "| &lt;img src=x onerror=y&gt; |" in content
    assert r"| \[a\](http://b) |" in content
    assert "| a b |" in content
    assert len(content.splitlines()) == 3 + 1 + 2 + len(ODD)


def test_a_terminal_is_not_told_what_to_do(
    odd: boxscore.Result, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Neither by tables, nor by messages: control characters are escaped, also those for the direction of writing."""
    table = str(odd.per_class)
    assert not set(table) & set("\r\x1b\u202e\u2028")
    assert r"\u202eabc" in table
    assert r"\x1b[31mred" in table
    boxscore.write_truths(
        tmp_path / "t.json", Truths(image_ids=[0], labels=[0], boxes=BOX, class_names=["\x1b[31mred\u202e"])
    )
    (tmp_path / "d.csv").write_text("image_id,class_name,score,x,y,w,h\n0,other,0.5,1,2,3,4\n")
    assert main(["eval", str(tmp_path / "t.json"), str(tmp_path / "d.csv")]) == 1
    err = capsys.readouterr().err
    assert r"known: \x1b[31mred\u202e" in err
    assert "\x1b" not in err
    assert main(["check", str(tmp_path / "t.json"), str(tmp_path / "d.csv")]) == 1
    assert not set(capsys.readouterr().out) & set("\x1b\u202e")


def test_a_table_of_names_with_line_ends_reads_back(tmp_path: Path) -> None:
    """Also with the bare carriage return, which Python's writer leaves unquoted."""
    names = ["a\rb", "c\nd", "e\r\nf", 'g"h']
    truths = Truths(image_ids=[0] * 4, labels=range(4), boxes=BOX * 4, class_names=names)
    for name in ("t.csv", "t.tsv"):
        boxscore.write_truths(tmp_path / name, truths)
        again = boxscore.read_truths(tmp_path / name)
        assert again.class_names == dict(enumerate(names))


def test_extra_numbers_of_classes_are_in_every_export() -> None:
    """CSV has all digits; Markdown fractions; LaTeX percent, but scores are scores."""
    protocol = boxscore.Protocol.named("voc2012", extra_numbers=("mr", "ji", "olrp"))
    result = boxscore.evaluate(*sample.load(), protocol)
    rows = csv.DictReader(io.StringIO(result.to_csv()))
    dog = {row["number"]: float(row["value"]) for row in rows if row["class"] == "dog"}
    extra = {name: float(values[3]) for name, values in result.per_class.extra.items()}
    assert {name: dog[name] for name in extra} == extra
    assert {"mr", "olrp", "olrp_score"} <= extra.keys()
    *_, head, _, _, _, _, last = result.to_markdown().splitlines()
    assert head.endswith(f" | detections | {' | '.join(extra)} |")
    assert last.endswith(f" | {' | '.join(f'{value:.4f}' for value in extra.values())} |")
    table = result.to_latex().splitlines()
    (head,) = [line for line in table if line.startswith("class ")]
    assert head.endswith(r"oLRP\textsubscript{fn} & oLRP\textsubscript{score} \\")
    assert r" & detections & MR\textsuperscript{-2} & " in head
    (last,) = [line for line in table if line.startswith("dog ")]
    assert last.endswith(rf" & {100 * extra['olrp_fn']:.1f} & {extra['olrp_score']:.4f} \\")


def test_with_a_path_nothing_is_returned(tmp_path: Path) -> None:
    """As by pandas: a notebook would print the whole file."""
    result = boxscore.evaluate(*sample.load())
    comparison = boxscore.compare([result, result], resamples=2)
    errors = boxscore.analysis.label_errors([result])
    file = tmp_path / "file"
    calls: list[tuple[Callable[..., str | None], dict[str, Any], str]] = [
        (result.to_csv, {}, "class,number,value"),
        (comparison.to_csv, {}, "first,second,class"),
        (errors.to_csv, {}, "kind,suspicion"),
        (result.to_html, {"resamples": 0}, "<!doctype html>"),
        (comparison.to_html, {}, "<!doctype html>"),
        (errors.to_html, {}, "<!doctype html>"),
        (partial(make_report, {"model": result}), {"intervals": {}}, "<!doctype html>"),
    ]
    for call, options, start in calls:
        for path in (str(file), file):
            assert call(path, **options) is None
            assert file.read_text().startswith(start)
            file.unlink()
        content = call(**options)
        assert content is not None
        assert content.startswith(start)
