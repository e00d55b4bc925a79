"""Random documents, most of them damaged, through the compiled reader, for as long as you like.

    python -m tests.fuzz_json SECONDS [SEED]

Each must be read as Python's json reads it, or refused if that or the rules of COCO refuse it, however it is cut for
however many threads. Run under the sanitizers (`make fuzz`) they will have their say, too.
"""

import random
import sys
import time

from tests.support.coco_reference import Writer, check

TOKENS = b'{ } [ ] , : "a" "id":1, "bbox" 0 -1 1e400 1e5 01 1. .5 - NaN -Infinity true null \\u0041 \\ud800 \\x "'
WRONG = [b"\xff", b"\xc3\xa9", b"\xed\xa0\x80", b"\0", b"[" * 600, b"\xef\xbb\xbf", b"9" * 20]
PIECES = [*TOKENS.split(b" "), *WRONG, b"}, {", b" ", b"\n"]


def damage(content: bytes, rand: random.Random) -> bytes:
    """The content with something wrong, or at least different."""
    text = bytearray(content)
    for _ in range(rand.choice([1, 1, 1, 2, 3])):
        at, to = sorted(rand.randrange(len(text) + 1) for _ in range(2))
        kind = rand.randrange(6)
        if kind == 0 and at < len(text):
            text[at] ^= 1 << rand.randrange(8)
        elif kind == 1:
            text = text[:at]
        elif kind == 2:
            text[at:at] = rand.choice(PIECES)
        elif kind == 3:
            text[at : at + rand.randrange(4)] = rand.choice(PIECES)
        elif kind == 4:
            text[at:at] = text[at:to]
        else:
            del text[at : min(to, at + rand.randrange(1, 30))]
    return bytes(text)


def check_case(seed: int) -> bool:
    """One document, whole or damaged; whether it was fine."""
    rand = random.Random(seed)
    content = Writer(seed).document()
    if rand.random() < 0.8:
        content = damage(content, rand)
    sizes = (rand.randrange(1, 80), rand.randrange(1, 400), 1 << 18)
    return check(content, threads=(1, rand.choice([2, 3, 8])), sizes=sizes)


def main(seconds: float, seed: int) -> None:
    """Cases from a seed on, until time is up."""
    end = time.monotonic() + seconds
    first, num_fine = seed, 0
    while time.monotonic() < end:
        # Said beforehand: a crash says nothing.
        print(f"seed {seed}", end="\r", file=sys.stderr, flush=True)
        num_fine += check_case(seed)
        seed += 1
    print(f"{seed - first} documents, {num_fine} of them fine, nothing found")


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time()))
