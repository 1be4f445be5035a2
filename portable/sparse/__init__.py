"""Sparse matrices by rows (CSR), and their products with vectors and dense matrices.

A `CSR` holds three arrays of any library, on any device: the numbers that are not zero, their
columns, and where each row begins. ``a @ x`` runs where they live.
"""

from typing import TYPE_CHECKING, Any

from portable.absent_names import SPARSE, lacking
from portable.sparse.matrix import CSR

__all__ = ["CSR"]

if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        raise lacking(__name__, __all__, name, SPARSE)
