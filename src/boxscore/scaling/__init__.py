"""Evaluation in parts: shards, files larger than memory, Ray."""

from boxscore._support.lazy_names import lazy_names

TYPE_CHECKING = False  # as in `lazy_names`
if TYPE_CHECKING:
    from boxscore.scaling.out_of_core import evaluate_files as evaluate_files
    from boxscore.scaling.shards import match_shard as match_shard

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    globals(),
    {
        "out_of_core": "evaluate_files",
        "shards": "match_shard",
    },
)
