"""Image ids: integers, or names, which are hashed to integers that are the same on every machine."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boxscore._support.exceptions import InputError
from boxscore.arrays import is_array, to_numpy
from boxscore.data.validation import ImageError, check_is_dense, shape_of


class ImageIds(NamedTuple):
    """Image ids as integers."""

    numbers: list[int]
    names: dict[int, str]
    """The names of images that were given by name, by id."""

    @property
    def image_names(self) -> dict[int, str] | None:
        """A name for every image, or None if no image has one; without a name, the id as text."""
        return {number: self.names.get(number, str(number)) for number in self.numbers} if self.names else None

    def shown(self, number: int) -> str:
        """An id as the caller gave it, for errors."""
        return repr(self.names.get(number, number))

    def take(self, rows: Sequence[int]) -> "ImageIds":
        """Select some ids by index."""
        return self._replace(numbers=[self.numbers[row] for row in rows])


def read_image_ids(values: Any, name: str = "image_ids") -> ImageIds:
    """Read image ids: integers stay, names become hashes of 63 bits, the same in every process.

    >>> read_image_ids([7, np.array([8])]).numbers
    [7, 8]
    >>> read_image_ids(["a.jpg", 7]).names
    {4959458484005905407: 'a.jpg'}
    """
    if isinstance(values, ImageIds):
        return values
    given = values if type(values) is list else _listed_ids(values, name)
    if {*map(type, given)} == {int} and min(given) >= -(2**63) and max(given) < 2**63:
        return ImageIds(given, {})
    ids: list[int | str] = []
    for index, image in enumerate(given):
        try:
            ids.append(_python_image_id(image))
        except InputError as error:
            raise ImageError(index, f": {error}", name) from None
    names = {hash_name(image): image for image in ids if isinstance(image, str)}
    return ImageIds([hash_name(image) if isinstance(image, str) else image for image in ids], names)


def _listed_ids(values: Any, name: str) -> list[Any]:
    if is_array(values) and len(values.shape) == 1:
        check_is_dense(name, values)
        return list(to_numpy(values).tolist())
    if is_array(values) or isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        came = f"{type(values).__name__} of shape {shape_of(values)}" if is_array(values) else repr(values)
        raise InputError(f"`{name}` must be a list of integers or names, one per image; got {came}")
    return list(values)


def image_ids_of(targets: Sequence[Any], reason: str) -> ImageIds:
    """Read the ids under `image_id` of all targets. `reason`: why each must have one, for errors."""
    for index, target in enumerate(targets):
        if not isinstance(target, Mapping) or "image_id" not in target:
            raise ImageError(index, f" must have the key 'image_id', {reason}")
    return read_image_ids([target["image_id"] for target in targets], "images")


def hash_name(name: str) -> int:
    """The id of a named image: 63 bits of the name's BLAKE2 hash.

    >>> hash_name("a.jpg")
    4959458484005905407
    """
    from hashlib import blake2b  # loads OpenSSL; most ids are integers

    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 1


def _python_image_id(image: Any) -> int | str:
    """Read an id from a number, a name, the bytes of a name (as in TensorFlow), or an array with one of them.

    >>> _python_image_id(np.array([7])), _python_image_id(b"a.jpg")
    (7, 'a.jpg')
    """
    if isinstance(image, str):
        return str(image)
    if isinstance(image, bytes):
        return image.decode("utf-8", "surrogateescape")
    if type(image) is int and -(2**63) <= image < 2**63:
        return image
    if is_array(image):
        check_is_dense("image_id", image)
    value = to_numpy(image) if is_array(image) else np.asarray(image)
    if is_array(image) and value.size == 1 and isinstance(value.reshape(-1)[0], str | bytes):
        return _python_image_id(value.reshape(-1)[0])
    if value.size != 1 or value.dtype.kind not in "iu":
        came = f"{value.dtype} of shape {value.shape}" if is_array(image) else repr(image)
        raise InputError(f"an image id must be an integer of 64 bits or a name; got {came}")
    if (number := int(value.reshape(()))) > np.iinfo(np.int64).max:
        raise InputError(f"an image id must fit in 63 bits; got {number}")
    return number


def different_ids(image_ids: Any, num_images: int) -> NDArray[np.int64]:
    """Read one id per image. Raise `InputError` for repeated ids."""
    ids = read_image_ids(image_ids)
    if len(ids.numbers) != num_images:
        rule = "`image_ids` must have one id per image"
        raise InputError(f"{rule}; got {len(ids.numbers)} for {num_images} images")
    if len(set(ids.numbers)) < num_images:
        repeated = next(image for row, image in enumerate(ids.numbers) if image in ids.numbers[:row])
        raise InputError(f"`image_ids` must have each id once; got {ids.shown(repeated)} more than once")
    return np.array(ids.numbers, np.int64)
