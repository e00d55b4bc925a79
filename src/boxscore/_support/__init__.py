"""Exceptions, text, threads and files, for every package."""
