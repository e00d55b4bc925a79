"""`boxscore demo`: evaluate the sample data in the package."""

import argparse
from typing import Any

from boxscore.cli.terminal import Outcome


def add_to(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", help="evaluate the sample data in the package")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> Outcome:
    """Print the tables of the sample under COCO and VOC 2012."""
    from boxscore.cli import sample
    from boxscore.pipeline import evaluate_columns

    detections, truths = sample.load()
    coco = evaluate_columns(detections, truths, "coco")
    voc = evaluate_columns(detections, truths, "voc2012")
    return Outcome(f"{coco}\n\n{coco.per_class}\n\n{voc}")
