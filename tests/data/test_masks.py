"""Masks as a geometry: made from anything, the same in every engine, and through everything that boxes go through."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import boxscore
import boxscore._compiled as _compiled
from boxscore import Detections, InputError, MeanAveragePrecision, Protocol, Truths
from boxscore.cli.direct import summarize_files
from boxscore.coco import mask
from boxscore.data import Masks
from boxscore.data.geometry.boxes import Boxes
from boxscore.data.geometry.masks import Polygons, boundary_of
from boxscore.dropin.coco_dataset import COCO
from boxscore.dropin.evaluation import COCOeval
from tests.support.comparisons import assert_same
from tests.support.engines import ENGINES
from tests.support.mask_scenes import blob, columns_of, random_masks
from tests.support.scenes import run_pycocotools

pytestmark = pytest.mark.native

SEGM, BOUNDARY = (Protocol.named("coco", iou_type=iou_type) for iou_type in ("segm", "boundary"))


def stack(seed: int, num: int = 5, size: tuple[int, int] = (23, 31)) -> Any:
    """Some masks. Shape (N, H, W)."""
    random = np.random.default_rng(seed)
    return np.array([blob(random, *size) for _ in range(num)])


class TestMaking:
    """The same column from every spelling."""

    def test_from_pixels_run_lengths_and_lists(self) -> None:
        """Areas, outer boxes and pixels, and the memory of the runs alone."""
        pixels = stack(0)
        masks = Masks.from_pixels(pixels)
        for other in (
            Masks.from_pixels(pixels.astype(np.uint8) * 7),
            Masks.from_pixels(list(pixels)),
            Masks.from_pixels(np.asfortranarray(pixels)),
            Masks.from_rle(masks.rle()),
            Masks.from_rle([{"size": each["size"], "counts": each["counts"].encode()} for each in masks.rle()]),
            Masks.from_stacks([pixels[:2], pixels[2:]]),
            Masks.concatenate([Masks.from_pixels(pixels[:2]), Masks.from_pixels(pixels[2:])]),
            Masks.from_pixels(np.concatenate([pixels, pixels])).take(np.arange(5, 10)),
            Masks.from_pixels(pixels[::-1]).take([4, 3, 2, 1, 0]),
            pickle.loads(pickle.dumps(masks)),
            Masks.of(pixels),
            Masks.of(list(pixels)),
            Masks.of(masks.rle()),
        ):
            for name in ("counts", "start", "sizes", "area", "box"):
                assert np.array_equal(getattr(other.runs, name), getattr(masks.runs, name)), name
        assert np.array_equal([masks.pixels(row) for row in range(5)], pixels)
        assert masks.areas(SEGM).tolist() == pixels.sum(axis=(1, 2)).tolist()
        for row, (left, top, right, bottom) in enumerate(masks.outer_boxes().astype(int).tolist()):
            y, x = np.nonzero(pixels[row])
            assert (left, top, right, bottom) == (x.min(), y.min(), x.max() + 1, y.max() + 1)
        assert masks.runs.counts.nbytes < pixels.size / 10

    def test_runs_without_pixels_are_dropped(self) -> None:
        """So that the same mask is the same bytes."""
        plain = Masks.from_rle([{"size": [2, 5], "counts": [2, 0, 1, 3, 0, 1, 3, 0]}])
        assert plain.rle() == Masks.from_rle([{"size": [2, 5], "counts": [3, 4, 3]}]).rle()

    def test_polygons_are_the_union_of_their_parts(self) -> None:
        """And are kept if asked for."""
        parts = [[1, 1, 5, 1, 5, 5, 1, 5], [3, 3, 8, 3, 8, 8, 3, 8]]
        masks = Masks.from_polygons([parts, parts[:1]], sizes=(10, 9), keep=True)
        assert masks.runs.area.tolist() == [16 + 25 - 4, 16]
        assert masks.polygons is not None
        assert [part.tolist() for part in masks.polygons[0]] == parts
        assert masks.take([1]).polygons[0][0].tolist() == parts[0]  # type: ignore[index]
        again = Masks.from_rle([parts, parts[:1]], sizes=[(10, 9), (10, 9)])
        assert again.rle() == masks.rle()
        assert again.polygons is None

    def test_torch_tensors_are_taken(self) -> None:
        """Booleans and bytes."""
        torch = pytest.importorskip("torch")
        pixels = stack(1)
        for tensor in (torch.tensor(pixels), torch.tensor(pixels).to(torch.uint8)):
            assert Masks.from_pixels(tensor).rle() == Masks.from_pixels(pixels).rle()
            assert Masks.of(list(tensor)).rle() == Masks.from_pixels(pixels).rle()

    def test_nothing_is_fine(self) -> None:
        """No masks, and masks of no pixels."""
        for nothing in (Masks.of([]), Masks.of(np.zeros((0, 4, 4), bool)), Masks.of(np.zeros(0))):
            assert len(nothing) == 0
        empty = Masks.from_pixels(np.zeros((2, 0, 7), bool))
        assert empty.runs.area.tolist() == [0, 0]
        assert empty.outer_boxes().tolist() == [[0.0] * 4] * 2

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Masks.from_pixels(np.zeros((3, 4))), r"`masks` must have shape \(N, H, W\); got \(3, 4\)"),
            (
                lambda: Masks.from_pixels(np.zeros((1, 3, 4))),
                r"`masks` must hold booleans or bytes \(uint8\); got float64",
            ),
            (
                lambda: Masks.from_pixels([np.zeros((2, 2), bool), np.zeros(3, bool)]),
                r"`masks` row 1 must have shape \(H, W\)",
            ),
            (lambda: Masks.from_rle({"size": [1, 1], "counts": "1"}), "`masks` must be a sequence of masks; got dict"),
            (lambda: Masks.from_rle([{"size": [1, 1], "counts": "1"}, 7]), "`masks` row 1 must be a dict with `size`"),
            (lambda: Masks.from_rle([{"size": [1, 1]}]), "`masks` row 0 must have `size` and `counts`"),
            (
                lambda: Masks.from_rle([{"size": [2, 2], "counts": "1"}]),
                "row 0 `counts` must have run lengths for the 2 x 2",
            ),
            (
                lambda: Masks.from_rle([{"size": [2, 2], "counts": 7}]),
                "row 0 must have `counts` as text, bytes or a list",
            ),
            (
                lambda: Masks.from_rle([{"size": [2, 2], "counts": [2.5, 1.5]}]),
                "row 0 must have `counts` as text, bytes or",
            ),
            (
                lambda: Masks.from_rle([{"size": [2, -2], "counts": ""}]),
                "row 0 must have a `size` of two whole numbers",
            ),
            (
                lambda: Masks.from_rle([{"size": [10**9, 10**9], "counts": ""}]),
                "row 0 must have at most 4294967295 pixels",
            ),
            (
                lambda: Masks.from_rle([[[1, 2, 3, 4, 5, 6]]]),
                "row 0 must have the size of its image, as it has polygons",
            ),
            (
                lambda: Masks.from_polygons([[[1, 2, 3]]], (4, 4)),
                "`masks` must have polygons of pairs x, y; got 3 numbers",
            ),
            (lambda: Masks.from_polygons([[]], (4, 4)), "`masks` row 0 must have at least one polygon"),
            (
                lambda: Masks.from_polygons([[[1, 2, np.nan, 4]]], (4, 4)),
                "`masks` row 0 must have polygons of finite numbers",
            ),
            (lambda: Masks.from_polygons([[[1, 2, 3, 4]]], (4.5, 4)), "`sizes` must be integers, height and width"),
            (
                lambda: Masks.from_polygons([[[1, 2, 3, 4]]], [(4, 4)] * 2),
                "`sizes` must be height and width, of shape",
            ),
            (lambda: Masks.from_arrays([48], [0, 2], [[1, 1]]), "`masks`: start: must ascend from 0"),
            (
                lambda: Detections(image_ids=[0], labels=[0], scores=[1.0]),
                "`boxes`, `masks` or `keypoints` must be given; got none",
            ),
            (
                lambda: Truths(image_ids=[0], labels=[0], masks=stack(0)),
                "`masks` must have 1 rows, the number of labels; got 5",
            ),
        ],
    )
    def test_what_is_no_mask_is_refused(self, make: Any, message: str) -> None:
        """With the row and the rule; no memory is taken for what was only claimed."""
        with pytest.raises(InputError, match=message):
            make()

    def test_the_first_of_many_wrong_masks_is_told(self) -> None:
        """However many threads look for it."""
        rows = [{"size": [4, 4], "counts": "`0"} for _ in range(3000)]
        for row in (2999, 1234, 777):
            rows[row] = {"size": [4, 4], "counts": "5"}
            with pytest.raises(InputError, match=f"`masks` row {row} `counts` must have run lengths"):
                Masks.from_rle(rows)


class TestSimilarity:
    """By hand, and against pycocotools."""

    def test_by_hand(self) -> None:
        """Two squares of 4 x 4 that share 2 x 4: 8 / 24; a crowd divides by the detection's 16."""
        pixels = np.zeros((2, 8, 8), bool)
        pixels[0, :4, :4], pixels[1, :4, 2:6] = True, True
        masks = Masks.from_pixels(pixels)
        one, other = masks.shapes(SEGM)
        assert Masks.similarity(one, other, is_crowd=False, protocol=SEGM) == 8 / 24
        assert Masks.similarity(one, other, is_crowd=True, protocol=SEGM) == 8 / 16
        larger = Masks.from_pixels(np.ones((1, 9, 8), bool)).shapes(SEGM)[0]
        assert Masks.similarity(one, larger, is_crowd=False, protocol=SEGM) == -1

    def test_boundaries_by_hand(self) -> None:
        """A ring of the width round(0.02 x diagonal), at least 1, along the outline and the border of the image."""
        full = np.ones((100, 100), bool)  # 0.02 x 141 is 2.8: a ring of 3 pixels
        assert boundary_of(full, 0.02).sum() == 100**2 - 94**2
        square = np.zeros((100, 100), bool)
        square[10:30, 10:40] = True
        assert boundary_of(square, 0.02).sum() == 20 * 30 - 14 * 24
        assert boundary_of(np.ones((3, 3), bool), 0.02).sum() == 8
        ring = boundary_of(square, 0.02)
        moved = np.roll(square, 3, axis=1)
        shared, both = (ring & boundary_of(moved, 0.02)).sum(), (ring | boundary_of(moved, 0.02)).sum()
        one, other = Masks.from_pixels([square, moved]).shapes(BOUNDARY)
        assert Masks.similarity(one, other, is_crowd=False, protocol=BOUNDARY) == shared / both < 27 / 33

    @pytest.mark.parametrize("seed", range(20))
    def test_evaluate_gives_every_bit_of_pycocotools(self, seed: int) -> None:
        """From columns; pycocotools has the areas of masks, as results have no boxes."""
        dataset, results = random_masks(seed)
        expected = run_pycocotools(dataset, results, iouType="segm")
        expected.summarize()
        result = boxscore.evaluate(*columns_of(dataset, results))
        assert result.protocol == SEGM
        for name in ("precision", "recall", "scores"):
            assert np.array_equal(getattr(result.curves, name), expected.eval[name]), name
        assert np.array_equal(np.nan_to_num(list(result.values()), nan=-1), expected.stats)

    def test_masks_at_the_end_of_a_column_of_four_billion_pixels(self) -> None:
        """Positions of 32 bits are enough, if nothing is rounded up to whole words."""
        height = 2**32 - 1
        masks = Masks.from_rle([{"size": [height, 1], "counts": [height - 5, 5]}])
        columns: dict[str, Any] = {"image_ids": [0], "labels": [0], "masks": masks}
        result = boxscore.evaluate(boxscore.Detections(**columns, scores=[0.5]), boxscore.Truths(**columns))
        assert result["map"] == pytest.approx(1)

    def test_masks_larger_than_bitmaps_give_the_same(self) -> None:
        """Above 4 million pixels runs are compared, below it bits."""
        pixels = np.zeros((2, 2100, 2100), bool)
        pixels[0, 5:2090, 7:2098], pixels[1, 100:2000, 3:2050] = True, True
        shared, both = (pixels[0] & pixels[1]).sum(), (pixels[0] | pixels[1]).sum()
        masks = Masks.from_pixels(pixels)
        found = mask.iou(masks.rle()[:1], masks.rle()[1:], [0])
        assert found == [[shared / both]]


class TestEverythingAfter:
    """What comes after matching works for masks as for boxes."""

    def test_boxes_and_masks_from_one_object(self) -> None:
        """A protocol says which; a name takes boxes, as both sides have them."""
        detections, truths = columns_of(*random_masks(11))
        both = Detections(
            image_ids=detections.image_ids, labels=detections.labels, scores=detections.scores, masks=detections.masks,
            boxes=detections.geometry.outer_boxes(),
        )  # fmt: skip
        there = Truths(
            image_ids=truths.image_ids, labels=truths.labels, masks=truths.masks, boxes=truths.geometry.outer_boxes(),
            ignore=truths.ignore, area=truths.area, class_names=truths.class_names,
        )  # fmt: skip
        assert repr(both) == f"Detections({len(both)} boxes and masks in 6 images, numpy)"
        assert_same(boxscore.evaluate(both, there, SEGM), boxscore.evaluate(detections, truths))
        assert boxscore.evaluate(both, there).protocol.iou_type == "bbox"
        assert boxscore.evaluate(both, truths).protocol.iou_type == "segm"
        with pytest.raises(
            InputError, match=r"`iou_type` 'bbox' needs other shapes; these Truths have masks \(segm, bound"
        ):
            boxscore.evaluate(both, truths, Protocol.named("coco"))

    def test_dicts_and_padded_batches(self) -> None:
        """One image at a time, as masks of an image have one size."""
        random = np.random.default_rng(5)
        one, padded = (MeanAveragePrecision("coco", iou_type="segm", warn=False) for _ in range(2))
        preds, targets = [], []
        for _ in range(5):
            size = int(random.integers(9, 40)), int(random.integers(9, 40))
            masks, truth = (np.array([blob(random, *size) for _ in range(num)]) for num in (4, 3))
            labels, scores = random.integers(0, 2, 4), random.random(4)
            preds.append({"masks": masks, "scores": scores, "labels": labels})
            targets.append({"masks": truth, "labels": random.integers(0, 2, 3)})
            nothing = np.zeros((1, 2, *size), bool)
            padded.update(
                {
                    "masks": np.concatenate([masks[None], nothing], axis=1),
                    "scores": np.pad(scores, (0, 2))[None],
                    "labels": np.pad(labels, (0, 2), constant_values=-1)[None],
                },
                {"masks": truth[None], "labels": targets[-1]["labels"][None]},
            )
        one.update(preds, targets)
        assert_same(one.compute(), padded.compute())
        rle = [each | {"masks": Masks.from_pixels(each["masks"]).rle()} for each in preds]
        again = MeanAveragePrecision("coco", iou_type="segm", warn=False)
        again.update(rle, targets)
        assert_same(again.compute(), one.compute())
        with pytest.raises(InputError, match=r"preds\[0\]: `masks` must have 4 masks for 4 labels; got 3"):
            again.update([rle[0] | {"masks": rle[0]["masks"][:3]}], targets[:1])

    @pytest.mark.parametrize("engine", ENGINES)
    def test_areas_of_detections_may_be_given(self, engine: Any) -> None:
        """As the boxes of results decide them in pycocotools; in every engine."""
        dataset, results = random_masks(15, has_boxes=True)
        for row in results:
            row["bbox"] = [4 * number for number in row["bbox"]]
        detections, truths = columns_of(dataset, results)
        area = [row["bbox"][2] * row["bbox"][3] for row in results]
        given = Detections(
            image_ids=detections.image_ids,
            labels=detections.labels,
            scores=detections.scores,
            masks=detections.masks,
            area=area,
        )
        expected = run_pycocotools(dataset, results, iouType="segm")
        result = boxscore.evaluate(given, truths, SEGM, engine)
        assert np.array_equal(result.curves.precision, expected.eval["precision"])
        assert not np.array_equal(boxscore.evaluate(detections, truths).curves.precision, expected.eval["precision"])


def test_masks_of_different_sizes_are_a_likely_mistake() -> None:
    """They never match: the metric warns at the first batch, the command at a result near 0."""
    masks = np.ones((2, 4, 6), bool)
    preds = [{"masks": masks[:, :3], "scores": np.array([0.9, 0.8]), "labels": np.array([1, 1])}]
    metric = boxscore.MeanAveragePrecision(iou_type="segm")
    message = "different sizes in `preds` and `targets` for 1 image, such as 3 x 6 and 4 x 6"
    with pytest.warns(UserWarning, match=message):
        metric.update(preds, [{"masks": masks, "labels": np.array([1, 1])}])
    assert metric.compute()["map"] == 0


def test_a_stream_of_masks_of_different_sizes_is_diagnosed() -> None:
    """Where batches are forgotten, too."""
    from boxscore.checks.mistakes import Remedies, Watch

    watch = Watch()
    found, there = np.ones((2, 40, 60), bool), np.ones((2, 60, 40), bool)
    tallies = []
    for image in range(8):
        detections = Detections(image_ids=[image] * 2, labels=[0, 0], scores=[0.9, 0.8], masks=found)
        truths = Truths(image_ids=[image] * 2, labels=[0, 0], masks=there)
        watch.add(detections, truths)
        tallies.append(boxscore.match(detections, truths))
    found_mistakes = watch.find_mistakes(boxscore.finish(tallies), Remedies())
    assert [each.kind for each in found_mistakes] == ["mask-sizes"]
    assert "for 8 images, such as 40 x 60 and 60 x 40" in str(found_mistakes[0])


BOX = Boxes(boxes=[[0, 0, 1, 1]])
WRONG: Any = 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: boxscore.MeanAveragePrecision(iou_type="segmm"),  # type: ignore[arg-type]
            "`iou_type` must be one of bbox, segm, boundary, .*; got",
        ),
        (
            lambda: boxscore.read_truths("nowhere", iou_type=WRONG),
            "`iou_type` must be one of .* or a tuple of these; got 5",
        ),
        (lambda: Masks.from_polygons([["abc"]], (3, 3)), "`masks` row 0 must have polygons of numbers .*; got 'abc'"),
        (
            lambda: Masks.from_polygons([[[1, 1], [3, 1], [3, 3]]], (3, 3)),
            "`masks` row 0 must .* got points one by one",
        ),
        (
            lambda: Masks.from_polygons([[[1, 1, 3, 1, 3, 3]]], [1, 2, 3]),
            r"`sizes` must be height and width.*got \(3,\)",
        ),
        (
            lambda: Detections(image_ids=[0], labels=[0], scores=[1], geometry=[BOX, WRONG]),
            "`geometry` must be a boxsc",
        ),
        (
            lambda: boxscore.parallel.pairwise_mask_iou(np.ones((1, 1, 4, 6)), np.ones((1, 1, 6, 4))),
            r"must have pixels of one shape \(H, W\); got \(4, 6\) and \(6, 4\)",
        ),
    ],
)
def test_slips_are_errors_that_name_the_argument(make: Any, message: str) -> None:
    """A wrong name, points in pairs, sizes of another shape."""
    with pytest.raises(InputError, match=message):
        make()


WIDE = [0, 0, 4e8, 5, 4e8, 9, 0, 3]
"""A polygon of four points that crosses 800 million columns of pixels."""


def wide_files(folder: Path) -> list[str]:
    """Files of less than a kilobyte with the polygon, and with a mask of as many pixels."""
    image = {"id": 1, "width": 400_000_000, "height": 10}
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "area": 5, "segmentation": [WIDE]}
    truths = {"images": [image], "categories": [{"id": 1, "name": "a"}], "annotations": [annotation]}
    runs = {"size": [10, 400_000_000], "counts": [4_000_000_000]}
    result = {"image_id": 1, "category_id": 1, "score": 0.5, "segmentation": runs, "bbox": [0, 0, 4e8, 9]}
    for name, content in (("gt.json", truths), ("dt.json", [result])):
        (folder / name).write_text(json.dumps(content))
    return [str(folder / name) for name in ("gt.json", "dt.json")]


def test_a_few_numbers_of_a_polygon_take_no_gigabytes(tmp_path: Path) -> None:
    """Refused before any memory is taken, with its place, by each way in; up to the limit there is a mask."""
    rule = "must have polygons that cross at most 10,000,000 columns of pixels; got one that crosses more"
    gt, dt = wide_files(tmp_path)
    with pytest.raises(InputError, match=rf"annotation 0 \(id 1\): `segmentation` {rule}"):
        boxscore.read_truths(gt, iou_type="segm")
    assert summarize_files(gt, [dt], [SEGM], threads=1) == [None], "the general path refuses it"
    with pytest.raises(InputError, match=f"`masks` row 0 {rule}"):
        Masks.from_polygons([[WIDE]], (10, 400_000_000))
    truths = COCO(gt)
    with pytest.raises(ValueError, match="10,000,000 columns"):
        COCOeval(truths, truths.loadRes(dt), "segm").evaluate()
    square = [0, 0, 5_000_000, 0, 5_000_000, 2, 0, 2]
    assert Masks.from_polygons([[square]], (3, 5_000_000)).runs.area.tolist() == [10_000_000]
    with pytest.raises(InputError, match="10,000,000 columns"):
        Masks.from_polygons([[[0, 0, 5_000_001, 0, 5_000_001, 2, 0, 2]]], (3, 5_000_001))


def test_rows_of_polygons_with_one_point_can_be_taken() -> None:
    """COCO's files may have them, and pycocotools draws them."""
    outlines = Polygons(points=np.arange(10.0), part_start=np.array([0, 6, 8, 10]), mask_start=np.array([0, 1, 3]))
    taken = outlines.take(np.array([1, 0]))
    assert [[part.tolist() for part in taken[row]] for row in range(2)] == [[[6, 7], [8, 9]], [[0, 1, 2, 3, 4, 5]]]


def test_compiled_errors_have_the_row_and_the_rule_apart() -> None:
    """Callers name the row in their words, so neither is looked for in a sentence."""
    objects = [{"size": [2, 2], "counts": [4]}, {"size": [2, 2]}]
    with pytest.raises(_compiled.MaskError) as caught:
        _compiled.Masks.from_objects(objects, None, 1)
    assert caught.value.args == (1, "must have `size` and `counts`")
