"""Objects whose Python code changes the containers that compiled code is reading, and every reader of these."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import boxscore._compiled as _compiled
from boxscore.coco import COCO, COCOeval, mask
from boxscore.data.geometry.masks import Masks

Dict = dict[str, Any]
Strike = Callable[[], object]
"""Called by a hostile object while it is read."""

RLE = {"size": [30, 40], "counts": "Yk00a0f9"}


def hostile_float(strike: Strike, value: float = 5.0) -> Any:
    """A float of NumPy whose conversion strikes."""

    class Float(np.float32):
        def __float__(self) -> float:
            strike()
            return float(value)

        __index__ = __int__ = lambda self: int(float(self))

    return Float(value)


def hostile_number(strike: Strike, value: int = 1) -> Any:
    """A number of no known type; everything that is asked of it strikes."""

    class Number:
        def __float__(self) -> float:
            strike()
            return float(value)

        def __index__(self) -> int:
            strike()
            return value

        def __bool__(self) -> bool:
            strike()
            return bool(value)

        def __lt__(self, other: object) -> bool:
            strike()
            return False

        __gt__ = __lt__
        __neg__ = __float__

        def __add__(self, other: object) -> "Number":
            strike()
            return self

        __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __add__

    return Number()


def hostile_int(strike: Strike, value: int = 1) -> Any:
    """An int whose conversions strike."""

    class Int(int):
        def __bool__(self) -> bool:
            strike()
            raise ValueError("no truth")

        def __index__(self) -> int:
            strike()
            return value

        def __float__(self) -> float:
            strike()
            return float(value)

    return Int(value)


def hostile_list(strike: Strike, items: Any = ()) -> Any:
    """A list that strikes when it is measured or iterated over."""

    class List(list):  # type: ignore[type-arg]
        def __len__(self) -> int:
            strike()
            return super().__len__()

        def __iter__(self) -> Any:
            strike()
            return super().__iter__()

        def __getitem__(self, index: Any) -> Any:
            strike()
            return super().__getitem__(index)

    return List(items)


def hostile_sequence(strike: Strike, items: Any = ()) -> Any:
    """A sequence of no known type that strikes when it is measured or iterated over."""

    class Sequence:
        def __len__(self) -> int:
            strike()
            return len(items)

        def __getitem__(self, index: Any) -> Any:
            strike()
            return items[index]

    return Sequence()


def hostile_key(strike: Strike, key: str) -> Any:
    """A key that dicts compare with `key` whenever they look that up."""

    class Key:
        def __hash__(self) -> int:
            return hash(key)

        def __eq__(self, other: object) -> bool:
            strike()
            return False

    return Key()


def annotation(number: int = 1) -> Dict:
    """A truth or result with every key that is read."""
    points = [float(each) for _ in range(3) for each in (number, 2 * number, 2)]
    return {
        "image_id": number % 3,
        "category_id": number % 2,
        "id": number,
        "iscrowd": 0,
        "ignore": 0,
        "area": 25.0,
        "bbox": [1.0 * number, 2.0, 5.0, 5.0],
        "score": 0.5,
        "num_keypoints": 3,
        "keypoints": points,
        "segmentation": dict(RLE),
    }


def read_everything(annotations: list[Any]) -> None:
    """Hand annotations to every compiled reader of dicts, one after the other."""
    keys = ["image_id", "category_id", "id", "iscrowd", "area", "bbox", "score", "num_keypoints", "keypoints"]
    sizes = np.full((len(annotations), 2), 40)
    thresholds = np.array([0.5, 0.75])
    for reader in (
        lambda: _compiled.read_dicts(annotations, keys, True),
        lambda: _compiled.read_dicts(annotations, keys[6:], False),
        lambda: _compiled.measure_annotations(annotations, annotations, np.empty((len(annotations), len(annotations)))),
        lambda: _match(annotations, thresholds),
        lambda: Masks.from_rle([each["segmentation"] for each in annotations], sizes),
        lambda: _compiled.Masks.from_objects([each["segmentation"] for each in annotations], None, 2),
        lambda: _rle(annotations),
        lambda: _compiled.complete_keypoints(
            annotations, _compiled.boxes_around_keypoints(annotations), lambda each: (1, each["bbox"])
        ),
        lambda: _compiled.complete_boxes(annotations),
        lambda: _evaluate(annotations),
    ):
        run(reader)


def run(reader: Callable[[], Any]) -> None:
    """Call a reader, which may end with any error but a `SystemError`: that is a result with an exception set."""
    try:
        reader()
    except SystemError:
        raise
    except Exception:
        return


def _match(annotations: list[Any], thresholds: Any) -> None:
    num = len(annotations)
    out = np.empty((2, num)), np.empty((2, num)), np.empty((2, num), bool), np.empty(num, np.int64)
    _compiled.match_annotations(annotations, annotations, np.ones((num, num)), (thresholds, 0.0, 1e10, num), out)


def _rle(annotations: list[Any]) -> None:
    masks = [each["segmentation"] for each in annotations]
    for function in (
        mask.area,
        mask.toBbox,
        mask.decode,
        mask.merge,
        lambda each: mask.iou(each, each, [0] * len(each)),
    ):
        run(lambda function=function: function(masks))  # type: ignore[misc]
    run(lambda: mask.frPyObjects(masks, 30, 40))


def _evaluate(annotations: list[Any]) -> None:
    images, categories = [{"id": each, "height": 30, "width": 40} for each in range(3)], [{"id": 0}, {"id": 1}]
    truths = COCO()
    truths.dataset = {"images": images, "categories": categories, "annotations": annotations}
    truths.createIndex()
    for kind in ("bbox", "segm", "keypoints"):
        run(lambda kind=kind: COCOeval(truths, truths.loadRes(list(annotations)), kind).evaluate())  # type: ignore[misc]


def check_case(seed: int) -> int:
    """Read annotations with some hostile objects among them; gives how often these have changed something."""
    dice = random.Random(seed)
    annotations: list[Any] = [annotation(number) for number in range(1, dice.randrange(2, 7))]
    num_strikes, is_armed = 0, False

    def strike() -> None:
        nonlocal num_strikes
        num_strikes += is_armed
        if not is_armed or num_strikes > 300:  # what is endless must end, too
            return
        _change(dice.choice(_containers(annotations)), dice)
        _ = [[float(each)] * 8 for each in range(8)]  # to take the place of what was freed

    for _ in range(dice.randrange(1, 4)):
        _plant(dice.choice(annotations), dice, strike)
    is_armed = True
    read_everything(annotations)
    return num_strikes


def _plant(target: Dict, dice: random.Random, strike: Strike) -> None:
    """Put a hostile object into an annotation: as a value, within one, or as a key."""
    key = dice.choice(list(annotation()))
    makers = (hostile_float, hostile_number, hostile_int)
    value = target.get(key)
    kind = dice.randrange(5)
    if kind == 0:
        target.pop(key, None)
        target[hostile_key(strike, key)] = 0
        target[key] = value
    elif kind == 1:
        target[key] = dice.choice(makers)(strike)
    elif isinstance(value, list) and value and kind == 2:
        value[dice.randrange(len(value))] = dice.choice(makers)(strike)
    elif isinstance(value, list):
        target[key] = dice.choice((hostile_list, hostile_sequence))(strike, list(value))
    elif isinstance(value, dict):
        number = dice.choice(makers)
        target[key] = dice.choice(
            (
                {"size": [number(strike, 30), 40], "counts": "".join(["Yk00", "a0f9"])},
                {"size": hostile_sequence(strike, [30, 40]), "counts": [300, 0, 10, 890]},
                {"size": [30, 40], "counts": [300, number(strike, 0), 10, 890]},
                {"size": [30, 40], "counts": hostile_list(strike, [300, 0, 10, 890])},
                [[1.0, 1.0, number(strike, 9), 1.0, 9.0, 9.0], [2.0, 2.0, 8.0, 2.0, 8.0, 8.0]],
                [hostile_sequence(strike, [1.0, 1.0, 9.0, 1.0, 9.0, 9.0]), [2.0, 2.0, 8.0, 2.0, 8.0, 8.0]],
            )
        )


def _containers(annotations: list[Any]) -> list[Any]:
    """Every list and dict that is being read."""
    found: list[Any] = [annotations]
    for container in found:
        items = list(dict.values(container)) if isinstance(container, dict) else list.__iter__(container)
        found += [each for each in items if isinstance(each, list | dict) and not any(each is other for other in found)]
    return found


def _change(container: Any, dice: random.Random) -> None:
    """Clear a container, take out, replace or add an item."""
    kind = dice.randrange(4)
    if kind == 0:
        container.clear()
    elif isinstance(container, dict):
        key = dice.choice([*annotation(), "size", "counts"])
        if kind == 1:
            dict.pop(container, key, None)
        else:
            dict.__setitem__(container, key, dice.choice([5.0, [1.0, 2.0, 3.0], {**RLE}, None]))
    elif kind == 1 and list.__len__(container):
        list.pop(container, dice.randrange(list.__len__(container)))
    elif kind == 2 and list.__len__(container):
        list.__setitem__(container, dice.randrange(list.__len__(container)), dice.choice([5.0, None, [1.0]]))
    else:
        list.extend(container, [annotation(9)] * 40)
