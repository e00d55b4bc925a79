"""The three engines, as parameters of a test."""

import pytest

ENGINES = [
    pytest.param("sequential", marks=pytest.mark.not_sanitized),
    pytest.param("parallel", marks=pytest.mark.not_sanitized),
    "native",
]
