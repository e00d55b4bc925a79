"""Why the numbers are what they are, and how sure they are. One file for each question."""
