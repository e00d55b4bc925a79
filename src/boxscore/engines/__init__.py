"""The engines: three ways to match and to draw curves, with the same bits."""
