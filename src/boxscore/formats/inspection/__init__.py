"""Problems in files: all findings in one pass, which no finding stops. `inspector` has the pass."""
