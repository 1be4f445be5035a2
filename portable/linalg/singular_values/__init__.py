"""Singular values, from the matrix to the numbers."""
