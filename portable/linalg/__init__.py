"""Linear algebra, each operation written once for every device."""

from portable.linalg.gemm import gemm

__all__ = ["gemm"]
