"""boxscore and its peers, measured in one run: `make bench`."""
