"""Linear algebra, each operation written once for every device."""

from portable.linalg.bands.band import band_to_bidiagonal
from portable.linalg.dense.reduction import dense_to_band
from portable.linalg.products.gemm import gemm, prepare_gemm
from portable.linalg.singular_values.bidiagonal import bidiagonal_svdvals
from portable.linalg.singular_values.svdvals import svdvals

__all__ = [
    "band_to_bidiagonal",
    "bidiagonal_svdvals",
    "dense_to_band",
    "gemm",
    "prepare_gemm",
    "svdvals",
]
