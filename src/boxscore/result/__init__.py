"""From verdicts to numbers: tally, curves, result, and their storage and exchange."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.result.curves import Curves as Curves
    from boxscore.result.per_class import PerClass as PerClass
    from boxscore.result.result import Result as Result
    from boxscore.result.tally import Tally as Tally

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "curves": "Curves",
        "per_class": "PerClass",
        "result": "Result",
        "tally": "Tally",
    },
)
