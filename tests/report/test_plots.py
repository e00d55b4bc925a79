"""Charts: what they show is the data, and the files are whole, of both formats, with letters that stay letters."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure

import boxscore
from boxscore import Detections, InputError, Protocol, Truths
from boxscore._support import text
from boxscore.analysis.errors import TYPES
from boxscore.cli import main, sample
from boxscore.report import labels, plots

CHARTS = ["ap_by_iou", "calibration", "confusion", "errors", "pr", "scores", "sizes"]
FILES = [str(sample.FOLDER / "truths.json"), str(sample.FOLDER / "detections.json")]


def texts(figure: Figure) -> list[str]:
    """All that is written in a chart's first axes."""
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_chart_is_a_figure_of_its_own(result: boxscore.Result) -> None:
    """Nothing of pyplot's is touched, nor any setting of the user's."""
    code = """
import sys, json, boxscore, matplotlib
from boxscore.cli import sample
before = matplotlib.rcParams.copy()
result = boxscore.evaluate(*sample.load())
figures = [getattr(result, name)() for name in dir(result) if name.startswith("plot_")]
print(json.dumps([len(figures), "matplotlib.pyplot" in sys.modules, before == matplotlib.rcParams.copy()]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == [len(CHARTS), False, True]


def test_pr_curves_are_the_means_over_classes(result: boxscore.Result) -> None:
    """At every threshold; of one class, its own."""
    lines = result.plot_pr().axes[0].lines
    assert len(lines) == 10
    expected = result.curves.precision[3, :, :, 0, -1].mean(axis=1)
    assert np.array_equal(lines[3].get_ydata(), expected)
    assert lines[0].get_label() == "IoU 0.50 (AP 0.7934)"
    (car,) = result.plot_pr(classes=["car"], iou=0.75).axes[0].lines
    assert np.array_equal(car.get_ydata(), result.curves.precision[5, :, 2, 0, -1])
    assert [line.get_label() for line in result.plot_pr(iou=0.5).axes[0].lines] == [
        "person (AP 0.8130)",
        "bicycle (AP 0.7477)",
        "car (AP 0.8715)",
        "dog (AP 0.7415)",
        "mean, IoU 0.50 (AP 0.7934)",
    ]
    with pytest.raises(InputError, match=r"`classes` must be class names \(person, bicycle, car, dog\); got 'unicorn'"):
        result.plot_pr(classes=["unicorn"])
    with pytest.raises(InputError, match="`classes` must be a sequence of class names; got 'dog'"):
        result.plot_pr(classes="dog")


def test_many_classes_are_grey_behind_their_mean() -> None:
    """More lines than colours and dashes."""
    labels = np.arange(20)
    truths = Truths(image_ids=labels, labels=labels, boxes=np.tile([0, 0, 10, 10], (20, 1)))
    found = Detections(image_ids=labels, labels=labels, scores=np.full(20, 0.5), boxes=truths.boxes)
    figure = boxscore.evaluate(found, truths).plot_pr(iou=0.5)
    assert len({line.get_color() for line in figure.axes[0].lines}) == 2
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["mean, IoU 0.50 (AP 1.0000)"]  # type: ignore[union-attr]


def test_of_very_many_classes_the_most_confused_are_in_the_matrix() -> None:
    """All of 1,203 would be a picture of two gigapixels. By hand: 7 is taken for 1200, and 1200 for 30."""
    num = 1203
    box = np.array([[0, 0, 9, 9]]) + 20 * np.arange(num)[:, None]
    truths = Truths(image_ids=[0] * num, labels=range(num), boxes=box, class_names=[f"class {k}" for k in range(num)])
    label = np.arange(num)
    label[7], label[1200] = 1200, 30
    found = Detections(image_ids=[0] * num, labels=label, scores=np.ones(num), boxes=box)
    result = boxscore.evaluate(found, truths)
    confusion = result.confusion()
    assert confusion.most_confused(3) == [7, 30, 1200]
    assert confusion.most_confused(1) == [1200]
    axes = result.plot_confusion().axes[0]
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(names) == 101
    assert {"class 7", "class 30", "class 1200"} < set(names)
    assert names[-1] == "background"
    share = np.asarray(axes.images[0].get_array())
    assert share.shape == (101, 101)
    assert share[names.index("class 7"), names.index("class 1200")] == 1
    assert share[names.index("class 1200"), names.index("class 30")] == 1
    assert share[names.index("class 0"), names.index("class 0")] == 1


def test_bars_are_the_numbers(result: boxscore.Result) -> None:
    """Of sizes, of errors, of confusions."""
    names = ("map", "map_small", "map_medium", "map_large")
    assert texts(result.plot_sizes())[:4] == [f"{result[name]:.2f}" for name in names]
    errors = result.errors()
    shown = texts(result.plot_errors())
    assert shown == [f"{gain:.3f}  ({count:,})" for _, count, gain in errors.rows()]
    assert len(shown) == len(TYPES) + 2
    counts = result.confusion().count
    assert texts(result.plot_confusion()) == [f"{count:,}" for count in counts.ravel() if count]


def test_scores_and_calibration_show_their_numbers(result: boxscore.Result) -> None:
    """The best threshold, and the error."""
    figure = result.plot_scores()
    best = result.operating_points(iou=0.5)
    assert (f"{best.f1[0]:.3f}", f"{best.score[0]:.3f}") == ("0.835", "0.452")
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[-1].get_text() == "best F1, 0.835: score ≥ 0.452"
    words = f"best F1 {best.f1[0]:.4f} at score >= {best.score[0]:.4f}"
    assert str(result.scores()).splitlines()[0] == f"scores at IoU 0.50; {words}"
    assert texts(result.plot_calibration()) == ["ECE 0.156"]


def test_files_are_whole_and_the_same_every_time(result: boxscore.Result, tmp_path: Path) -> None:
    """PNG and PDF; in a PDF letters are type 42, which publishers take."""
    paths = result.save_plots(tmp_path / "new" / "folder")
    assert sorted(path.name for path in paths) == sorted(f"{name}.{kind}" for name in CHARTS for kind in ("pdf", "png"))
    for path in paths:
        content = path.read_bytes()
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG")
            assert content.endswith(b"IEND\xaeB`\x82")
        else:
            assert content.startswith(b"%PDF")
            assert b"/Type3" not in content
            assert b"/CIDFontType2" in content
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(path.name for path in paths)
    again = plots.save({"sizes": result.plot_sizes()}, tmp_path)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths if path.stem == "sizes"]


def test_what_cannot_be_drawn_is_left_out(tmp_path: Path) -> None:
    """A stream has no boxes; scores beyond 1 have no calibration; of nothing there are empty charts."""
    metric = boxscore.MeanAveragePrecision("voc2012")
    there = {"boxes": [[0, 0, 9, 9]], "labels": [1]}
    metric.update([{**there, "scores": [7.5]}], [there])
    paths = metric.compute().save_plots(tmp_path / "stream")
    assert sorted({path.stem for path in paths}) == ["ap_by_iou", "pr", "scores", "sizes"]
    nothing = boxscore.evaluate(
        Detections(image_ids=[], labels=[], scores=[], boxes=[]), Truths(image_ids=[], labels=[], boxes=[])
    )
    assert len(nothing.save_plots(tmp_path / "nothing")) == 2 * len(CHARTS)


def test_any_protocol_has_its_sizes() -> None:
    """Also with one area range, or with ranges of other names."""
    detections, truths = sample.load()
    for protocol in (Protocol.named("voc2007"), Protocol.named("coco", areas={"every": (0, None), "tiny": (0, 400)})):
        figure = boxscore.evaluate(detections, truths, protocol).plot_sizes()
        labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
        assert labels == [area.name for area in protocol.areas]


def test_the_command_draws_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several files, in a folder each."""
    other = tmp_path / "detections.json"
    other.write_text(Path(FILES[1]).read_text())
    assert main(["eval", *FILES, str(other), "--plots", str(tmp_path / "two"), "--quiet"]) == 0
    folders = sorted(path.name for path in (tmp_path / "two").iterdir() if path.is_dir())
    files = sorted(path.name for path in (tmp_path / "two").iterdir() if path.is_file())
    assert files == ["models_ap_by_iou.pdf", "models_ap_by_iou.png", "models_pr.pdf", "models_pr.png"]
    assert len(folders) == 2
    assert all(name.endswith("_detections.json") for name in folders)
    assert sorted({path.stem for path in (tmp_path / "two" / folders[0]).iterdir()}) == CHARTS
    (tmp_path / "file").write_text("mine")
    assert main(["eval", *FILES, "--plots", str(tmp_path / "file")]) == 1
    assert "file: can't be created as a folder: File exists" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    """Before anything is evaluated or written."""
    code = f"""
import sys
sys.modules["matplotlib"] = None
from boxscore.cli import main
from boxscore.report import plots
sys.exit(main(["eval", *{FILES!r}, "--plots", "never"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "boxscore: plots need matplotlib, which is not installed: pip install 'boxscore[plots]'\n"
    assert not Path("never").exists()


def test_the_users_style_is_not_ours(result: boxscore.Result) -> None:
    """A chart is the same whatever the user has set."""
    with mpl.rc_context({"font.size": 30, "axes.grid": True}):
        figure = result.plot_sizes()
    assert figure.axes[0].xaxis.label.get_fontsize() == 8


def test_several_models_are_in_one_chart(result: boxscore.Result) -> None:
    """A line each, with its name and AP, of its own colour."""
    detections, truths = sample.load()
    fewer = boxscore.evaluate(detections, truths, Protocol.named("coco", limits=(1, 2, 3)))
    with pytest.raises(InputError, match="`results` must all have one protocol, but for `iou_type`; got d"):
        plots.draw_models({"all": result, "fewer": fewer})
    moved = Truths(image_ids=truths.image_ids, labels=truths.labels, boxes=truths.boxes, box_format=truths.box_format)
    none = boxscore.evaluate(Detections(image_ids=[], labels=[], scores=[], boxes=[]), moved)
    comparison = boxscore.compare({"one": result, "the same": result}, resamples=2)
    one, same = comparison.plot_pr(iou=0.75).axes[0].lines
    assert np.array_equal(one.get_ydata(), result.curves.precision[5, :, :, 0, -1].mean(axis=1))
    ap = f"(AP {result['map_75']:.4f})"
    assert (one.get_label(), same.get_label()) == (f"one {ap}", f"the same {ap}")
    assert one.get_color() != same.get_color()
    lines = plots.draw_models({"one": result, "none": none})["models_ap_by_iou"].axes[0].lines
    assert [line.get_label() for line in lines] == ["one", "none"]
    assert np.array_equal(lines[0].get_ydata(), [*result.per_threshold.values()])
    assert len(comparison.plot_ap_by_iou().axes[0].lines) == 2


def test_charts_of_models_name_the_similarity() -> None:
    """OKS for keypoints."""
    points = np.stack([np.arange(34.0).reshape(1, 17, 2)] * 2, axis=1)[0]
    truths = Truths(image_ids=[0, 1], labels=[1, 1], keypoints=points)
    found = Detections(image_ids=[0, 1], labels=[1, 1], scores=[0.9, 0.8], keypoints=points)
    result = boxscore.evaluate(found, truths, "coco_keypoints")
    charts = plots.draw_models({"one": result, "two": result})
    assert charts["models_ap_by_iou"].axes[0].get_xlabel() == "OKS threshold"


NAMES = [
    "日本語のとても長いクラス名は折り返しが必要です",
    "a name so long that an axis has no room for it " * 5,
    "cost $5 to $10^{",
    "emoji 🚲",
    "half a pair \ud800",
    "\u202eright to left \u05d0",
    "two\nlines\ttab\0",
    "中文",
]


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_names_of_any_script_and_length_are_drawn_without_warnings(kind: str, tmp_path: Path) -> None:
    """Warnings are errors here. What no installed font has is a box; a dollar is a dollar."""
    num = len(NAMES)
    box = [[0, 0, 9, 9]] * num
    truths = Truths(image_ids=range(num), labels=range(num), boxes=box, class_names=NAMES)
    found = Detections(image_ids=range(num), labels=[*range(1, num), 0], scores=[0.9] * num, boxes=box)
    result = boxscore.evaluate(found, truths)
    figures = [
        result.plot_confusion(),
        result.plot_pr(iou=0.5),
        *plots.draw_models(dict.fromkeys(NAMES, result)).values(),
    ]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error")
        for figure in figures:
            figure.savefig(tmp_path / f"chart.{kind}")
            width, height = figure.get_size_inches()
            place = figure.axes[0].get_position()
            assert width * place.width > 1
            assert height * place.height > 1
    labels = [label.get_text() for label in figures[0].axes[0].get_yticklabels()]
    assert labels[2] == NAMES[2]
    assert labels[1].startswith("a name so lo")
    assert len(labels[1]) <= 26
    assert labels[6] == r"two\nlines\ttab\x00"
    assert labels[-1] == "background"


def test_letters_that_the_base_font_lacks_come_from_another() -> None:
    """One that is installed; matplotlib's own STIX has letters that its DejaVu Sans has not."""
    base, other = (labels._letters_of(font_manager.findfont(name)) for name in ("DejaVu Sans", "STIXGeneral"))
    lacking = chr(min(code for code in other - base if chr(code).isprintable() and code > 0x2000))
    names, families, longest = labels.fit_labels([f"a{lacking}b", "dog"], 20)
    assert names == [f"a{lacking}b", "dog"]
    assert families[0] == "DejaVu Sans"
    assert len(families) == 2
    assert ord(lacking) in labels._letters_of(font_manager.findfont(families[1]))
    assert longest == max(map(text.width, names))
    nowhere = chr(0x10FFFD)  # of private use
    assert labels.fit_labels([nowhere], 20).names == [labels.MISSING]


def test_numbers_of_the_matrix_are_read_on_every_shade() -> None:
    """A contrast of 4.5 to 1, as WCAG asks of text, for every share."""
    colors = mpl.colormaps["Blues"](np.sqrt(np.linspace(0, 1, 1001)))[:, :3]
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    ink = np.array([{"white": 1.0, "black": 0.0}[plots._ink_on(color)] for color in colors])
    contrast = (np.maximum(ink, luminance) + 0.05) / (np.minimum(ink, luminance) + 0.05)
    assert contrast.min() >= 4.5
