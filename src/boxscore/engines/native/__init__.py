"""The native engine: C++ for arrays in host memory, and for COCO's files.

`order.h` sorts, `match.cpp` matches image by image, `curves.cpp` builds curves class by class, `average.h` takes means,
`finish.cpp` makes the numbers of a tally, `bootstrap.cpp` those of its resamples;
`json.h` scans JSON, `coco_json.cpp` makes columns of COCO's files, `direct.cpp` evaluates these; `bindings.cpp` and
`bindings_files.cpp` talk to Python, `engine.py` to the rest of boxscore.
"""
