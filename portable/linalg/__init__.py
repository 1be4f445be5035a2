"""Linear algebra, each operation written once for every device."""

from portable.linalg.bands.band import band_to_bidiagonal
from portable.linalg.dense.reduction import dense_to_band
from portable.linalg.products.gemm import gemm, prepare_gemm
from portable.linalg.singular_values.bidiagonal import bidiagonal_svdvals
from portable.linalg.singular_values.svdvals import svdvals
from portable.linalg.spectral.by_values import PolarResult, matrix_rank, pinv, polar
from portable.linalg.spectral.decompositions import EighResult, SVDResult, eigh, eigvalsh, svd

__all__ = [
    "EighResult",
    "PolarResult",
    "SVDResult",
    "band_to_bidiagonal",
    "bidiagonal_svdvals",
    "dense_to_band",
    "eigh",
    "eigvalsh",
    "gemm",
    "matrix_rank",
    "pinv",
    "polar",
    "prepare_gemm",
    "svd",
    "svdvals",
]
