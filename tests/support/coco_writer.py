"""Random COCO files of every spelling, whole or damaged, for the compiled reader."""

import json
import random

from tests.support.coco_reference import PARTS, check, compress
from tests.support.fuzzing import damage

TOKENS = b'{ } [ ] , : "a" "id":1, "bbox" 0 -1 1e400 1e5 01 1. .5 - NaN -Infinity true null \\u0041 \\ud800 \\x "'
WRONG = [b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\0", b"[" * 600, b"\xef\xbb\xbf", b"9" * 20]
PIECES = [*TOKENS.split(b" "), *WRONG, b"}, {", b" ", b"\n"]


class Writer:
    """Random JSON of every spelling."""

    def __init__(self, seed: int, shapes: str = "boxes") -> None:
        self.random = random.Random(seed)
        self.shapes = shapes
        self.num_points, self.has_parts = self.random.randrange(1, 5), self.random.random() < 0.3
        self.has_space = self.random.random() < 0.6
        self.has_order = self.random.random() < 0.5

    def space(self) -> str:
        """Whitespace, or none."""
        if not self.has_space or self.random.random() < 0.5:
            return ""
        return self.random.choice([" ", "\n", "\r\n", "\t", "  ", " \n    "])

    def string(self, text: str | None = None) -> str:
        """A string in quotes, some of its characters escaped."""
        if text is None:
            pieces = [
                "a",
                "bc",
                "é",
                "日本",
                "😀",
                "},{",
                "}, {",
                "]",
                '"',
                "\\",
                "\n",
                "/",
                "\u007f",
                " ",
                "id",
                "\u2028",
            ]
            text = "".join(self.random.choice(pieces) for _ in range(self.random.randrange(6)))
        text = json.dumps(text, ensure_ascii=self.random.random() < 0.3)
        if self.random.random() < 0.1 and text[1] not in '"\\':
            text = f'"\\u{ord(text[1]):04x}{text[2:]}' if ord(text[1]) < 0x10000 else text
        return text

    def number(self) -> str:
        """A number."""
        kind = self.random.randrange(8)
        if kind < 3:
            return repr(round(self.random.uniform(0, 700), self.random.randrange(6)))
        if kind == 3:
            return repr(self.random.uniform(-1, 1) * 10.0 ** self.random.randrange(-20, 20))
        if kind == 4:
            return str(self.random.randrange(-5, 1000))
        if kind == 5:
            return f"{self.digits(1, 22)}e{self.random.choice(['', '+', '-'])}{self.random.randrange(40)}"
        if kind == 6:
            return f"{self.digits(1, 22)}.{self.random.randrange(10 ** self.random.randrange(1, 25))}"
        return f"-{self.digits(1, 5)}.{self.digits(1, 3)}E{self.random.randrange(-330, 320)}"

    def digits(self, least: int, most: int) -> str:
        """Digits that do not begin with 0."""
        return str(self.random.randrange(1, 10 ** self.random.randint(least, most)))

    def value(self, depth: int = 0) -> str:
        """Any value."""
        kind = self.random.randrange(8 if depth < 4 else 5)
        if kind == 0:
            return self.string()
        if kind == 1:
            return self.random.choice(["true", "false", "null"])
        if kind < 5:
            return self.number()
        if kind == 5:
            return self.join_list([self.value(depth + 1) for _ in range(self.random.randrange(4))])
        names = ["id", "bbox", "counts", "size", "x", "},{"]
        return self.join_object(
            [(self.random.choice(names), self.value(depth + 1)) for _ in range(self.random.randrange(4))]
        )

    def join_list(self, values: list[str]) -> str:
        """A list."""
        return "[" + ",".join(self.space() + value + self.space() for value in values) + self.space() + "]"

    def join_object(self, pairs: list[tuple[str, str]]) -> str:
        """An object."""
        colons = [f"{self.space()}{self.string(key)}{self.space()}:{self.space()}{value}" for key, value in pairs]
        return "{" + ",".join(colon + self.space() for colon in colons) + self.space() + "}"

    def mask(self) -> str:
        """A segmentation: run lengths, compressed or not, or polygons; right, nearly always."""
        rand = self.random
        height, width = rand.randrange(1, 9), rand.randrange(1, 9)
        if rand.random() < 0.3:
            numbers = [[self.place() for _ in range(2 * rand.randrange(1, 7))] for _ in range(rand.randrange(1, 4))]
            return self.join_list([self.join_list(part) for part in numbers])
        cuts = sorted(rand.randrange(height * width + 1) for _ in range(rand.randrange(12)))
        runs = [after - before for before, after in zip([0, *cuts], [*cuts, height * width], strict=True)]
        if rand.random() < 0.03:
            runs[rand.randrange(len(runs))] += rand.choice([-1, 1, 2**31, 2**33])
        if rand.random() < 0.5 and max(runs) < 2**32 and min(runs) >= 0:
            encoded = compress(runs).decode()
            counts = json.dumps(encoded) if rand.random() < 0.9 else self.string(encoded)
        else:
            counts = self.join_list(list(map(str, runs)))
        size = self.join_list([str(height), str(width)])
        pairs = [("size", size), ("counts", counts), *([("x", self.value())] * (rand.random() < 0.1))]
        rand.shuffle(pairs)
        return self.join_object(pairs)

    def keypoints(self) -> list[tuple[str, str]]:
        """Those of the body, or of all parts of a whole body; right, nearly always."""
        rand = self.random
        num = self.num_points if rand.random() < 0.98 else rand.randrange(4)

        def points() -> str:
            numbers = [self.number() if rand.random() < 0.3 else self.place() for _ in range(3 * num)]
            return self.join_list(numbers[rand.random() < 0.01 :])

        parts = PARTS if self.has_parts else PARTS[:1]
        pairs = [(key, points()) for key in parts if rand.random() < 0.99]
        return pairs + [("num_keypoints", str(num))] * (rand.random() < 0.5)

    def lists(self) -> list[tuple[str, str]]:
        """What LVIS has for each image, most of the time."""
        names = ("neg_category_ids", "not_exhaustive_category_ids")
        lists = [
            self.join_list([str(self.random.randrange(9)) for _ in range(self.random.randrange(4))]) for _ in names
        ]
        pairs = [*zip(names, lists, strict=True), ("coco_url", self.string("http://a/b/c.jpg"))]
        return [pair for pair in pairs if self.random.random() < 0.9]

    def place(self) -> str:
        """A coordinate in an image, or near it."""
        return repr(round(self.random.uniform(-5, 35), self.random.randrange(4)))

    def record(self, pairs: list[tuple[str, str]]) -> str:
        """An object with keys that nobody reads among those that are read."""
        if self.random.random() < 0.3:
            pairs = [*pairs, ("attributes", self.value())]
        if not self.has_order:
            self.random.shuffle(pairs)
        return self.join_object(pairs)

    def document(self) -> bytes:
        """A dataset or a list of results that is nearly always valid."""
        rand = self.random
        has_names, has_scores, has_ids = rand.random() < 0.2, rand.random() < 0.5, rand.random() < 0.6
        optional = rand.choice([0.0, 0.5, 1.0])

        def image() -> str:
            return self.string(f"image {rand.randrange(4)} \\ é") if has_names else str(rand.randrange(-3, 10**12))

        def box() -> str:
            pairs = [("image_id", image()), ("category_id", str(rand.randrange(5)))]
            if self.shapes == "keypoints":
                pairs += self.keypoints()
            pairs += [("segmentation", self.mask())] * (self.shapes == "masks" or rand.random() < 0.1)
            if len(pairs) == 2 or rand.random() < 0.9:
                pairs += [("bbox", self.join_list([self.number() for _ in range(4)]))]
                pairs += [("segmentation", self.value())] * (
                    self.shapes != "masks" and len(pairs) == 3 and rand.random() < 0.3
                )
            pairs += [("score", self.number())] * has_scores + [("id", str(rand.randrange(10**6)))] * has_ids
            if rand.random() < optional:
                pairs += [("area", self.number()), ("iscrowd", rand.choice(["0", "1", "true", "false"]))]
            return self.record(pairs)

        boxes = self.join_list([box() for _ in range(rand.randrange(8))])
        if rand.random() < 0.5:
            return f"{self.space()}{boxes}{self.space()}".encode()
        is_federated = rand.random() < 0.3
        images = [
            [("id", image()), ("file_name", self.string()), ("width", self.number()), *self.lists() * is_federated]
            for _ in range(rand.randrange(4))
        ]
        categories = [
            [("name", self.string()), ("id", str(i)), *[("frequency", '"r"')] * is_federated]
            for i in range(rand.randrange(4))
        ]
        pairs = [("annotations", boxes), ("images", self.join_list([self.record(image) for image in images]))]
        pairs += [
            ("categories", self.join_list([self.record(category) for category in categories])),
            ("info", self.value()),
        ]
        rand.shuffle(pairs)
        return (("\ufeff" if rand.random() < 0.1 else "") + self.join_object(pairs[rand.randrange(2) :])).encode()


def damaged(content: bytes, rand: random.Random) -> bytes:
    """The content with something wrong, or at least different."""
    text = bytearray(content)
    for _ in range(rand.choice([1, 1, 1, 2, 3])):
        at, to = sorted(rand.randrange(len(text) + 1) for _ in range(2))
        damage(text, rand, rand.randrange(6), at, to, lambda: rand.choice(PIECES))
    return bytes(text)


def check_case(seed: int) -> bool:
    """One document, whole or damaged; whether it was valid."""
    rand = random.Random(seed)
    shapes = rand.choice(["boxes", "masks", "keypoints"])
    content = Writer(seed, shapes).document()
    if rand.random() < 0.8:
        content = damaged(content, rand)
    sizes = (rand.randrange(1, 80), rand.randrange(1, 400), 1 << 18)
    return check(content, threads=(1, rand.choice([2, 3, 8])), sizes=sizes, shapes=shapes)
