"""Decompositions by singular values and eigenvalues, with vectors."""
