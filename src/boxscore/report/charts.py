"""The chart library of the HTML report: Vega-Lite, from the package vl-convert."""

from functools import cache
from importlib.util import find_spec

from boxscore._support.exceptions import InputError

_MISSING = "the HTML report needs vl-convert-python, for its charts: pip install 'boxscore[report]'"


def check_vl_convert() -> None:
    """Raise `InputError` if vl-convert is not installed."""
    if find_spec("vl_convert") is None:
        raise InputError(_MISSING)


@cache
def chart_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that works offline. Takes a second or two, once per process."""
    check_vl_convert()
    import vl_convert

    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")


def chart_versions() -> str:
    """The versions of Vega and Vega-Lite."""
    import vl_convert

    return f"Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]}"
