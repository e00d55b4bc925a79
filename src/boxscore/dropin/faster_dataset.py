"""FasterCOCO: faster_coco_eval's dataset class. Its messages only go to `print_function`."""

import copy
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from boxscore._support.writing import write_file
from boxscore.dropin.coco_dataset import COCO, Dict
from boxscore.dropin.patch import outer_level
from boxscore.dropin.store import (
    FileSnapshot,
    LazyResults,
    copy_header,
    get_lazy,
    get_snapshot,
)

logger = logging.getLogger("faster_coco_eval.core.coco")  # the name that users configure

_ID_0 = (
    "Found annotation id 0. Annotation ids are used as match markers during evaluation, where 0 also means "
    "'unmatched': an annotation with id 0 is never matched. Use ids from 1 on"
)


def _alias(name: str, **parameters: str) -> Any:
    """A method that calls another one; `parameters` are the names of its parameters, by the names of the alias's."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        return getattr(self, name)(*args, **{parameters.get(key, key): value for key, value in named.items()})

    call.__doc__ = f"Alias of `{name}`."
    return call


def _attribute_alias(name: str) -> Any:
    return property(
        lambda coco: getattr(coco, name), lambda coco, value: setattr(coco, name, value), doc=f"Alias of `{name}`."
    )


class FasterCOCO(COCO):
    """A dataset, or the results of a detector, as in `faster_coco_eval.COCO`.

    Args:
        annotation_file: The path of a JSON file, or a dict; None for an empty dataset.
        use_deepcopy: Whether to copy the entries of a dict; else they are shared.
        print_function: Receives the messages.

    >>> dataset = {"images": [{"id": 7}], "annotations": [], "categories": [{"id": 1, "name": "cat"}]}
    >>> FasterCOCO(dataset).get_img_ids()
    [7]
    """

    def __init__(
        self,
        annotation_file: Any = None,
        use_deepcopy: bool = False,
        print_function: Callable[..., Any] = logger.debug,
    ) -> None:
        super().__init__()
        self.print_function, self.use_deepcopy, self.annotation_file = print_function, use_deepcopy, annotation_file
        if annotation_file is not None:
            self._load(annotation_file)

    def _say(self, text: Any) -> None:
        self.print_function(text)

    def _read(self, source: Any) -> Any:
        if isinstance(source, dict | list):
            return self.load_json(source, self.use_deepcopy)
        if not isinstance(source, str | os.PathLike):
            raise TypeError(f"type {type(source)} is not supported")  # as in faster_coco_eval
        return super()._read(source)

    @staticmethod
    def load_json(json_file: Any, use_deepcopy: bool | None = False) -> Any:
        """Parse a file; or copy a dict or list, sharing its entries unless `use_deepcopy`."""
        if isinstance(json_file, str | os.PathLike):
            return json.loads(Path(json_file).read_bytes())
        return copy.deepcopy(json_file) if use_deepcopy else json_file.copy()

    def createIndex(self) -> None:
        """Create the index, `anns`, `imgs`, `cats`, `imgToAnns` and `catToImgs`; ids of images become integers."""
        start = time.time()
        self.print_function("creating index...")
        lazy = get_lazy(self)
        if lazy is None:
            for key, rows in (("id", "images"), ("image_id", "annotations")):
                for row in self.dataset.get(rows, ()):
                    if type(row[key]) is not int:
                        row[key] = int(row[key])
            self._index_dicts()
        ids = lazy.columns if lazy is not None else get_snapshot(self)
        if 0 in self.anns if ids is None else (ids.id == 0).any():
            warnings.warn(_ID_0, UserWarning, stacklevel=outer_level())
        self.print_function("index created!")
        self.print_function(f"Done (t={time.time() - start:0.2f}s)")

    def loadRes(self, resFile: Any, min_score: float = 0.0) -> "FasterCOCO":
        """Load the results of a detector, possibly none, from a file, a list of dicts, or an array (N, 7)."""
        results: FasterCOCO = self._load_results(FasterCOCO(), resFile, min_score=min_score)
        return results

    def _fill(self, results: COCO, given: LazyResults | list[Dict]) -> None:
        if given:
            super()._fill(results, given)
        else:
            results.dataset = {"categories": [], **copy_header(self.dataset), "annotations": []}

    def _read_results(self, source: Any, min_score: float = 0.0) -> LazyResults | list[Dict]:
        if isinstance(source, dict | list):
            source = self.load_json(source, self.use_deepcopy)
        elif isinstance(source, np.ndarray):
            source = self.loadNumpyAnnotations(source)
        elif not isinstance(source, str | os.PathLike):
            raise TypeError(f"type {type(source)} is not supported")  # as in faster_coco_eval
        elif min_score != 0:
            source = FileSnapshot(source).parse()
        anns: Any = super()._read_results(source)
        return anns if min_score == 0 else [ann for ann in anns if ann.get("score", 1) >= min_score]

    def getAnnIds(
        self,
        imgIds: Any = None,
        catIds: Any = None,
        areaRng: Sequence[float] | None = None,
        iscrowd: bool | None = None,
    ) -> list[Any]:
        """Get the ids of annotations by image, class, area range and `iscrowd`; None skips a filter."""
        images, classes, area = (() if each is None else each for each in (imgIds, catIds, areaRng))
        ids = super().getAnnIds(images, classes, area)
        if iscrowd is None:
            return ids
        return [each for each in ids if int(self.anns[each].get("iscrowd", 0)) == int(iscrowd)]

    def getCatIds(self, catNms: Any = None, supNms: Any = None, catIds: Any = None) -> list[Any]:
        """Get the ids of classes by name, supercategory and id; None skips a filter."""
        return super().getCatIds(*(() if each is None else each for each in (catNms, supNms, catIds)))

    def getImgIds(self, imgIds: Any = None, catIds: Any = None) -> list[Any]:
        """Get the ids of images by id and by class: an image must have all given classes."""
        return super().getImgIds(*(() if each is None else each for each in (imgIds, catIds)))

    def loadAnns(self, ids: Any = None) -> list[Dict]:
        """Load the annotations with the given ids."""
        return [self.anns[each] for each in _ids(ids)]

    def loadCats(self, ids: Any = None) -> list[Dict]:
        """Load the classes with the given ids."""
        return [self.cats[each] for each in _ids(ids)]

    def loadImgs(self, ids: Any = None) -> list[Dict]:
        """Load the images with the given ids."""
        return [self.imgs[each] for each in _ids(ids)]

    get_ann_ids = _alias("getAnnIds", img_ids="imgIds", cat_ids="catIds", area_rng="areaRng")
    get_cat_ids = _alias("getCatIds", cat_names="catNms", sup_names="supNms", cat_ids="catIds")
    get_img_ids = _alias("getImgIds", img_ids="imgIds", cat_ids="catIds")
    load_anns, load_cats, load_imgs = _alias("loadAnns"), _alias("loadCats"), _alias("loadImgs")
    img_ann_map = _attribute_alias("imgToAnns")
    cat_img_map = _attribute_alias("catToImgs")

    def to_dict(self, separate_fn: bool = False) -> Dict:
        """Copy the dataset to a dict; `separate_fn` moves false negatives to separate classes, named `<class>_fn`."""
        cats, anns = ([dict(each) for each in rows.values()] for rows in (self.cats, self.anns))
        if separate_fn:
            shift = max(cat["id"] for cat in cats)
            cats += [{**cat, "id": cat["id"] + shift, "name": f"{cat['name']}_fn"} for cat in cats]
            for ann in anns:
                ann["category_id"] += shift if ann.get("fn") else 0
        info = {"description": "Created from faster-coco-eval"}
        return {"info": info, "images": list(self.imgs.values()), "annotations": anns, "categories": cats}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self.to_dict().items()

    def dump(self, output_file: str | os.PathLike[str]) -> None:
        """Write the dataset to a JSON file; after an error, the file is unchanged."""
        write_file(Path(output_file), json.dumps(dict(self), ensure_ascii=False, indent=4))


def _ids(ids: Any) -> list[Any]:
    """Validate one integer or several; return them as a list."""
    if ids is None:
        return []
    values = (
        list(ids)
        if hasattr(ids, "__iter__") and hasattr(ids, "__len__") and not isinstance(ids, str | bytes)
        else [ids]
    )
    if any(isinstance(value, bool) or not isinstance(value, int | np.integer) for value in values):
        raise TypeError("ids must be an int or an iterable of ints")  # as in faster_coco_eval
    return values
