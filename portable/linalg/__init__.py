"""Linear algebra, each operation written once for every device."""

from portable.linalg.band import band_to_bidiagonal
from portable.linalg.bidiagonal import bidiagonal_svdvals
from portable.linalg.dense import dense_to_band
from portable.linalg.gemm import gemm, prepare_gemm
from portable.linalg.spectral.by_values import PolarResult, matrix_rank, pinv, polar
from portable.linalg.spectral.decompositions import EighResult, SVDResult, eigh, eigvalsh, svd
from portable.linalg.svdvals import svdvals

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
