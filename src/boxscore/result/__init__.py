"""From verdicts to numbers: tally, curves, result, and how they are stored and exchanged."""
