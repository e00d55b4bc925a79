"""The parallel engine: the paper's method on any array library, one file per stage; see `boxscore.parallel`."""
