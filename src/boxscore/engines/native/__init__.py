"""The native engine: C++ for arrays in host memory, and for COCO's files.

In `src/core`, `geometry/` has a similarity policy per geometry, `candidates.h` finds the pairs that are similar enough,
`match.h` matches image by image, `ordered_hits.cpp` orders the hits of each class, from which `curves.cpp` builds
curves, `finish.cpp` computes the numbers of a tally and `bootstrap.cpp` the numbers of its resamples; `io/` reads
COCO's files, with their rules in `coco_rows.cpp`; `python/` has the bindings. Here, `columns.py` hands columns over,
`compiled_engine.py` matches and finishes.
"""
