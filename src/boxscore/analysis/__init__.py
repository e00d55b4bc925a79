"""Why the numbers are what they are: errors, confusion, calibration, operating points, worst images. One file each."""
