"""Dense matrices reduced to banded form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import isqrt
from operator import index
from typing import Any, Final, SupportsIndex

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.base.magnitude import largest_magnitude, require_finite
from portable.linalg.base.operands import common_dtype
from portable.linalg.dense.kernels import clear, clear_below, load_dense, store_band
from portable.linalg.dense.panel_kernels import factor_panel
from portable.linalg.dense.reflector_kernels import apply_reflectors
from portable.linalg.dense.reflector_tree import Level, Panel, Reflectors, level_sizes
from portable.linalg.dense.shapes import DenseShape, dense_shape, tuned
from portable.namespace import device_of_arrays
from portable.tune.fallback import first_accepted
from portable.typing import ArrayT

Progress = Callable[[float], None]
"""Is told which part of the work is done, from 0 to 1."""

SCALED_TO: Final = 20
"""The exponent that the largest element is scaled to: nothing overflows when squared and summed."""

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_TILE: Final = (32, 8)
_LINE: Final = 64
_TALL: Final = 5 / 3
_REPORTS: Final = 100


@takes_other_libraries
def dense_to_band(a: ArrayT, bandwidth: int, *, check_finite: bool = True) -> ArrayT:
    """An upper banded matrix with the singular values of a dense one.

    Parameters
    ----------
    a : array, shape (m, n)
        ``float16``, ``float32`` or ``float64``, any strides; it is not changed. If m < n its
        transpose is reduced.
    bandwidth : int
        Superdiagonals of the result, at least 1.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device.

    Returns
    -------
    array, shape (bandwidth + 1, min(m, n))
        The upper band in SciPy's diagonal-ordered form, ``ab[bandwidth + i - j, j] == B[i, j]``,
        zeros where no element is, on the device of `a`; ``float32`` for ``float16``.

    Raises
    ------
    ShapeError
        Unless `a` has two dimensions.
    DTypeError
        For other dtypes.
    ValueError
        For a bandwidth below 1, NaN or infinities.

    Notes
    -----
    Panels of rows and columns are eliminated in turn by Householder reflectors, QR and LQ, as in B.
    Grosser and B. Lang, "Efficient parallel reduction to bidiagonal form", Parallel Computing 25
    (1999), each panel in a tree of workgroups: J. Demmel, L. Grigori, M. Hoemmen, J. Langou,
    "Communication-optimal parallel and sequential QR and LU factorizations", SIAM J. Sci. Comput.
    34 (2012). A matrix more than 5/3 as tall as wide is made triangular first (T. Chan, ACM TOMS 8
    (1982)). The matrix is scaled by a power of two. Half precision is computed and kept in single.

    One copy of the matrix is made, and O(m panel) more. For order n and panels of p there are ``8
    n^3 / 3`` operations, and ``2 n^3 / (3 p)`` elements are read and as many written: at p = 32 in
    single precision 64 operations for each 8 bytes, so that a GPU's memory and its arithmetic are
    about equally busy. Small matrices take the time of ``2 n / p`` panels, each a chain of p
    reflectors for each level of its tree.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> ab = portable.linalg.dense_to_band(np.diag([3.0, 2.0, 1.0]), 1)
    >>> ab.shape
    (2, 3)
    """
    device = device_of_arrays(a)
    kind = common_dtype("dense_to_band", _DTYPES, a=a).register
    if a.ndim != 2:
        raise ShapeError(f"dense_to_band takes a matrix (m, n), not shape {tuple(a.shape)}")
    if not isinstance(bandwidth, SupportsIndex):
        raise TypeError(f"bandwidth={bandwidth!r}; dense_to_band takes an integer from 1 on")
    bandwidth = index(bandwidth)
    if bandwidth < 1:
        raise ValueError(
            f"bandwidth={bandwidth}: a dense matrix cannot be reduced in finitely many steps to "
            "fewer than one superdiagonal"
        )
    n = int(min(a.shape))
    if n == 0:
        return device.empty((bandwidth + 1, 0), kind)  # type: ignore[no-any-return]
    largest = largest_magnitude(device, a)
    if check_finite:
        require_finite(device, largest, "dense_to_band")
    can = device.capabilities
    return first_accepted(  # type: ignore[no-any-return]
        tuned(kind, n, can),
        lambda choice: reduced(
            device, a, largest, bandwidth, dense_shape(choice, bandwidth, kind, can)
        ),
    )


def reduced(
    device: Device,
    a: Any,
    largest: Any,
    bandwidth: int,
    shape: DenseShape,
    *,
    scales: Any = None,
    progress: Progress | None = None,
) -> Any:
    """The band of a matrix that is not empty.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (m, n)
        The matrix; it is not changed.
    largest : array, shape (1,)
        Its largest magnitude.
    bandwidth : int
        Superdiagonals of the result.
    shape : DenseShape
        The layout.
    scales : array, shape (2,), optional
        Where to put what the largest element was scaled to, and a bound of the singular values
        then. Given these, the band is not scaled back.
    progress : callable, optional
        Is told which part of the work is done.

    Returns
    -------
    array, shape (bandwidth + 1, min(m, n))
        In diagonal-ordered form.
    """
    m, n = (int(x) for x in (max(a.shape), min(a.shape)))
    kind = dtype(largest.dtype)
    room = shape.room(m, n)
    work = device.empty(room, kind)
    turned = a.shape[0] < a.shape[1]
    load_dense[room[::-1], _TILE](a, largest, work, None, None, TARGET=SCALED_TO, TURNED=turned)
    sweep = Sweep(device, work, (m, n), bandwidth, shape)
    if m > _TALL * n:
        for k in range(0, n, shape.panel):
            sweep.eliminate(_Panel(k, k, min(shape.panel, n - k), turned=False))
        room = shape.room(n, n)
        sweep.matrix, sweep.extents = work[: room[0]], (n, n)
        clear_below[room[::-1], _TILE](sweep.matrix)
    report = _Reporter(device, n, progress)
    for panel in _panels(sweep.extents[0], n, bandwidth, shape.panel):
        sweep.eliminate(panel)
        report(panel)
    ab = device.empty((bandwidth + 1, n), kind)
    bound = 2.0 ** (SCALED_TO + 1 + (isqrt(m * n) + 1).bit_length())
    work = sweep.matrix
    store_band[(n, bandwidth + 1), _TILE](work, largest, ab, scales, bound, TARGET=SCALED_TO)
    return ab


def symmetric_band(
    device: Device, work: Any, n: int, bandwidth: int, shape: DenseShape, *, keep: bool = False
) -> Sweep:
    """Leaves of a symmetric matrix a band, of which the lower triangle is to be read.

    Parameters
    ----------
    device : Device
        Where.
    work : array, shape shape.room(n, n)
        The matrix, which is overwritten, with zeros around it.
    n : int
        Its order, a multiple of the bandwidth.
    bandwidth : int
        Diagonals to be left below the main one, a multiple of the panels.
    shape : DenseShape
        The layout.
    keep : bool
        Whether reflectors are wanted.
    """
    sweep = Sweep(device, work, (n, n), bandwidth, shape, keep=keep)
    for k in range(0, n - bandwidth, shape.panel):
        sweep.eliminate_both(_Panel(k + bandwidth, k, shape.panel, turned=False))
    return sweep


@dataclass(frozen=True, slots=True)
class _Panel:
    """Where a panel begins, how wide it is, and whether it is one of rows, seen `turned`."""

    row: int
    column: int
    width: int
    turned: bool


def _panels(m: int, n: int, bandwidth: int, widest: int) -> Iterator[_Panel]:
    """The panels of a reduction in order: for each `bandwidth` columns below and right of them."""
    for k in range(0, n, bandwidth):
        for start in range(k, min(k + bandwidth, n, m - 1), widest):
            yield _Panel(start, start, min(widest, k + bandwidth - start, n - start), turned=False)
        for start in range(k, min(k + bandwidth, n - bandwidth), widest):
            width = min(widest, k + bandwidth - start, n - start)
            yield _Panel(start + bandwidth, start, width, turned=True)


def upper_band(
    device: Device, work: Any, extents: tuple[int, int], bandwidth: int, shape: DenseShape
) -> Sweep:
    """Leaves of a matrix an upper band, and keeps reflectors.

    Parameters
    ----------
    device : Device
        Where.
    work : array, shape shape.room(m, n)
        The matrix, which is overwritten, with zeros around it.
    extents : (int, int)
        Its rows and columns, of which there are no more.
    bandwidth : int
        Superdiagonals to be left.
    shape : DenseShape
        The layout.
    """
    sweep = Sweep(device, work, extents, bandwidth, shape, keep=True)
    for panel in _panels(*extents, bandwidth, shape.panel):
        sweep.eliminate(panel)
    return sweep


class Sweep:
    """A matrix on its way to a band, and the working storage of its panels.

    Parameters
    ----------
    device : Device
        Where.
    matrix : array
        Is overwritten; as large as the layout asks for, zeros around the matrix.
    extents : (int, int)
        Rows and columns of the matrix itself.
    bandwidth : int
        Superdiagonals to be.
    shape : DenseShape
        The layout.
    keep : bool
        Whether the reflectors of all panels are kept.
    """

    def __init__(
        self,
        device: Device,
        matrix: Any,
        extents: tuple[int, int],
        bandwidth: int,
        shape: DenseShape,
        *,
        keep: bool = False,
    ) -> None:
        self.matrix = matrix
        self.extents = extents
        self._device = device
        self._shape = shape
        self._kept: list[tuple[_Panel, Reflectors]] | None = [] if keep else None
        # Only GPUs gain by aligned panels; each unit is a program of its own.
        self._unit = shape.panel if shape.lanes == 1 and bandwidth % shape.panel == 0 else 1
        nodes = sum(level_sizes(extents[0], shape.height, shape.fan))
        counts = _zeros(device, nodes * -(-extents[0] // shape.strip))
        self._reflectors = room_for_reflectors(device, nodes, dtype(matrix.dtype), shape, counts)

    def eliminate(self, panel: _Panel) -> None:
        """Factors a panel and applies its reflectors to what is beyond it."""
        lengths = self.extents[::-1] if panel.turned else self.extents
        rows = lengths[0] - panel.row
        others = lengths[1] - panel.column - panel.width
        if self._kept is not None:
            nodes = sum(level_sizes(rows, self._shape.height, self._shape.fan))
            counts, kind = self._reflectors.counts, dtype(self.matrix.dtype)
            self._reflectors = room_for_reflectors(self._device, nodes, kind, self._shape, counts)
            self._kept.append((panel, self._reflectors))
        for level in self._launches(rows):
            self._factor(panel, level)
        if others > 0:
            for level in self._launches(rows):
                self._apply(panel, level, others)

    def eliminate_both(self, panel: _Panel) -> None:
        """Factors a panel of columns and applies its reflectors from the left and the right."""
        self.eliminate(panel)
        rows = self.extents[0] - panel.row
        beside = _Panel(panel.row, panel.row - panel.width, panel.width, turned=True)
        for level in self._launches(rows):
            self._apply(beside, level, rows)

    def lead_back(self, x: Any, columns: int, *, turned: bool) -> None:
        """Multiplies matrices with all reflectors of columns, or `turned` of rows.

        Parameters
        ----------
        x : array
            A matrix of so many rows as the reflectors have elements, with zeros around it.
        columns : int
            Its columns.
        turned : bool
            As said.
        """
        shape = replace(self._shape, climb=False)
        for panel, reflectors in reversed(self._kept or []):
            if panel.turned == turned:
                rows = self.extents[turned] - panel.row
                for level in reversed(self._levels(rows)):
                    apply_back(x, reflectors, (panel.row, self._unit), level, columns, shape)

    def _launches(self, rows: int) -> list[Level]:
        """The level of the tree that each launch begins with."""
        levels = self._levels(rows)
        return levels[:1] if self._shape.climb else levels

    def _levels(self, rows: int) -> list[Level]:
        levels, base, stride = [], 0, 1
        for count in level_sizes(rows, self._shape.height, self._shape.fan):
            levels.append(Level(base, count, stride))
            base, stride = base + count, stride * self._shape.fan
        return levels

    def _factor(self, panel: _Panel, level: Level) -> None:
        shape = self._shape
        factor_panel[groups(_rounded(level.nodes)), shape.items](
            self.matrix,
            self._reflectors,
            Panel(panel.row // self._unit, panel.column // self._unit, panel.width),
            level,
            SHAPE=shape,
            UNIT=self._unit,
            TURNED=panel.turned,
        )

    def _apply(self, panel: _Panel, level: Level, others: int) -> None:
        shape, strips = self._shape, -(-others // self._shape.strip)
        beyond = (panel.column + panel.width) // self._unit
        apply_reflectors[groups(_rounded(level.nodes * strips)), shape.workgroup](
            self.matrix,
            self._reflectors,
            Panel(panel.row // self._unit, beyond, panel.width),
            level,
            strips,
            SHAPE=shape,
            UNIT=self._unit,
            SIDE="turned" if panel.turned else "plain",
        )


def room_for_reflectors(
    device: Device, nodes: int, kind: DType, shape: DenseShape, counts: Any
) -> Reflectors:
    """Arrays for the reflectors of so many nodes.

    Parameters
    ----------
    device, nodes, kind, shape
        Where, of how many nodes, what is computed in, and the layout.
    counts : array of i32
        Their counters.
    """
    return Reflectors(
        device.empty((nodes * shape.height, shape.panel), kind),
        device.empty((nodes, shape.panel, shape.panel), kind),
        counts,
    )


def apply_back(
    x: Any,
    reflectors: Reflectors,
    begin: tuple[int, int],
    level: Level,
    columns: int,
    shape: DenseShape,
) -> None:
    """Multiplies a matrix with the reflectors of nodes that are independent of each other.

    Parameters
    ----------
    x : array
        The matrix.
    reflectors : Reflectors
        Of the nodes.
    begin : (int, int)
        The row in which the first node begins, and what it is known to be a multiple of.
    level : Level
        The nodes.
    columns : int
        Of the matrix.
    shape : DenseShape
        The layout, in which nobody climbs.
    """
    strips, (row, unit) = -(-columns // shape.strip), begin
    apply_reflectors[groups(_rounded(level.nodes * strips)), shape.workgroup](
        x, reflectors, Panel(row // unit, 0, 0), level, strips, SHAPE=shape, UNIT=unit, SIDE="back"
    )


def _rounded(count: int) -> int:
    """A little more: launches are planned once per number of workgroups, so let there be few."""
    coarse = max(count.bit_length() - 4, 0)
    return (count + (1 << coarse) - 1) >> coarse << coarse


def _zeros(device: Device, count: int) -> Any:
    """Counters that stand at zero."""
    counts = device.empty((count,), kl.i32)
    clear[count, _LINE](counts)
    return counts


class _Reporter:
    """Tells `progress` now and then, having waited for the device: the share of operations."""

    def __init__(self, device: Device, n: int, progress: Progress | None) -> None:
        self._device = device
        self._n = n
        self._progress = progress
        self._told = 0.0

    def __call__(self, panel: _Panel) -> None:
        if self._progress is None:
            return
        done = 1 - (1 - (panel.column + panel.width) / self._n) ** 3
        if done >= self._told + 1 / _REPORTS or done == 1:
            self._device.synchronize()
            self._progress(done)
            self._told = done
