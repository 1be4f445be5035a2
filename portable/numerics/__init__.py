"""NumPy's functions that the Array API lacks, on arrays of every library and device.

Each takes arrays of NumPy, CuPy, dpnp, PyTorch, JAX or `portable.array` and gives arrays of the
same library on the same device; where a device was chosen (`portable.use`, ``PORTABLE_BACKEND``),
NumPy's arrays go there and results are NumPy's again. Names, parameters and meanings are NumPy's;
floats keep their dtype, and integers become the library's default floats where NumPy makes float64
of them.
"""

from portable.numerics.contraction import einsum
from portable.numerics.convolving import convolve
from portable.numerics.counting import Histogram, bincount, histogram
from portable.numerics.interpolation import interp
from portable.numerics.least_squares import LeastSquares, lstsq
from portable.numerics.padding import pad
from portable.numerics.quantiles import median, percentile, quantile

__all__ = [
    "Histogram",
    "LeastSquares",
    "bincount",
    "convolve",
    "einsum",
    "histogram",
    "interp",
    "lstsq",
    "median",
    "pad",
    "percentile",
    "quantile",
]
