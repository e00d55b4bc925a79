"""The live page of `boxscore serve`: runs on disk, their numbers over epochs, a report of each result."""
