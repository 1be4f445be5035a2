"""NumPy's functions that the Array API lacks, on arrays of every library and device.

Each takes arrays of NumPy, CuPy, dpnp, PyTorch, JAX or `portable.array` and gives arrays of the
same library on the same device; where a device was chosen (`portable.use`, ``PORTABLE_BACKEND``),
NumPy's arrays go there and results are NumPy's again. Names, parameters and meanings are NumPy's;
floats keep their dtype, and integers become the library's default floats where NumPy makes float64
of them.
"""

from typing import TYPE_CHECKING, Any

from portable.absent_names import STANDARD, lacking
from portable.numerics.calculus import convolve, gradient, interp, trapezoid
from portable.numerics.contraction import einsum
from portable.numerics.counting import Histogram, bincount, digitize, histogram, logspace
from portable.numerics.elementwise import allclose, isclose, pad
from portable.numerics.grouping import Keyed, UniqueRows, reduce_by_key, unique_rows
from portable.numerics.linear_algebra import LeastSquares, corrcoef, cov, lstsq, norm
from portable.numerics.quantiles import median, percentile, quantile
from portable.primitives.reducing import segmented_reduce

__all__ = [
    "Histogram",
    "Keyed",
    "LeastSquares",
    "UniqueRows",
    "allclose",
    "bincount",
    "convolve",
    "corrcoef",
    "cov",
    "digitize",
    "einsum",
    "gradient",
    "histogram",
    "interp",
    "isclose",
    "logspace",
    "lstsq",
    "median",
    "norm",
    "pad",
    "percentile",
    "quantile",
    "reduce_by_key",
    "segmented_reduce",
    "trapezoid",
    "unique_rows",
]

if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        raise lacking(__name__, __all__, name, STANDARD)
