"""The stable names: what a framework may depend on. A name that goes, or comes, changes this list on purpose."""

import importlib

import pytest

NAMES = {
    "boxscore": "Detections InputError MeanAveragePrecision Protocol Result Tally Truths collate_truths compare"
    " evaluate explain finish load_result match patch_faster_coco_eval patch_pycocotools read_detections read_truths"
    " write_detections write_truths",
    "boxscore.analysis": "ClaimExplanation Comparison Explanation Intervals LabelErrors Slices compare explain"
    " explain_claim label_errors slices",
    "boxscore.data": "Coverage Detections Keypoints Masks OrientedBoxes Truths",
    "boxscore.protocol": "Area KeypointRules Protocol",
    "boxscore.report": "Picture draw",
    "boxscore.result": "Curves PerClass Result Tally",
    "boxscore.scaling": "evaluate_files match_shard",
    "boxscore.coco": "COCO COCOeval Params mask patch_pycocotools",
    "boxscore.lvis": "LVIS LVISEval LVISResults",
}


@pytest.mark.parametrize("module", NAMES)
def test_public_names_are_those_listed(module: str) -> None:
    """Each is there, and `__all__` and `dir` have it."""
    loaded = importlib.import_module(module)
    assert sorted(loaded.__all__) == sorted(NAMES[module].split())
    assert all(getattr(loaded, name) is not None for name in loaded.__all__)
    assert set(loaded.__all__) <= set(dir(loaded))


def test_an_unknown_name_is_refused_by_its_module() -> None:
    """As Python itself does."""
    import boxscore.analysis

    with pytest.raises(AttributeError, match=r"module 'boxscore\.analysis' has no attribute 'comparison_of'"):
        _ = boxscore.analysis.comparison_of
