"""Random documents, most of them damaged, through the compiled reader, for as long as you like.

    python -m tests.fuzz_json SECONDS [SEED]

Each must be read as Python's json reads it, or refused if that or the rules of COCO refuse it, however it is cut for
however many threads. Run under the sanitizers (`make fuzz`) they will have their say, too.
"""

from tests.support.coco_writer import check_case
from tests.support.fuzzing import fuzz

if __name__ == "__main__":
    are_valid = fuzz(check_case)
    print(f"{len(are_valid)} documents, {sum(are_valid)} of them valid, nothing found")
