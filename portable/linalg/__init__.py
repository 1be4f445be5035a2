"""Linear algebra, each operation written once for every device."""

from portable.linalg.band import band_to_bidiagonal
from portable.linalg.bidiagonal import bidiagonal_svdvals
from portable.linalg.dense import dense_to_band
from portable.linalg.gemm import gemm, prepare_gemm
from portable.linalg.svdvals import svdvals

__all__ = [
    "band_to_bidiagonal",
    "bidiagonal_svdvals",
    "dense_to_band",
    "gemm",
    "prepare_gemm",
    "svdvals",
]
