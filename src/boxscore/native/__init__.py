"""The native engine: C++ for arrays in host memory.

`order.h` sorts, `match.cpp` matches image by image, `curves.cpp` draws class by class, `average.h` takes means,
`bindings.cpp` talks to Python, `engine.py` to the rest of boxscore.
"""
