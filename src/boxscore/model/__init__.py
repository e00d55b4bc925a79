"""The nouns: protocol, dataset, tally, curves, result."""
