"""What every package may use: arrays, checks, text, threads, files."""
