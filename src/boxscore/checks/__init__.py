"""Detect likely mistakes of a user in files and in results."""
