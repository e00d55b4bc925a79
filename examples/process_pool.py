"""Shards on all cores of one machine with concurrent.futures: python -m examples.process_pool.

Each process matches whole images and returns a tally, about 20 bytes per detection; the parent finishes them all.
The same three steps are all that Spark, Dask or a queue need: match_shard, Tally.merge, Tally.finish.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import boxscore
from boxscore.cli.sample import FOLDER
from boxscore.result import storage
from boxscore.scaling.shards import shard_of

NUM_SHARDS = 4


def match_one(shard: int) -> bytes:
    """The tally of a shard, as bytes. A real worker would read only its own files."""
    truths = boxscore.read_truths(FOLDER / "truths.json")
    detections = boxscore.read_detections(FOLDER / "detections.json", truths)
    images = np.array(list(truths.image_names or ()))
    own = images[shard_of(images, NUM_SHARDS) == shard].tolist()
    detections, truths = boxscore.formats.select(detections, truths, images=own)
    tally = boxscore.scaling.match_shard(detections, truths, "coco", name=f"shard {shard}", images=own, threads=1)
    return storage.to_bytes(tally)


def main() -> None:
    """Match the shards of the sample in two processes, and print the table of all of them."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        tallies = [storage.from_bytes(content) for content in pool.map(match_one, range(NUM_SHARDS))]
    print(boxscore.finish(tallies))


if __name__ == "__main__":
    main()
