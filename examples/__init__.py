"""What boxscore is for, in programs that run."""
