"""A result for people: charts for papers, and one HTML file that explains it."""
