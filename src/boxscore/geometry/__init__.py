"""What a detection is made of: columns, checks, areas."""
