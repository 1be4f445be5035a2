"""NumPy's functions that the Array API lacks, on arrays of every library and device.

Each takes arrays of NumPy, CuPy, dpnp, PyTorch, JAX or `portable.array` and gives arrays of the
same library on the same device; where a device was chosen (`portable.use`, ``PORTABLE_BACKEND``),
NumPy's arrays go there and results are NumPy's again. Names, parameters and meanings are NumPy's;
floats keep their dtype, and integers become the library's default floats where NumPy makes float64
of them.
"""

from portable.numerics.calculus import gradient, trapezoid
from portable.numerics.closeness import allclose, isclose
from portable.numerics.contraction import einsum
from portable.numerics.convolving import convolve
from portable.numerics.counting import Histogram, bincount, histogram
from portable.numerics.covariance import corrcoef, cov
from portable.numerics.interpolation import interp
from portable.numerics.intervals import digitize, logspace
from portable.numerics.keyed import Keyed, reduce_by_key
from portable.numerics.least_squares import LeastSquares, lstsq
from portable.numerics.norms import norm
from portable.numerics.padding import pad
from portable.numerics.quantiles import median, percentile, quantile
from portable.numerics.rows import UniqueRows, unique_rows
from portable.primitives.segments import segmented_reduce

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
