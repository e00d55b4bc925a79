"""Random pairs of oriented boxes against shapely, for as long as you like.

    python -m tests.fuzz_oriented SECONDS [SEED]

Arrays must be within 1e-12 of shapely, or of fractions where shapely fails; compiled and sequential numbers must have
the bits of arrays, and a pair one IoU. A round of pairs is named by its seed, to be tried again.
"""

import numpy as np

import boxscore
from boxscore import Protocol, _compiled
from boxscore.data.geometry.oriented_boxes import OrientedBoxes
from tests.support.comparisons import assert_same_tally
from tests.support.fuzzing import fuzz
from tests.support.oriented_reference import largest_difference
from tests.support.oriented_scenes import crowded_scene, random_oriented, random_pairs

OBB = Protocol.named("coco", iou_type="obb")
NUM = 20_000


def check_round(seed: int) -> float:
    """The largest difference from shapely among the pairs of a seed."""
    corners = random_pairs(seed, NUM)
    one, other = (OrientedBoxes(boxes=each) for each in corners)
    rows = np.arange(NUM)[:, None]
    columns, truth_columns = (each.gatherer(OBB, np.zeros(0))(rows) for each in (one, other))
    iou = OrientedBoxes.pairwise(columns, truth_columns, np.zeros((NUM, 1), bool), OBB)[:, 0, 0]
    ids, label, flags = np.arange(NUM), np.zeros(NUM, np.int64), np.ones(NUM, np.uint8)
    for first, second in ((one, other), (other, one)):
        detections = _compiled.Detections(ids, label, np.ones(NUM), first.compiled(OBB))
        truths = _compiled.Truths(ids, label, second.compiled(OBB))
        assert np.array_equal(_compiled.find_nearest(detections, truths, flags, flags, 1)[1], iou), seed
    shapes = zip(one.shapes(OBB)[:500], other.shapes(OBB)[:500], strict=True)
    sequential = [OrientedBoxes.similarity(a, b, is_crowd=False, protocol=OBB) for a, b in shapes]
    assert sequential == iou[:500].tolist(), seed
    difference = largest_difference(iou, *corners)
    assert difference < 1e-12, (seed, difference)
    for scene in (random_oriented(seed), crowded_scene(seed, num=60)):
        for protocol in (OBB, OBB.replace(thresholds=(0.02, 0.5)), OBB.replace(iou_type="probiou")):
            native, arrays = (boxscore.match(*scene, protocol, engine) for engine in ("native", "parallel"))
            assert_same_tally(native.sorted(), arrays.sorted())
    return difference


if __name__ == "__main__":
    differences = fuzz(check_round)
    print(f"{NUM * len(differences):,} pairs: at most {max(differences):.1e} from shapely")
