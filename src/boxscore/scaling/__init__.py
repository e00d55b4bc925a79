"""Beyond one process and beyond memory: stored tallies, Arrow, reduction by class, Ray."""
