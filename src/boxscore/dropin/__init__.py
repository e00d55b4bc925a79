"""The classes of pycocotools, lvis, faster-coco-eval and torchvision's references over boxscore's engine.

    store.py             annotations of files, arrays and dicts: columns, and dicts that are made on first use
    poses.py             poses in annotations: their keys, geometry and OKS
    params.py            thresholds, ranges and limits, under each client's names
    evaluated_rows.py    the rows of an evaluation, as Detections and Truths ──► prepare ──► match ──► Tally
    image_entries.py     the entries that clients keep for each image and class
    accumulation.py      tallies and entries ──► curves ──► numbers ──► lines
    patch.py             boxscore's modules in place of the packages

Each client is a few classes with its names on top of these: `coco_dataset`, `evaluation` and `mask` for pycocotools,
`lvis_dataset` and `lvis_evaluation`, `faster_dataset`, `faster_evaluation` and `faster_mask`, `torchvision_evaluator`.
"""
