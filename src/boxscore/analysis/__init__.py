"""Analyses of results: causes of the numbers, and their uncertainty. One file per question."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.analysis.bootstrap import Intervals as Intervals
    from boxscore.analysis.claims import ClaimExplanation as ClaimExplanation
    from boxscore.analysis.claims import explain_claim as explain_claim
    from boxscore.analysis.comparison import Comparison as Comparison
    from boxscore.analysis.comparison import compare as compare
    from boxscore.analysis.explanation import Explanation as Explanation
    from boxscore.analysis.explanation import explain as explain
    from boxscore.analysis.label_review import LabelErrors as LabelErrors
    from boxscore.analysis.label_review import label_errors as label_errors
    from boxscore.analysis.slicing import Slices as Slices
    from boxscore.analysis.slicing import slices as slices

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "bootstrap": "Intervals",
        "claims": "ClaimExplanation explain_claim",
        "comparison": "Comparison compare",
        "explanation": "Explanation explain",
        "label_review": "LabelErrors label_errors",
        "slicing": "Slices slices",
    },
)
