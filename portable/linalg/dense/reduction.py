"""Dense matrices reduced to banded form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import isqrt
from operator import index
from typing import Any, Final, SupportsIndex

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.magnitude import largest_magnitude, require_finite
from portable.linalg.base.operands import common_dtype
from portable.linalg.dense.kernels import clear, clear_below, load_dense, store_band
from portable.linalg.dense.panel_kernels import factor_panel
from portable.linalg.dense.reflector_tree import Level, Node, Panel, Reflectors, level_sizes
from portable.linalg.dense.shapes import DenseShape, dense_shape, tuned
from portable.linalg.products.repeats import at_once
from portable.linalg.reflectors.vector_reflectors import combine_single
from portable.namespace import device_of_arrays
from portable.tune.table import first_accepted
from portable.typing import ArrayT

# The kernel that applies the reflectors of a panel to what is right of it (or, turned, below).


@kernel
def apply_reflectors(
    a: kl.Array,
    q: Reflectors,
    panel: Panel,
    level: Level,
    strips: kl.Scalar,
    *,
    SHAPE: DenseShape,
    UNIT: int,
    TRANSPOSED: bool,
) -> None:
    """``Q^T A`` (`TRANSPOSED`: ``A Q``) for the Q of a tree, `STRIP` columns (rows) to a workgroup.

    A workgroup reads its block of the matrix once, into local memory, and writes it once. The last
    one to arrive among a node's children goes on with it, unless each level is a launch.
    Local memory: ``FAN P (STRIP + P + PAD) + P (STRIP + P)`` elements.
    """
    strip = kl.group_id(0) % strips
    row, start = panel.row * UNIT, panel.column * UNIT + strip * SHAPE.strip
    node = Node(kl.group_id(0) // strips, level)
    going = node.number < level.nodes
    while going:
        if SHAPE.lanes > 1:
            combine_single(a, q, (row, start), node, SHAPE, TRANSPOSED)
        else:
            combine(a, q, (row, start), node, SHAPE, TRANSPOSED)
        node, going = node.climbed(q.counts, strip, strips, SHAPE)


@function
def block_of(
    a: kl.Array, at: kl.Scalar, start: kl.Scalar, SHAPE: DenseShape, TRANSPOSED: bool
) -> Any:
    """The rows of the matrix from `at` on in a strip; its columns where it is turned."""
    P, STRIP = SHAPE.panel, SHAPE.strip
    if TRANSPOSED:
        return a[start : start + STRIP, at : at + P]
    return a[at : at + P, start : start + STRIP]


@function
def add_product(total: Any, left: kl.Array, right: kl.Array, TRANSPOSED: bool) -> None:
    """``total += left @ right``; `TRANSPOSED` where `total` and `right` stand transposed."""
    if TRANSPOSED:
        kl.mma(total, right, left.T)
    else:
        kl.mma(total, left, right)


@function
def combine(
    a: kl.Array,
    q: Reflectors,
    column: tuple[kl.Scalar, ...],
    node: Node,
    SHAPE: DenseShape,
    TRANSPOSED: bool,
) -> None:
    """``A -= V (T^T (V^T A))`` for the rows of a node and the columns of a strip.

    `TRANSPOSED`: ``A -= ((A V) T) V^T`` for the columns of a node and the rows of a strip. `column`
    is where the tree and the strip begin.
    """
    P, FAN, PAD, kind = SHAPE.panel, SHAPE.fan, SHAPE.padding, a.dtype
    HEIGHT, WIDTH = (SHAPE.strip, P) if TRANSPOSED else (P, SHAPE.strip)
    PITCH = WIDTH + PAD if TRANSPOSED else WIDTH
    row, start = column
    blocks = kl.local((FAN, HEIGHT, PITCH), kind)
    reflectors = kl.local((FAN, P, P + PAD), kind)
    factor = kl.local((P, P), kind)
    room = kl.local((HEIGHT, PITCH), kind)
    product = room[0:HEIGHT, 0:WIDTH]
    chunks = node.chunks((a.shape[1] if TRANSPOSED else a.shape[0]) - row, SHAPE)
    first = node.index * SHAPE.height
    kl.copy_async(factor, q.t[node.index, 0:P, 0:P])
    for chunk in range(chunks):
        block = block_of(a, row + node.line(chunk, SHAPE), start, SHAPE, TRANSPOSED)
        kl.copy_async(blocks[chunk, 0:HEIGHT, 0:WIDTH], block)
        from_row = first + chunk * P
        kl.copy_async(reflectors[chunk, 0:P, 0:P], q.v[from_row : from_row + P, 0:P])
    kl.copy_commit()
    kl.copy_wait(0)
    kl.barrier()
    total = kl.matrix((HEIGHT, WIDTH), kind)
    total.fill(0)
    for chunk in range(chunks):
        block = blocks[chunk, 0:HEIGHT, 0:WIDTH]
        add_product(total, reflectors[chunk, 0:P, 0:P].T, block, TRANSPOSED)
    for i, j, value in kl.elements(total):
        product[i, j] = value
    kl.barrier()
    total.fill(0)
    add_product(total, factor, product, TRANSPOSED)
    kl.barrier()
    for i, j, value in kl.elements(total):
        product[i, j] = -value
    kl.barrier()
    for chunk in range(chunks):
        total.load(blocks[chunk, 0:HEIGHT, 0:WIDTH])
        add_product(total, reflectors[chunk, 0:P, 0:P], product, TRANSPOSED)
        total.store(block_of(a, row + node.line(chunk, SHAPE), start, SHAPE, TRANSPOSED))


# -- reduction -------------------------------------------------------------------------------------

Progress = Callable[[float], None]
"""Called with the part of the work that is done, from 0 to 1."""

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
        Called with the part of the work that is done.

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
    load_dense[room[::-1], _TILE](a, largest, work, TARGET=SCALED_TO, TRANSPOSED=turned)
    sweep = Sweep(device, work, (m, n), bandwidth, shape)
    if m > _TALL * n:
        for k in range(0, n, shape.panel):
            sweep.eliminate(_Panel(k, k, min(shape.panel, n - k), turned=False))
        room = shape.room(n, n)
        work = work[: room[0]]
        sweep = Sweep(device, work, (n, n), bandwidth, shape)
        clear_below[room[::-1], _TILE](work)
    sweep.run(_Reporter(device, n, progress))
    ab = device.empty((bandwidth + 1, n), kind)
    bound = 2.0 ** (SCALED_TO + 1 + (isqrt(m * n) + 1).bit_length())
    store_band[(n, bandwidth + 1), _TILE](work, largest, ab, scales, bound, TARGET=SCALED_TO)
    return ab


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


def begin_of_further(extent: int, shape: DenseShape) -> int:
    """Where begins what is multiplied with reflectors beside so many rows or columns.

    Parameters
    ----------
    extent : int
        As said.
    shape : DenseShape
        The layout.
    """
    return -(-extent // shape.panel) * shape.panel + shape.beyond


class Sweep:
    """A matrix on its way to a band, and the working storage of its panels.

    What stands right of the matrix or below it is multiplied with all reflectors too: an identity
    on the right becomes ``Q^T``, one below P, where the band is ``Q^T A P``. That is done while the
    next panel is factored, whose few workgroups leave most of a device idle.

    Parameters
    ----------
    device : Device
        Where.
    matrix : array
        Is overwritten; as large as the layout asks for, zeros around the matrix up to what else is
        multiplied, see `begin_of_further`.
    extents : (int, int)
        Rows and columns of the matrix itself.
    bandwidth : int
        Superdiagonals to be.
    shape : DenseShape
        The layout.
    further : (int, int)
        Rows below, and columns on the right, that are multiplied too.
    """

    def __init__(
        self,
        device: Device,
        matrix: Any,
        extents: tuple[int, int],
        bandwidth: int,
        shape: DenseShape,
        *,
        further: tuple[int, int] = (0, 0),
    ) -> None:
        rows, columns = (x + shape.beyond for x in extents)
        self._device, self._further = device, further
        self._views = matrix[:rows, :columns], matrix[:rows, :columns]
        self._whole = matrix[:rows], matrix[:, :columns]
        self._extents, self._bandwidth = extents, bandwidth
        self._shape = shape
        # Only GPUs gain by aligned panels; each unit is a program of its own.
        self._unit = shape.panel if shape.lanes == 1 and bandwidth % shape.panel == 0 else 1
        ends = [x + begin_of_further(n, shape) for n, x in zip(extents, further, strict=True)]
        nodes = sum(level_sizes(extents[0], shape.height, shape.fan))
        rooms = [
            Reflectors(
                device.empty((nodes * shape.height, shape.panel), dtype(matrix.dtype)),
                device.empty((nodes, shape.panel, shape.panel), dtype(matrix.dtype)),
                _zeros(device, nodes * -(-max(*ends, *extents) // shape.strip)),
            )
            for _ in range(2 if any(further) else 1)
        ]
        self._reflectors, self._others = rooms[0], rooms[-1]
        self._later: Callable[[], None] = _nothing

    def run(self, report: Callable[[_Panel], None] = lambda panel: None) -> None:
        """Leaves an upper band, and calls `report` after each panel."""
        for panel in _panels(*self._extents, self._bandwidth, self._shape.panel):
            self.eliminate(panel)
            report(panel)
        self._later()

    def eliminate(self, panel: _Panel) -> None:
        """Factors a panel and applies its reflectors to what is beyond it."""
        rows = self._extents[panel.turned] - panel.row
        later, self._later = self._later, _nothing
        self._reflectors, self._others = self._others, self._reflectors
        if later is _nothing:
            self._factor(panel, rows)
        else:
            at_once(self._device, partial(self._factor, panel, rows), later)
        self._apply_all(panel, rows)

    def _apply_all(self, panel: _Panel, rows: int) -> None:
        """Applies a panel's reflectors, of so many rows, to what is beyond it, and more later."""
        across, unit, first = not panel.turned, self._unit, self._beyond(panel)
        apply = partial(self._apply, self._reflectors, panel, rows)
        apply(self._views[panel.turned], first, self._extents[across] - first * unit)
        if more := self._further[across]:
            first = begin_of_further(self._extents[across], self._shape) // unit
            self._later = partial(apply, self._whole[panel.turned], first, more)

    def _beyond(self, panel: _Panel) -> int:
        """Where the columns right of a panel begin, in units, of which it may fill a part."""
        return -(-(panel.column + panel.width) // self._unit)

    def _launches(self, rows: int) -> list[Level]:
        """The level of the tree that each launch begins with."""
        levels, base, stride = [], 0, 1
        for count in level_sizes(rows, self._shape.height, self._shape.fan):
            levels.append(Level(base, count, stride))
            base, stride = base + count, stride * self._shape.fan
        return levels[:1] if self._shape.climb else levels

    def _factor(self, panel: _Panel, rows: int) -> None:
        shape = self._shape
        for level in self._launches(rows):
            factor_panel[groups(_rounded(level.nodes)), shape.items](
                self._views[panel.turned],
                self._reflectors,
                Panel(panel.row // self._unit, panel.column // self._unit, panel.width),
                level,
                SHAPE=shape,
                UNIT=self._unit,
                TRANSPOSED=panel.turned,
            )

    def _apply(
        self, q: Reflectors, panel: _Panel, rows: int, view: Any, first: int, others: int
    ) -> None:
        """To so many columns (rows) of a view from the first on, which is counted in units."""
        shape, strips = self._shape, -(-others // self._shape.strip)
        for level in self._launches(rows) if others > 0 else ():
            apply_reflectors[groups(_rounded(level.nodes * strips)), shape.workgroup](
                view,
                q,
                Panel(panel.row // self._unit, first, panel.width),
                level,
                strips,
                SHAPE=shape,
                UNIT=self._unit,
                TRANSPOSED=panel.turned,
            )


def _nothing() -> None:
    """What is left to be done after a panel that has nothing beside the matrix."""


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
