"""Linear algebra, each operation written once for every device."""

from portable.linalg.bidiagonal import bidiagonal_svdvals
from portable.linalg.gemm import gemm

__all__ = ["bidiagonal_svdvals", "gemm"]
