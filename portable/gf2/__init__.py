"""Elimination and linear algebra over GF(2), bit-packed, on every device.

Products, echelon forms, ranks, systems, inverses, null spaces and transposes take bit matrices, or
arrays of their elements of any library, and give the like.
"""

from portable.gf2.algebra import Echelon, inverse, nullspace, rank, row_echelon, solve
from portable.gf2.eliminate import Eliminated, eliminate
from portable.gf2.files import eliminate_file, read_matrix, write_matrix
from portable.gf2.matrix import BitMatrix
from portable.gf2.product import matmul, random, transpose

__all__ = [
    "BitMatrix",
    "Echelon",
    "Eliminated",
    "eliminate",
    "eliminate_file",
    "inverse",
    "matmul",
    "nullspace",
    "random",
    "rank",
    "read_matrix",
    "row_echelon",
    "solve",
    "transpose",
    "write_matrix",
]
