"""Tuned parameters: the space that a kernel declares, the table of the best, the search."""
