"""`boxscore eval`: the table, JSON, CSV; the short way for COCO files gives what columns give."""

import csv
import fnmatch
import io
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import boxscore
from boxscore import Protocol
from boxscore.cli import evaluate, main, sample
from boxscore.cli.command_line import make_parser
from boxscore.cli.direct import summarize_files
from boxscore.cli.parsing import commands_of, parse
from boxscore.formats import read_detections, read_truths
from boxscore.result.summary import Summary
from tests.support.scenes import random_scene
from tests.support.shared import shared_data

TRUTHS, DETECTIONS = sample.FOLDER / "truths.json", sample.FOLDER / "detections.json"
FILES = [str(TRUTHS), str(DETECTIONS)]


def by_columns(truths: Path, detections: Path, protocol: Protocol) -> Summary:
    """The summary by way of columns, in Python."""
    there = read_truths(truths)
    return boxscore.evaluate(read_detections(detections, there), there, protocol).summary


def assert_same(direct: Summary, expected: Summary) -> None:
    """Every bit; NaN where there is NaN."""
    assert repr(direct.numbers) == repr(expected.numbers)
    assert [repr(row) for row in direct.per_class] == [repr(row) for row in expected.per_class]
    assert direct.to_dict() == expected.to_dict()
    assert str(direct) == str(expected)


@pytest.mark.native
@pytest.mark.parametrize("name", ["coco", "voc2007", "voc2012", "paper"])
def test_the_short_way_gives_every_bit_of_the_long_one(name: str, tmp_path: Path) -> None:
    """On the sample and on random scenes, with classes that have no truths, under every protocol."""
    for seed in range(4):
        scene = random_scene(seed, num_classes=6 if seed else 1)
        evaluation = scene.pycocotools()
        truths, detections = tmp_path / "truths.json", tmp_path / "detections.json"
        truths.write_text(json.dumps(evaluation.cocoGt.dataset))
        rows = [
            {key: row[key] for key in ("image_id", "category_id", "bbox", "score")}
            for row in evaluation.cocoDt.dataset["annotations"]
        ]
        detections.write_text(json.dumps(rows))
        many = {f"size {a}": (a * 500, a * 500 + 700) for a in range(8)}
        for protocol in (Protocol.named(name), Protocol.named(name, areas={"all": (0, None)} | many, limits=(2, None))):
            (summaries,) = summarize_files(truths, [detections], [protocol], threads=2)
            assert summaries is not None
            assert_same(summaries[0], by_columns(truths, detections, protocol))


def test_the_short_way_on_real_data() -> None:
    """COCO val2017 and a real detector; the reference's AP, to the last bit."""
    truths = shared_data("coco_val2017/instances_val2017_boxes.json")
    detections = shared_data("coco_val2017/yolox_nano.json")
    (summaries,) = summarize_files(truths, [detections], [Protocol.named("coco")], threads=2)
    assert summaries is not None
    assert summaries[0].numbers["map"] == 0.25640230486509386
    assert_same(summaries[0], by_columns(truths, detections, Protocol.named("coco")))


RESULT = {"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4], "score": 0.5}


@pytest.mark.native
@pytest.mark.parametrize(
    "results",
    [
        [RESULT | {"image_id": 999}],
        [RESULT | {"category_id": 999}],
        [RESULT | {"bbox": [1, 2, -3, 4]}],
        [RESULT | {"bbox": [1, 2, 1e19, 4]}],
        [RESULT | {"image_id": "street"}],
        {"annotations": [RESULT], "categories": []},
        "{",
    ],
)
def test_what_a_user_should_hear_of_goes_the_long_way(results: Any, tmp_path: Path) -> None:
    """Which has the words for it."""
    path = tmp_path / "results.json"
    path.write_text(results if isinstance(results, str) else json.dumps(results))
    first, second = summarize_files(TRUTHS, [DETECTIONS, path], [Protocol.named("coco")], threads=1)
    assert first is not None
    assert second is None
    assert summarize_files(TRUTHS, [tmp_path / "missing.json"], [Protocol.named("coco")], threads=1) == [None]
    assert summarize_files(TRUTHS, [DETECTIONS], [Protocol.named("coco", average="weighted")], threads=1) == [None]


@pytest.mark.native
def test_a_suspicious_result_needs_no_second_reading(tmp_path: Path) -> None:
    """The general path continues from what was read: each file is opened once, and output and warnings are its own."""
    path = tmp_path / "shifted.json"
    rows = json.loads(DETECTIONS.read_text())
    path.write_text(json.dumps([row | {"category_id": row["category_id"] % 3 + 1} for row in rows]))
    code = f"""
import json, sys, collections
import boxscore._compiled as compiled
from boxscore.cli import evaluate, main
files = {[*map(str, (TRUTHS, DETECTIONS, path))]}
opened = collections.Counter()
sys.addaudithook(lambda event, given: event == "open" and opened.update([str(given[0])]))
read = compiled.read_coco_file
def counted(path, *args, **more):
    opened.update([path.decode()])
    return read(path, *args, **more)
compiled.read_coco_file = counted
words = ["eval", *files, "--per-class"]
if "general" in sys.argv:
    evaluate.summarize_files = lambda truths, detections, *more: [None] * len(detections)
    words += ["--threads", "2"]  # so that no file is read early
assert main(words) == 0
print(json.dumps([opened[file] for file in files]))
"""
    runs = [
        subprocess.run([sys.executable, "-c", code, way], capture_output=True, text=True, check=True)
        for way in ("fast", "general")
    ]
    assert runs[0].stderr == runs[1].stderr
    assert "shifted.json look one" in runs[0].stderr
    (table, fast), (general, other) = (run.stdout.rstrip().rsplit("\n", 1) for run in runs)
    assert table == general
    assert json.loads(fast) == json.loads(other) == [1, 1, 1]


@pytest.mark.native
def test_an_option_that_the_fast_path_does_not_know_takes_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """So an option that is added later can't be ignored."""
    taken: list[Any] = []

    def take(*given: Any) -> list[None]:
        taken.append(given)
        return [None]

    monkeypatch.setattr(evaluate, "summarize_files", take)
    parser = make_parser(["eval"])
    commands_of(parser)["eval"].add_argument("--new", action="store_true")
    for words, is_fast in (((), True), (("--per-class", "--threads", "1"), True), (("--new",), False)):
        taken.clear()
        options = parse(parser, ["eval", *FILES, *words])
        options.run(options)
        assert bool(taken) is is_fast, words


def test_eval_prints_the_table_of_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, and nothing else anywhere."""
    result = boxscore.evaluate(*sample.load())
    assert main(["eval", *FILES]) == 0
    assert capsys.readouterr() == (f"{result}\n", "")
    assert main(["eval", *FILES, "--per-class", "--engine", "sequential"]) == 0
    assert capsys.readouterr() == (f"{result}\n\n{result.per_class}\n", "")
    assert main(["eval", *FILES, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_eval_needs_no_numpy_for_coco_files() -> None:
    """Nor anything that plots or trains; importing it would take as long as the rest."""
    code = f"""
import json, sys
from boxscore.cli import main
assert main(["eval", {FILES[0]!r}, {FILES[1]!r}, "--quiet"]) == 0
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"numpy", "torch", "jax", "tensorflow", "matplotlib", "pandas", "array_api_compat", "pyarrow"}
    assert not heavy & set(json.loads(done.stdout))


def test_json_is_the_result_as_a_dict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a file, or on stdout instead of the table."""
    expected = boxscore.evaluate(*sample.load()).to_dict()
    assert main(["eval", *FILES, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    path = tmp_path / "out.json"
    assert main(["eval", *FILES, "--json", str(path)]) == 0
    assert json.loads(path.read_text()) == expected
    assert capsys.readouterr().out.startswith("coco: 4 classes")
    assert sorted(tmp_path.iterdir()) == [path]


def test_several_files_get_a_column_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one table; as JSON a list, each with its file."""
    half = tmp_path / "half.json"
    half.write_text(json.dumps(json.loads(DETECTIONS.read_text())[::2]))
    output = tmp_path / "out.json"
    assert main(["eval", *FILES, str(half), "--per-class", "--json", str(output)]) == 0
    lines = capsys.readouterr().out.splitlines()
    there = read_truths(TRUTHS)
    results = [boxscore.evaluate(read_detections(path, there), there) for path in (DETECTIONS, half)]
    assert lines[0].split() == ["coco", "detections.json", "half.json", "IoU", "area", "limit"]
    assert lines[2].split()[:3] == ["map", *(f"{result['map']:.4f}" for result in results)]
    person = next(line for line in lines if line.startswith("person"))
    assert person.split()[1:] == [f"{result.per_class.ap[0]:.4f}" for result in results]
    written = json.loads(output.read_text())
    assert [each["detections"] for each in written] == [str(DETECTIONS), str(half)]
    assert [each["map"] for each in written] == [result["map"] for result in results]


def test_csv_has_one_number_a_line(tmp_path: Path) -> None:
    """All numbers, then those of each class."""
    path = tmp_path / "out.csv"
    assert main(["eval", *FILES, "--csv", str(path), "--quiet"]) == 0
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    result = boxscore.evaluate(*sample.load())
    assert rows[0] == {"detections": "detections.json", "class": "", "number": "map", "value": repr(result["map"])}
    dog = {row["number"]: float(row["value"]) for row in rows if row["class"] == "dog"}
    assert dog["ap"] == result.per_class.ap[3]
    assert dog["num_truths"] == 30


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        (["--protocol", "voc2012"], {"name": "voc2012"}),
        (["--iou", "0.5:0.75:0.05"], {"thresholds": (0.5, 0.55, 0.6, 0.65, 0.7, 0.75)}),
        (["--iou", "0.5,0.9", "--max-dets", "2,all"], {"thresholds": (0.5, 0.9), "limits": (2, None)}),
        (["--areas", "tiny=:400,rest=400:"], {"areas": {"all": (0, 1e10), "tiny": (0, 400), "rest": (400, None)}}),
        (["--areas", "none"], {"areas": {"all": (0, 1e10)}}),
    ],
)
def test_options_make_the_protocol(
    options: list[str], changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is a field of it."""
    changes = dict(changes)
    protocol = Protocol.named(changes.pop("name", "coco"))
    if "thresholds" in changes and len(changes["thresholds"]) > 2:
        changes["thresholds"] = [0.5 + i * ((0.75 - 0.5) / 5) for i in range(5)] + [0.75]
    expected = boxscore.evaluate(*sample.load(), protocol.replace(**changes)).to_dict()
    assert main(["eval", *FILES, *options, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--iou", "1.5"], "argument --iou: must lie between 0 and 1; got 1.5"),
        (["--iou", "0.9,0.5"], "argument --iou: must be ascending, without repeats; got [0.9, 0.5]"),
        (["--iou", "0.5:0.9"], "argument --iou: must be first:last:step; got '0.5:0.9'"),
        (["--iou", "0.5:0.9:0.3"], "argument --iou: must reach last from first in whole steps; got '0.5:0.9:0.3'"),
        (["--iou", "x"], "argument --iou: must be a number; got 'x'"),
        (["--max-dets", "0"], "argument --max-dets: must be a positive integer; got '0'"),
        (["--areas", "small"], "argument --areas: must be name=low:high,…; got 'small'"),
        (["--areas", "a=0:1,a=1:2"], "argument --areas: must have different names, and not `all`, which is implicit"),
        (["--areas", "a=5:1"], "argument --areas: `areas`: 'a' must have 0 <= low <= high; got (5, 1)"),
        (["--classes", ","], "argument --classes: must be names separated by commas; got ','"),
        (["--threads", "-1"], "argument --threads: "),
        (["--protocol", "kitti"], "argument --protocol: invalid choice: 'kitti'"),
    ],
)
def test_a_wrong_option_is_exit_code_2(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the option, the rule, and what came."""
    with pytest.raises(SystemExit) as stopped:
        main(["eval", *FILES, *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_an_output_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing is left behind."""
    path = tmp_path / "no such folder" / "out.json"
    assert main(["eval", *FILES, "--json", str(path)]) == 1
    assert capsys.readouterr() == ("", f"boxscore: {path}: can't be written: No such file or directory\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--json", "--csv", "--html"])
def test_what_cannot_be_written_is_known_before_the_work(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data is not even looked at."""
    assert main(["eval", "no such file", "no such file", option, str(tmp_path)]) == 1
    assert capsys.readouterr() == ("", f"boxscore: {tmp_path}: can't be written: Is a directory\n")


def test_csv_and_report_go_to_stdout_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Instead of the table; one of them, as there is one stdout."""
    file = tmp_path / "scores.csv"
    assert main(["eval", *FILES, "--csv", str(file), "--quiet"]) == 0
    assert main(["eval", *FILES, "--csv", "-"]) == 0
    assert capsys.readouterr() == (file.read_text(), "")
    assert main(["eval", *FILES, "--html", "-", "--bootstrap", "2"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>\n")
    with pytest.raises(SystemExit) as stopped:
        main(["eval", *FILES, "--json", "-", "--csv", "-"])
    assert stopped.value.code == 2
    assert "argument --csv: only one output can go to stdout, and --json already does" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is full")
def test_a_full_disk_is_one_line() -> None:
    """Not the end of the program."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "boxscore", "eval", *FILES], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "boxscore: stdout: can't be written: No space left on device\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """As in a job that nobody looks at; files are written all the same, and no message takes another way."""
    command = f"{sys.executable} -m boxscore eval {' '.join(FILES)} --json {tmp_path}/out.json {closed}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "" if "2>" in closed else f"wrote {tmp_path}/out.json\n")
    assert "map" in json.loads((tmp_path / "out.json").read_text())
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m boxscore eval a b 2>&-"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")


def test_letters_that_stdout_does_not_have_are_escaped(tmp_path: Path) -> None:
    """Class names may be of any script, names of files of any bytes."""
    truths = json.loads(TRUTHS.read_text())
    truths["categories"][0]["name"] = "人"
    (tmp_path / "truths.json").write_text(json.dumps(truths))
    odd = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.json")
    Path(odd).write_text(DETECTIONS.read_text())
    csv = tmp_path / "scores.csv"
    files = [str(tmp_path / "truths.json"), odd, FILES[1]]
    for encoding, name in (("ascii", "\\u4eba"), ("utf-8", "人")):
        done = subprocess.run(
            [sys.executable, "-m", "boxscore", "eval", *files, "--per-class", "--csv", str(csv)],
            capture_output=True,
            env=os.environ | {"PYTHONIOENCODING": encoding},
        )
        assert (done.returncode, done.stderr.decode()) == (0, f"wrote {csv}\n")
        out = done.stdout.decode(encoding)
        assert "caf\\udce9.json" in out
        assert f"\n{name} " in out
    assert csv.read_text(encoding="utf-8").splitlines()[1].startswith("caf\\udce9.json,,map,")


def test_files_and_options_come_in_any_order(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Wherever a file stands, it is one of the detections."""
    other = tmp_path / "other.json"
    other.write_text(DETECTIONS.read_text())
    assert main(["eval", *FILES, str(other), "--iou", "0.5"]) == 0
    expected = capsys.readouterr().out
    assert "other.json" in expected
    assert main(["eval", *FILES, "--iou", "0.5", str(other)]) == 0
    assert capsys.readouterr().out == expected
    assert main(["check", FILES[0], "--protocol", "coco", FILES[1]]) == 0
    assert "detections.json" in capsys.readouterr().out


def test_a_mistyped_option_is_told_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    """In two lines: how the command is called, and what is wrong."""
    with pytest.raises(SystemExit) as stopped:
        main(["eval", *FILES, "--perclass"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "usage: boxscore eval GT DT [DT ...] [options]\n"
        "boxscore eval: error: unknown option --perclass; did you mean --per-class?\n"
    )
    with pytest.raises(SystemExit):
        main(["demo", "--xyzzy"])
    assert capsys.readouterr().err.endswith("boxscore demo: error: unknown option --xyzzy\n")
    with pytest.raises(SystemExit):
        main(["table1", "a", "b", "c"])
    assert capsys.readouterr().err.endswith("boxscore table1: error: unrecognized arguments: c\n")


def test_a_file_given_twice_has_two_columns_and_two_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under names of their own; so has a group that is called as all of them are."""
    page = tmp_path / "report.html"
    assert main(["eval", *FILES, FILES[1], "--html", str(page), "--bootstrap", "2"]) == 0
    head = capsys.readouterr().out.splitlines()[2]
    assert [f"detections.json ({i})" in head for i in (1, 2, 3)] == [True, True, False]
    assert page.read_text().count('"name":"' + f"{DETECTIONS} (") == 2
    groups = tmp_path / "groups.csv"
    groups.write_text("image,group\nstreet_001.jpg,all\n")
    assert main(["eval", *FILES, "--slice", str(groups)]) == 0
    assert capsys.readouterr().out.split("\n")[0].split()[1:4] == ["all", "images", "all"]


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As `boxscore eval … | head -1`."""
    command = f"{sys.executable} -m boxscore demo | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_colours_are_for_terminals() -> None:
    """Real ones, unless NO_COLOR is set."""
    import pty

    def on_terminal(environment: dict[str, str]) -> str:
        parent, child = pty.openpty()
        command = [sys.executable, "-m", "boxscore", "eval", *FILES]
        with subprocess.Popen(command, stdout=child, stderr=child, env=os.environ | environment) as run:
            os.close(child)
            seen = b""
            while True:
                try:
                    more = os.read(parent, 4096)
                except OSError:
                    break
                if not more:
                    break
                seen += more
            assert run.wait() == 0
        os.close(parent)
        return seen.decode()

    assert on_terminal({"TERM": "xterm"}).startswith("\033[1mcoco: 4 classes")
    assert "\033" not in on_terminal({"TERM": "xterm", "NO_COLOR": "1"})


def test_completion_knows_commands_options_and_choices() -> None:
    """Bash itself completes."""
    code = f"""
source <({sys.executable} -m boxscore completion bash)
complete_line() {{
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _shtab_boxscore; echo "${{COMPREPLY[@]}}"; }}
complete_line boxscore ev
complete_line boxscore eval --per
complete_line boxscore eval --protocol voc
complete_line boxscore eval truths.json {FILES[1][:-2]}
"""
    done = subprocess.run(["bash", "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["eval", "--per-class", "voc2007 voc2012", FILES[1]]
    assert done.stderr == ""


def test_every_shell_is_completed_or_refused_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the installed shtab knows it."""
    import shtab

    for shell in ("bash", "zsh", "fish", "tcsh"):
        is_known = shell in shtab.SUPPORTED_SHELLS
        assert main(["completion", shell]) == (0 if is_known else 1)
        printed = capsys.readouterr()
        assert "per-class" in printed.out if is_known else f"no completion for {shell}" in printed.err
    monkeypatch.setattr(shtab, "SUPPORTED_SHELLS", ["bash"])
    assert main(["completion", "fish"]) == 1
    assert capsys.readouterr().err.endswith(" has no completion for fish; it has bash\n")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "needs shtab: pip install 'boxscore[completion]'" in capsys.readouterr().err


def test_undefined_numbers_are_dashes_and_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class without truths."""
    truths = json.loads(TRUTHS.read_text())
    truths["categories"].append({"id": 99, "name": "unicorn"})
    path = tmp_path / "truths.json"
    path.write_text(json.dumps(truths))
    assert main(["eval", str(path), FILES[1], "--per-class"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("unicorn"))
    assert row.split()[1:] == ["-", "-", "-", "0", "0", "0", "0", "0"]
    assert main(["eval", str(path), FILES[1], "--json", "-"]) == 0
    unicorn = json.loads(capsys.readouterr().out)["per_class"][-1]
    assert unicorn["ap"] is None
    (summaries,) = summarize_files(path, [DETECTIONS], [Protocol.named("coco")], threads=1)
    assert summaries is not None
    assert math.isnan(summaries[0].per_class[-1].ap)


def test_some_images_and_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By a list in a file, by a pattern, by names."""
    detections, truths = sample.load()
    names = truths.image_names or {}
    chosen = [name for name in names.values() if fnmatch.fnmatch(name, "*1*")]
    assert 1 < len(chosen) < len(names)
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{name}\n" for name in chosen))
    expected = boxscore.evaluate(
        *boxscore.formats.select(detections, truths, images=chosen, classes=["dog", "car"])
    ).to_dict()
    for images in (str(listed), "*1*"):
        assert main(["eval", *FILES, "--only-images", images, "--classes", "dog,car", "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out) == expected
    assert main(["eval", *FILES, "--only-images", "nothing*"]) == 1
    assert "`images`: 'nothing*' matches no name in the data" in capsys.readouterr().err


def test_errors_and_operating_points_are_printed_and_in_the_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as in Python; several files have theirs one after the other."""
    result = boxscore.evaluate(*sample.load())
    document = tmp_path / "all.json"
    assert main(["eval", *FILES, "--errors", "--operating-point", "recall=0.8", "--json", str(document)]) == 0
    assert capsys.readouterr().out == f"{result}\n\n{result.errors()}\n\n{result.operating_points(recall=0.8)}\n"
    plain = json.loads(document.read_text())
    assert plain == result.to_dict() | {
        "errors": result.errors().to_dict(),
        "operating_points": result.operating_points(recall=0.8).to_dict(),
    }
    other = tmp_path / "other.json"
    other.write_text(DETECTIONS.read_text())
    assert main(["eval", *FILES, str(other), "--operating-point", "f1"]) == 0
    points = str(result.operating_points())
    assert capsys.readouterr().out.endswith(f"\n\ndetections.json: {points}\n\nother.json: {points}\n")


@pytest.mark.parametrize(
    ("aim", "message"),
    [
        ("accuracy=0.9", "must be f1, precision=P or recall=R; got 'accuracy=0.9'"),
        ("precision", "must be f1, precision=P or recall=R; got 'precision'"),
        ("recall=2", "must lie between 0 and 1; got 2"),
    ],
)
def test_an_operating_point_that_makes_no_sense_is_a_wrong_call(
    aim: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2."""
    with pytest.raises(SystemExit) as exit_:
        main(["eval", *FILES, "--operating-point", aim])
    assert exit_.value.code == 2
    assert f"argument --operating-point: {message}" in capsys.readouterr().err
