"""A loader's batches: padded where they are made, taken by the metric as they are."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import boxscore
from boxscore import InputError
from tests.support.world_of_metrics import SCENE, as_dicts, values_of


class Images(torch.utils.data.Dataset):  # type: ignore[misc]
    """The scene as a dataset: an image of zeros, and its target."""

    def __init__(self, **renamed: str) -> None:
        self.renamed = renamed

    def __len__(self) -> int:
        return SCENE.num_images

    def __getitem__(self, image: int) -> tuple[Any, dict[str, Any]]:
        _, target = as_dicts(SCENE, image)
        named = {self.renamed.get(key, key): value for key, value in target.items()}
        return torch.zeros(3, 4, 4), named | {"image_id": image, "name": f"{image}.jpg"}


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_data_loaders_batches_give_what_evaluate_gives(num_workers: int) -> None:
    """To the last bit, with padding in between."""
    metric = boxscore.MeanAveragePrecision(box_format="xywh", warn=False)
    loader = torch.utils.data.DataLoader(
        Images(),
        batch_size=5,
        shuffle=True,
        num_workers=num_workers,
        collate_fn=boxscore.collate_truths,
        multiprocessing_context="spawn" if num_workers else None,  # other tests have started threads, bad for a fork
    )
    for images, targets in loader:
        assert images.shape[1:] == (3, 4, 4)
        assert set(targets) == {"boxes", "labels", "ignore", "area", "image_id"}
        found = [as_dicts(SCENE, image)[0] for image in targets["image_id"].tolist()]
        length = max(len(each["labels"]) for each in found)
        pads = [length - len(each["labels"]) for each in found]
        preds = {
            "boxes": [torch.cat([each["boxes"], torch.zeros(n, 4)]) for each, n in zip(found, pads, strict=True)],
            "scores": [torch.cat([each["scores"], torch.zeros(n)]) for each, n in zip(found, pads, strict=True)],
            "labels": [torch.cat([each["labels"], torch.full((n,), -1)]) for each, n in zip(found, pads, strict=True)],
        }
        metric.update({name: torch.stack(parts) for name, parts in preds.items()}, targets)
    truths = boxscore.Truths(**SCENE.truth, box_format="xywh")
    expected = values_of(boxscore.evaluate(SCENE.detections, truths))
    for name, values in values_of(metric.compute()).items():
        assert np.array_equal(values, expected[name], equal_nan=name in ("numbers", "ap", "average_precision")), name


@pytest.mark.parametrize("flag", ["ignore", "difficult"])
def test_truths_to_ignore_have_three_names(flag: str) -> None:
    """As everywhere in boxscore; dummies are ignored, too."""
    samples, renamed = ([each[image] for image in range(6)] for each in (Images(), Images(iscrowd=flag)))
    expected, found = (boxscore.collate_truths(each)[1] for each in (samples, renamed))
    assert torch.equal(found["ignore"], expected["ignore"])
    assert found["ignore"][found["labels"] == -1].all()


def test_what_targets_do_not_have_the_batch_does_not() -> None:
    """No area, no ids, nothing ignored; NumPy stays NumPy; images of different shapes stay a list."""
    samples = [(np.zeros((2, size)), {"boxes": np.ones((size, 4)), "labels": np.arange(size)}) for size in (1, 3)]
    images, targets = boxscore.collate_truths(samples)
    assert [image.shape for image in images] == [(2, 1), (2, 3)]
    assert set(targets) == {"boxes", "labels", "ignore"}
    assert targets["labels"].tolist() == [[0, -1, -1], [0, 1, 2]]
    assert targets["ignore"].tolist() == [[False, True, True], [False, False, False]]
    assert isinstance(targets["boxes"], np.ndarray)


def test_an_image_without_truths_is_all_dummies() -> None:
    """Even if its boxes have no second axis, as datasets give them."""
    empty = {"boxes": torch.zeros(0), "labels": torch.zeros(0)}
    one = {"boxes": torch.ones(1, 4, dtype=torch.float64), "labels": torch.tensor([2])}
    _, targets = boxscore.collate_truths([(torch.zeros(1), empty), (torch.zeros(1), one)])
    assert targets["labels"].tolist() == [[-1], [2]]
    assert targets["boxes"].shape == (2, 1, 4)


def test_lists_take_the_library_of_the_others() -> None:
    """And what is empty their dtype: an image without truths is often a pair of empty lists."""
    empty: dict[str, Any] = {"boxes": [], "labels": []}
    one = {"boxes": torch.tensor([[0, 0, 3, 4.0]]), "labels": [2], "iscrowd": np.array([1])}
    for samples in ([(0, empty), (1, one)], [(1, one), (0, empty)]):
        _, targets = boxscore.collate_truths(samples)
        dtypes = {"boxes": torch.float32, "labels": torch.int64, "ignore": torch.bool}
        assert {key: column.dtype for key, column in targets.items()} == dtypes
        assert sorted(targets["labels"].tolist()) == [[-1], [2]]
        assert targets["ignore"].all()
        assert sorted(targets["boxes"].tolist()) == [[[0, 0, 0, 0]], [[0, 0, 3, 4]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.tensor([1, -1])}, "samples[1]: `labels` row 1 must not be negative, as dummies are; got -1"),
        ({"boxes": torch.ones(3, 4)}, "samples[1]: `boxes` must have shape (2, 4) for 2 labels; got (3, 4)"),
        ({"area": torch.ones(2)}, "samples[0] must have the key 'area', as other images do; got ['boxes', 'labels']"),
        ({"image_id": 3}, "samples[0] must have the key 'image_id', as other samples do"),
    ],
)
def test_targets_that_cannot_be_right_are_refused(change: dict[str, Any], message: str) -> None:
    """With their place in the batch."""
    good = {"boxes": torch.ones(2, 4), "labels": torch.tensor([1, 2])}
    with pytest.raises(boxscore.InputError) as caught:
        boxscore.collate_truths([(torch.zeros(1), good), (torch.zeros(1), good | change)])
    assert str(caught.value) == message


def test_samples_that_are_none_are_refused() -> None:
    """So is a batch without any."""
    with pytest.raises(boxscore.InputError, match="must have at least one image; got none"):
        boxscore.collate_truths([])
    with pytest.raises(boxscore.InputError, match=r"samples\[0\] must have the key 'labels'"):
        boxscore.collate_truths([(torch.zeros(1), {"boxes": torch.ones(1, 4)})])
    with pytest.raises(boxscore.InputError, match=r"samples\[0\] must be an image and its target"):
        boxscore.collate_truths([torch.zeros(2)])


@pytest.mark.parametrize("iou_type", ["segm", ("bbox", "segm")])
def test_masks_are_padded_to_the_largest(iou_type: Any) -> None:
    """With pixels that are off; the batch gives what one dict per image gives."""
    random = np.random.default_rng(0)
    sizes, nums = [(6, 9), (8, 5), (7, 7)], [2, 0, 3]
    targets = [
        {
            "boxes": torch.zeros(num, 4),
            "labels": torch.arange(num),
            "masks": torch.as_tensor(random.random((num, *size)) < 0.5),
            "iscrowd": torch.zeros(num, dtype=torch.int64),
        }
        for num, size in zip(nums, sizes, strict=True)
    ]
    samples = [(torch.zeros(3, 8, 9), target) for target in targets]
    _, batch = boxscore.collate_truths(samples, iou_type)
    assert ("boxes" in batch) == ("bbox" in iou_type)
    assert batch["masks"].shape == (3, 3, 8, 9)
    assert batch["masks"].dtype == torch.bool
    for image, (target, (height, width)) in enumerate(zip(targets, sizes, strict=True)):
        own = batch["masks"][image, : nums[image], :height, :width]
        assert torch.equal(own, target["masks"])
        assert int(batch["masks"][image].sum()) == int(target["masks"].sum())
    preds = {"masks": batch["masks"], "labels": batch["labels"], "scores": torch.rand(3, 3)}
    metric = boxscore.MeanAveragePrecision(iou_type="segm")
    metric.update(preds, {key: value for key, value in batch.items() if key != "boxes"})
    assert metric.compute()["map"] == pytest.approx(1)


def test_masks_must_be_there_if_they_are_wanted() -> None:
    """As boxes must."""
    sample = (torch.zeros(1), {"boxes": torch.ones(1, 4), "labels": torch.tensor([2])})
    with pytest.raises(boxscore.InputError, match=r"samples\[0\] must have the key 'masks'"):
        boxscore.collate_truths([sample], "segm")


class TestNumTruths:
    """`num_truths` pads all batches to one length."""

    SAMPLES: tuple[Any, ...] = tuple(
        (
            np.zeros((3, 8, 8)),
            {"boxes": np.tile([0.0, 0, 9, 9], (num, 1)), "labels": np.arange(num), "masks": np.ones((num, 8, 8), bool)},
        )
        for num in (1, 3, 0)
    )

    @pytest.mark.parametrize("num_truths", [3, 5])
    def test_every_column_has_this_length(self, num_truths: int) -> None:
        """The rows behind those of the longest image are dummies, too."""
        collate = partial(boxscore.collate_truths, iou_type=("bbox", "segm"), num_truths=num_truths)
        _, batch = collate(self.SAMPLES)
        _, shortest = boxscore.collate_truths(self.SAMPLES, ("bbox", "segm"))
        assert batch.keys() == shortest.keys()
        for key, column in batch.items():
            assert column.shape[:2] == (3, num_truths), key
            assert np.array_equal(column[:, :3], shortest[key]), key
        assert (batch["labels"][:, 3:] == -1).all()
        assert batch["ignore"][:, 3:].all()

    def test_the_numbers_stay_the_same(self) -> None:
        """Dummies count nothing."""
        batches = [boxscore.collate_truths(self.SAMPLES, num_truths=num)[1] for num in (None, 9)]
        detections = {key: batches[0][key] for key in ("boxes", "labels")} | {"scores": np.full((3, 3), 0.5)}
        results = [boxscore.evaluate(detections, batch) for batch in batches]
        assert results[0]["map"] == results[1]["map"] > 0.9

    @pytest.mark.parametrize(
        ("num_truths", "words"),
        [
            (2, "`num_truths` must be at least 3, the most truths of an image; got 2"),
            (True, "`num_truths` must be an integer; got True"),
            (3.0, "`num_truths` must be an integer; got 3.0"),
            (-1, "`num_truths` must be at least 0"),
        ],
    )
    def test_other_values_are_errors(self, num_truths: Any, words: str) -> None:
        """Truths are never left out."""
        with pytest.raises(InputError) as error:
            boxscore.collate_truths(self.SAMPLES, num_truths=num_truths)
        assert str(error.value).startswith(words)
