"""Shards that meet on disk, for machines that share nothing but a folder: python -m examples.shards_on_disk FOLDER.

`match` runs once a shard, anywhere, at any time, and leaves a file; `finish` puts the files together. A file that is
there already is not made again, so a run that was interrupted goes on where it stopped.
"""

import sys
from pathlib import Path

import numpy as np

import boxscore
from boxscore.cli.sample import FOLDER
from boxscore.scaling.shards import shard_of

NUM_SHARDS = 4


def match(shard: int, folder: Path) -> None:
    """The tally of a shard is on disk, whole: it is written under another name, and renamed."""
    path = folder / f"shard-{shard}.tally"
    if path.exists():
        return
    truths = boxscore.read_truths(FOLDER / "truths.json")
    detections = boxscore.read_detections(FOLDER / "detections.json", truths)
    images = np.array(list(truths.image_names or ()))
    mine = images[shard_of(images, NUM_SHARDS) == shard].tolist()
    found, there = boxscore.select(detections, truths, images=mine)
    boxscore.match_shard(found, there, "coco", name=path.stem, images=mine).save(path)


def finish(folder: Path) -> boxscore.Result:
    """The result of all shards in a folder. A file that is cut off, changed or of another kind is refused by name."""
    return boxscore.finish([boxscore.Tally.load(path) for path in sorted(folder.glob("*.tally"))])


def main(folder: Path) -> None:
    """Match the shards of the sample, one after the other, and print the table of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(NUM_SHARDS):
        match(shard, folder)
    print(finish(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
