"""Shards as files, for machines that share nothing but a folder: python -m examples.shards_on_disk FOLDER.

`match` runs once per shard, on any machine, and writes a file; `finish` reads all of them. A file that already exists
is not made again, so a run that was interrupted continues where it stopped.
"""

import sys
from pathlib import Path

import numpy as np

import boxscore
from boxscore.cli.sample import FOLDER
from boxscore.scaling.shards import shard_of

NUM_SHARDS = 4


def match(shard: int, folder: Path) -> None:
    """Write the tally of a shard: under a temporary name, which is then renamed, so that no file is incomplete."""
    path = folder / f"shard-{shard}.tally"
    if path.exists():
        return
    truths = boxscore.read_truths(FOLDER / "truths.json")
    detections = boxscore.read_detections(FOLDER / "detections.json", truths)
    images = np.array(list(truths.image_names or ()))
    own = images[shard_of(images, NUM_SHARDS) == shard].tolist()
    detections, truths = boxscore.formats.select(detections, truths, images=own)
    boxscore.scaling.match_shard(detections, truths, "coco", name=path.stem, images=own).save(path)


def finish(folder: Path) -> boxscore.Result:
    """The result of all shards in a folder. A file that is truncated, changed or of another kind is an error."""
    return boxscore.finish([boxscore.Tally.load(path) for path in sorted(folder.glob("*.tally"))])


def main(folder: Path) -> None:
    """Match the shards of the sample, one after the other, and print the table of all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(NUM_SHARDS):
        match(shard, folder)
    print(finish(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
