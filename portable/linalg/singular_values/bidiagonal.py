"""Singular values of bidiagonal matrices."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.linalg.base.magnitude import largest_magnitude, require_finite
from portable.linalg.base.operands import common_dtype
from portable.linalg.singular_values.bidiagonal_kernels import (
    TREE_BITS,
    Search,
    bisect,
    count_table,
    squares,
    team_of,
)
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_LEFT: Final = {"f32": 1, "f64": 2}
_WORKGROUP: Final = 64
SPLITS: Final = (5, 4, 3, 2, 1)
"""Levels of a pass that are tried: the nodes of five are a sub-group of 32 work-items."""

_VECTORS: Final = 4
_LEAVES_PER_UNIT: Final = 256
_ITEMS_PER_UNIT: Final = 512
"""Work-items of a unit beyond which they wait for each other rather than for their divisions."""


@takes_other_libraries
def bidiagonal_svdvals(d: ArrayT, e: ArrayT, *, check_finite: bool = True) -> ArrayT:
    """The singular values of a bidiagonal matrix, to high relative accuracy.

    Parameters
    ----------
    d : array, shape (n,)
        The diagonal; ``float16``, ``float32`` or ``float64``.
    e : array, shape (n - 1,)
        The diagonal next to it, above or below; of the same dtype and device. Of shape (0,) if n
        is 0.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device.

    Returns
    -------
    array, shape (n,)
        The singular values, the largest first, on the device of `d`; ``float32`` for ``float16``.
        Each within a modest multiple of the unit roundoff of itself, as long as it is not below
        the largest by more than the square root of the type's range.

    Raises
    ------
    ShapeError
        Unless `d` and `e` are vectors of fitting lengths.
    DTypeError
        For mixed or other dtypes.
    ValueError
        For NaN or infinities.

    Notes
    -----
    Bisection by Sturm counts of ``B^T B`` in differential form, as J. Demmel and W. Kahan,
    "Accurate singular values of bidiagonal matrices", SIAM J. Sci. Stat. Comput. 11 (1990), and K.
    Fernando and B. Parlett, Numer. Math. 67 (1994), show to be accurate. On a CPU each of n values
    takes the bits of the type, less log2(n), in passes over the matrix, one division a row: about
    ``n^2 (30 - log2 n)`` divisions in single and ``n^2 (61 - log2 n)`` in double precision, whose
    rate is the floor. On a GPU the latency of ``n`` dependent divisions a pass is, up to some ten
    thousand values: there a table of all units' making stands for the first 15 passes, and up to
    five bits are found in each of the others, 4 in single and 10 in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.bidiagonal_svdvals(np.array([3.0, 0.0]), np.array([4.0]))
    array([5., 0.])
    """
    device = device_of_arrays(d, e)
    kind = common_dtype("bidiagonal_svdvals", _DTYPES, d=d, e=e)
    n = _checked_length(d, e)
    values = device.empty((n,), kind.register)
    if n == 0:
        return values  # type: ignore[no-any-return]
    arrays = (d, e) if n > 1 else (d,)
    largest = largest_magnitude(device, *arrays)
    if check_finite:
        require_finite(device, largest, "bidiagonal_svdvals")
    bisected(device, (d, e), largest, values)
    return values  # type: ignore[no-any-return]


def _checked_length(d: Any, e: Any) -> int:
    if d.ndim != 1 or e.ndim != 1 or e.shape[0] != max(d.shape[0] - 1, 0):
        raise ShapeError(
            "bidiagonal_svdvals takes the diagonal, shape (n,), and its neighbour, shape (n - 1,), "
            f"not {tuple(d.shape)} and {tuple(e.shape)}"
        )
    return int(d.shape[0])


def bisected(device: Device, diagonals: tuple[Any, Any], largest: Any, values: Any) -> None:
    """Puts the singular values of a bidiagonal matrix that is not empty into `values`.

    Parameters
    ----------
    device : Device
        Where.
    diagonals : (array, array)
        The diagonal and its neighbour, shapes (n,) and (n - 1,).
    largest : array, shape (1,)
        A number that no entry exceeds by much, and that they do not stay far below.
    values : array, shape (n,)
        Where the values go, the largest first.
    """
    n = values.shape[0]
    d, e = diagonals[0], diagonals[1] if n > 1 else None
    kind = kl.f32 if values.dtype.itemsize == 4 else kl.f64
    q = device.empty((2, n), kind)
    squares[n, _WORKGROUP](d, e, largest, q)
    search, levels, workgroup = search_for(n, kind, device.capabilities)
    table = device.empty((1 << levels,), search.integer)
    items = -(-(1 << levels) // search.values), -(-n // search.values) * search.team
    count_table[items[0], workgroup](q, table, SEARCH=search)
    bisect[items[1], workgroup](q, table, largest, values, SEARCH=search)


@lru_cache(maxsize=1024)
def search_for(n: int, kind: DType, can: Capabilities) -> tuple[Search, int, int]:
    """How n values are searched for: by a table of how many levels, in workgroups of how many.

    Across vector lanes where a work-item has a core to itself, and several vectors hide each
    other's divisions. Half the widest registers do as well, and PoCL 3.0 fails on comparisons of
    whole ones. Where work-items are many, the tree of the table has a leaf for each that the device
    holds, and what is left to do makes whole passes.

    Parameters
    ----------
    n : int
        How many.
    kind : DType
        Of the matrix.
    can : Capabilities
        Of the device.
    """
    bits, left = TREE_BITS[kind.short], _LEFT[kind.short]
    integer = kl.i32 if kind is kl.f32 else kl.i64
    levels = max(1, (n - 1).bit_length())
    if can.lone_work_items:
        lanes = min(can.vector_bytes, 32) // kind.itemsize
        return Search(bits, left, 1, lanes, _VECTORS, integer), levels, 1
    split = _levels_together(n, can)
    levels = max(levels, (can.compute_units * _LEAVES_PER_UNIT).bit_length() - 1)
    levels += (bits - left - levels) % split
    return Search(bits, left, split, 1, 1, integer), levels, _WORKGROUP


def _levels_together(n: int, can: Capabilities) -> int:
    """Levels of a pass: more of them take fewer passes, until units have no time for all nodes."""
    room = can.compute_units * _ITEMS_PER_UNIT
    return min(SPLITS, key=lambda split: max(1.0, n * team_of(split) / room) / split)
