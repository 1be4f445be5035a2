"""Tuned parameters: the space that a kernel declares, the table of what was found best, the search."""
