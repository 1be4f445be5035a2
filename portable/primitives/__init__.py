"""Copies, maps, reductions, scans, sorts and more, on arrays of every library.

What CUB, rocPRIM, Thrust and AcceleratedKernels.jl offer, written once: the functions take NumPy's,
CuPy's, dpnp's, Portable's own and (by DLPack) other libraries' arrays, run where these live, and
return arrays of the same library. Operations are a user's own, any function that kernels can call;
totals may be structs, kept as an array per field. The first call for arrays of a dtype, shape and
strides makes a plan, which later ones repeat.

`portable.array` is made of them: `maps`, `moves`, `reductions`, `scans`, `sorts` and `masks` hold
the kernels, each beside the module that cuts the work and launches them; `base` what plans are made
of.
"""

from typing import TYPE_CHECKING, Any

from portable.absent_names import PARALLEL, lacking
from portable.primitives.mapping import copy, fill, map, transpose  # noqa: A004 - as Python's
from portable.primitives.reducing import reduce, segmented_reduce
from portable.primitives.scanning import scan
from portable.primitives.selecting import compact, gather, scatter
from portable.primitives.sorting import TopK, argsort, sort, sort_by_key, topk

__all__ = [
    "TopK",
    "argsort",
    "compact",
    "copy",
    "fill",
    "gather",
    "map",
    "reduce",
    "scan",
    "scatter",
    "segmented_reduce",
    "sort",
    "sort_by_key",
    "topk",
    "transpose",
]

if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        raise lacking(__name__, __all__, name, PARALLEL)
