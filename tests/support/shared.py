"""Real data, read in place where it is present."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "data"


def shared_data(name: str) -> Path:
    """The path of a file of real data; skips the test where it is not present."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"real data is not here: ../shared/data/{name}")
    return path
