"""`boxscore table1 GT DT`: Table 1 of the paper for any dataset.

True and false positives per class of the sequential method, of the parallel method as published, and of boxscore, which
must equal the sequential method.
"""

import argparse
import math
from typing import TYPE_CHECKING, Any

from boxscore._support import text
from boxscore.cli.arguments import fraction
from boxscore.cli.terminal import Outcome
from boxscore.protocol.protocol import Protocol

if TYPE_CHECKING:
    from boxscore.data.dataset import Detections, Truths
    from boxscore.result.result import Result


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("table1", help="compare methods on a dataset as Table 1 of the paper does")
    parser.add_argument("truths", metavar="GT", help="ground truth, in any supported format")
    parser.add_argument("detections", metavar="DT", help="detections, in any supported format")
    parser.add_argument(
        "--iou", type=fraction, default=0.5, metavar="T", help="IoU threshold, which a match must exceed (default: 0.5)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> Outcome:
    """Print the table."""
    from boxscore.formats import read_detections, read_truths

    truths = read_truths(options.truths)
    return Outcome(table1(read_detections(options.detections, truths), truths, threshold=options.iou))


def table1(detections: "Detections", truths: "Truths", *, threshold: float = 0.5) -> str:
    """TP and FP by class and mAP: S sequential, P parallel as published, B boxscore; differences from S in percent."""
    from boxscore.pipeline import evaluate_columns

    voc = Protocol.named("voc2012", comparison=">", thresholds=(threshold,))
    published = Protocol.named("paper", thresholds=(threshold,))
    s = evaluate_columns(detections, truths, voc, engine="sequential")
    p = evaluate_columns(detections, truths, published, engine="parallel")
    b = evaluate_columns(detections, truths, voc, engine="parallel")
    header = ["class", "TP(S)", "TP(P)", "", "TP(B)", "", "FP(S)", "FP(P)", "", "FP(B)", ""]
    rows = [
        [name, *_counts("num_true", k, s, p, b), *_counts("num_false", k, s, p, b)]
        for k, name in enumerate(s.per_class.name)
    ]
    maps = [
        f"{s['map']:.6f}",
        f"{p['map']:.6f}",
        _change(s["map"], p["map"]),
        f"{b['map']:.6f}",
        _change(s["map"], b["map"]),
    ]
    rows.append(["mAP", *maps, *[""] * 5])
    return text.table(rows, align="<" + ">" * 10, header=header)


def _counts(name: str, k: int, s: "Result", p: "Result", b: "Result") -> list[str]:
    first, second, third = (int(getattr(result.per_class, name)[k, 0]) for result in (s, p, b))
    return [f"{first:,}", f"{second:,}", _change(first, second), f"{third:,}", _change(first, third)]


def _change(old: float, new: float) -> str:
    if old == new or (math.isnan(old) and math.isnan(new)):
        return "0"
    return "new" if old == 0 else f"{(new - old) / old:+.2%}"
