"""The engines: three ways to match and to build curves, with the same bits."""
