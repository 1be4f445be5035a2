"""Reductions along axes: sums, extremes and where they are, moments."""
