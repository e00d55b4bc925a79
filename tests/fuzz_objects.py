"""Annotations with hostile objects through the compiled readers of dicts, for as long as you like.

    python -m tests.fuzz_objects SECONDS [SEED]

Each object changes the containers that are being read, whenever Python code of its own is run. Readers may end with an
error, not with a crash. Run under the sanitizers (`make fuzz`) they will have their say, too. A case is named by its
seed, to be tried again.
"""

import contextlib
import io

from tests.support.fuzzing import fuzz
from tests.support.hostile_objects import check_case


def check_quietly(seed: int) -> int:
    """How often a case changed containers."""
    with contextlib.redirect_stdout(io.StringIO()):
        return check_case(seed)


if __name__ == "__main__":
    strikes = fuzz(check_quietly)
    print(f"{len(strikes)} cases, containers changed {sum(strikes)} times, nothing found")
