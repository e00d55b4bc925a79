"""Building and testing what is released: wheels, the source distribution."""
