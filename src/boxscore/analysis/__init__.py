"""Analysis: from the verdicts that are there, how sure a number is, and what is behind it."""
