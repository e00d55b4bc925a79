"""A stored tally whose checksum fits, but whose content can't be, is refused: what is loaded can be finished."""

import contextlib
import json
import struct
import zlib
from typing import Any

import numpy as np
import pytest

import boxscore
from boxscore import InputError, MeanAveragePrecision, Tally
from boxscore.result import blocks, storage
from tests.support.scenes import random_scene

SCENE = random_scene(14)
TALLY = boxscore.match(SCENE.detections, SCENE.truths)
CONTENT = storage.to_bytes(TALLY)
START = CONTENT.index(b"\n") + 1
HEADER_SIZE = struct.unpack("<Q", CONTENT[START : START + 8])[0]


def sealed(header: bytes, data: bytes) -> bytes:
    """Bytes of a tally with the right lengths and the right checksum."""
    checksum = struct.pack("<I", zlib.crc32(data, zlib.crc32(header)))
    return CONTENT[:START] + struct.pack("<QQ", len(header), len(data) + 4) + header + data + checksum


def parts() -> tuple[bytes, bytes]:
    """The header and the columns of a good tally."""
    end = START + 16 + HEADER_SIZE
    return CONTENT[START + 16 : end], CONTENT[end:-4]


def stored(**changes: Any) -> bytes:
    """A tally with changes in its columns, stored as if it were good."""
    columns = {name: changes.get(name, getattr(TALLY, name)) for name in storage.COLUMNS}
    described = json.loads(parts()[0])
    described["columns"] = {name: [array.dtype.str, array.shape] for name, array in columns.items()}
    return sealed(json.dumps(described).encode(), b"".join(array.tobytes() for array in columns.values()))


def described(**changes: Any) -> bytes:
    """A tally with changes in its header."""
    return sealed(json.dumps(json.loads(parts()[0]) | changes).encode(), parts()[1])


def test_a_good_tally_is_read() -> None:
    """Also one of many areas, of one class and of none."""
    assert sealed(*parts()) == CONTENT
    assert len(storage.from_bytes(stored())) == len(TALLY)
    areas = {f"a{i}": (i, 1e9) for i in range(9)}
    for protocol in (
        boxscore.Protocol.named("coco", areas=areas),
        boxscore.Protocol.named("coco", class_agnostic=True),
    ):
        tally = boxscore.match(SCENE.detections, SCENE.truths, protocol)
        assert len(storage.from_bytes(storage.to_bytes(tally))) == len(tally)
    storage.from_bytes(storage.to_bytes(Tally.empty(TALLY.protocol)))


def changed(column: str, value: Any) -> Any:
    """A column with another first value."""
    array = getattr(TALLY, column).copy()
    array[0] = value
    return array


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (stored(label=changed("label", 99)), "`label` must be one of `classes`"),
        (stored(truth_label=changed("truth_label", -7)), "`truth_label` must be one of `classes`"),
        (stored(classes=TALLY.classes[::-1].copy()), "`classes` must be ascending"),
        (stored(classes=np.zeros(0, np.int64)), "`label` must be one of `classes`"),
        (stored(score=changed("score", np.nan)), "`score` must be finite"),
        (stored(score=TALLY.score.astype(np.float16)), "`score` has an unexpected shape or dtype"),
        (stored(tier=changed("tier", 3)), "`tier` must be below 3, the number of limits"),
        (stored(state=changed("state", TALLY.state[0] | 128)), "`state` must have 5 bits"),
        (stored(truth_state=changed("truth_state", 16)), "`truth_state` must have 4 bits"),
        (stored(is_true=changed("is_true", 2**63)), "`is_true` and `is_counted` must be verdicts"),
        (stored(is_counted=changed("is_counted", 2**64 - 1)), "`is_true` and `is_counted` must be verdicts"),
        (stored(image=TALLY.image[:-1]), "`label` has an unexpected shape or dtype"),
        (described(iou_dtype="float8"), "`iou_dtype` must be float32 or float64; got 'float8'"),
        (described(protocol="{}"), "the tally is invalid"),
        (described(protocol='{"name": "x", "thresholds": [7]}'), "the tally is invalid"),
        (described(columns=[]), "the tally is invalid"),
        (described(class_names=7), "the tally is invalid"),
        (described(class_names=[["a", "b"]]), "the tally is invalid"),
        (sealed(b"[" * 100_000, parts()[1]), "the tally is invalid"),
        (sealed(b"7", parts()[1]), "the tally is invalid"),
    ],
)
def test_content_that_can_not_be_is_refused(content: bytes, message: str) -> None:
    """By its source, from bytes, and from a checkpoint."""
    with pytest.raises(InputError) as error:
        storage.from_bytes(content, "run.tally")
    assert str(error.value).startswith("run.tally: the tally is invalid: ")
    assert message in str(error.value)
    state = MeanAveragePrecision().state_dict()
    with pytest.raises(InputError, match=r"^`state`: the tally is invalid"):
        MeanAveragePrecision().load_state_dict(state | {"tally": content})


@pytest.mark.parametrize("shape", [[-1], [2**62], [1.5], ["7"], 7, None])
def test_shapes_that_can_not_be_are_refused(shape: Any) -> None:
    """Before anything is allocated for them."""
    columns = json.loads(parts()[0])["columns"]
    with pytest.raises(InputError, match=r"^t: the tally is invalid"):
        storage.from_bytes(described(columns=columns | {"image": ["<i4", shape]}), "t")


def test_columns_are_known_by_name() -> None:
    """In any order; none is missing, and none is left out in silence."""
    columns = storage.columns_of(TALLY)

    def packed(columns: dict[str, Any]) -> bytes:
        header = json.loads(parts()[0]) | json.loads(blocks.header_of(columns))
        return b"".join(blocks.pieces("tally", json.dumps(header).encode(), columns))

    assert storage.to_bytes(storage.from_bytes(packed(dict(reversed(columns.items()))))) == CONTENT
    with pytest.raises(InputError, match=r"^t: the tally is invalid: `odd` is not a column of a tally"):
        storage.from_bytes(packed(columns | {"odd": columns["image"]}), "t")
    columns.pop("tier")
    with pytest.raises(InputError, match=r"^t: the tally is invalid: `tier` is missing"):
        storage.from_bytes(packed(columns), "t")


ODD: list[Any] = [None, [], ["a"], {}, {"a": 1}, True, "", "x", -1, 5, 10**400, 1e308, float("nan"), [[1]], [None]]


@pytest.mark.parametrize("field", json.loads(json.loads(parts()[0])["protocol"]))
def test_a_protocol_of_odd_values_is_refused_or_can_be_finished(field: str) -> None:
    """Such as a list for a name, which can't be looked up."""
    protocol = json.loads(json.loads(parts()[0])["protocol"])
    for value in ODD:
        with contextlib.suppress(InputError):
            tally = storage.from_bytes(described(protocol=json.dumps(protocol | {field: value})))
            result = boxscore.finish(tally)
            assert storage.to_bytes(result.tally)
            assert str(result.comparable)


def test_whatever_has_changed_is_refused_or_can_be_finished() -> None:
    """Random bytes of a header or of a column, under a checksum that fits."""
    rng = np.random.default_rng(0)
    num_refused = 0
    for _ in range(400):
        header, data = (bytearray(part) for part in parts())
        part = header if rng.random() < 0.5 else data
        for place in rng.integers(0, len(part), rng.integers(1, 4)):
            part[place] = rng.integers(0, 256)
        try:
            tally = storage.from_bytes(sealed(bytes(header), bytes(data)))
        except InputError:
            num_refused += 1
            continue
        boxscore.finish(tally)
    assert num_refused > 100


def test_a_table_with_wrong_content_is_refused() -> None:
    """Whose checksum fits, too."""
    arrow = pytest.importorskip("pyarrow")
    bad = storage.from_bytes(CONTENT)
    object.__setattr__(bad, "score", changed("score", np.inf))
    with pytest.raises(InputError, match=r"^t: the tally is invalid: `score` must be finite"):
        Tally.from_arrow(bad.to_arrow(), "t")
    table = TALLY.to_arrow()
    for content in (b"7", b"[]", b"[" * 100_000, b'{"version": 1, "tally": 3}', b'{"version": 1, "tally": "{}"}'):
        odd = table.replace_schema_metadata({b"boxscore tally": content})
        with pytest.raises(InputError, match=r"^t: "):
            Tally.from_arrow(odd, "t")
    with pytest.raises(InputError, match=r"^t: "):
        Tally.from_arrow(table.set_column(1, "image", arrow.array(["a"] * len(table))), "t")


def test_a_checkpoint_whose_parts_contradict_each_other_is_refused() -> None:
    """Images that were counted, but not seen."""
    metric = MeanAveragePrecision(box_format="xywh")
    metric.update(SCENE.detections, SCENE.truths)
    with pytest.raises(InputError, match="its tally has images that are not among those seen"):
        MeanAveragePrecision().load_state_dict(metric.state_dict() | {"seen": [1]})
    with pytest.raises(InputError, match="`state` must be what `state_dict` gave"):
        MeanAveragePrecision().load_state_dict(metric.state_dict() | {"is_numbering": "no"})
