"""Linear algebra, each operation written once for every device."""

from typing import TYPE_CHECKING, Any

from portable.absent_names import MATRICES, lacking
from portable.linalg.bands.band import band_to_bidiagonal
from portable.linalg.dense.reduction import dense_to_band
from portable.linalg.factorisations.cholesky import cholesky
from portable.linalg.factorisations.determinants import det, slogdet
from portable.linalg.factorisations.lu import LUFactors, inv, lu_factor, lu_solve, solve
from portable.linalg.factorisations.qr import QRFactors, qr
from portable.linalg.factorisations.triangles import solve_triangular
from portable.linalg.products.gemm import gemm, prepare_gemm
from portable.linalg.products.scaled import scaled_matmul
from portable.linalg.singular_values.bidiagonal import bidiagonal_svdvals
from portable.linalg.singular_values.svdvals import svdvals
from portable.linalg.spectral.bidiagonal_svd import bidiagonal_svd
from portable.linalg.spectral.by_values import PolarResult, matrix_rank, pinv, polar
from portable.linalg.spectral.decompositions import EighResult, SVDResult, eigh, eigvalsh, svd
from portable.linalg.spectral.least_squares import LeastSquares, lstsq

__all__ = [
    "EighResult",
    "LUFactors",
    "LeastSquares",
    "PolarResult",
    "QRFactors",
    "SVDResult",
    "band_to_bidiagonal",
    "bidiagonal_svd",
    "bidiagonal_svdvals",
    "cholesky",
    "dense_to_band",
    "det",
    "eigh",
    "eigvalsh",
    "gemm",
    "inv",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "matrix_rank",
    "pinv",
    "polar",
    "prepare_gemm",
    "qr",
    "scaled_matmul",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
]

if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        raise lacking(__name__, __all__, name, MATRICES)
