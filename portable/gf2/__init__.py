"""Elimination and linear algebra over GF(2), bit-packed, on every device."""

from portable.gf2.eliminate import Eliminated, eliminate
from portable.gf2.matrix import BitMatrix

__all__ = ["BitMatrix", "Eliminated", "eliminate"]
