"""Sparse matrices by rows (CSR), and their products with vectors and dense matrices.

A `CSR` holds three arrays of any library, on any device: the numbers that are not zero, their
columns, and where each row begins. ``a @ x`` runs where they live.
"""

from portable.sparse.matrix import CSR

__all__ = ["CSR"]
