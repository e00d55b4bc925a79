"""A result for people: one HTML file that explains it."""
