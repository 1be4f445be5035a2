"""Symmetric matrices reduced to bands by panels of reflectors, and vectors led back from there.

A panel has as many columns as the band will have below its diagonal. Its reflectors ``Q = I - V T
V^T`` change what is left of the matrix from both sides, by one product with it and one change of
twice the panel's rank (C. Bischof, B. Lang, X. Sun, "A framework for symmetric band reduction", ACM
TOMS 26 (2000)):

    Q^T A Q = A - Z V^T - V Z^T,  Z = P T - V T^T (V^T P) T / 2,  P = A V

The next panel's columns are changed first, so that it is factored beside the others' change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups
from portable.linalg.base.tiling import Tiling
from portable.linalg.factorisations.matrices import moved, turned, workspace
from portable.linalg.factorisations.reflectors import Triangularisation
from portable.linalg.products.gemm import gemm
from portable.linalg.products.kernels import Epilogue, Place, Reader, keep
from portable.linalg.products.mainloop import multiply, room
from portable.linalg.products.repeats import at_once, cached_plan, is_kept, repeated

_ROWS: Final = 32
_ITEMS: Final = 256
_EACH: Final = 4
"""Rows of a workgroup that makes Z, its work-items, and columns of Z that each makes of a row."""

_AHEAD: Final = 16
_PADDING: Final = 4
"""Terms of its sums that are loaded together, and elements between rows in local memory."""

_EDGE: Final = 64
_DEPTH: Final = 16
_STAGES: Final = 3
"""Rows of squares that a symmetric change is made in, and of the slots for what is multiplied."""


@dataclass(frozen=True)
class SymmetricPanels:
    """A symmetric matrix on its way to a band, and the reflectors that lead there.

    Attributes
    ----------
    device : Device
        Where.
    whole : array, shape (1, n, n)
        The matrix, then its lower band, whose columns lie together; n is a multiple of the band's
        width, and twice that at least.
    triangle : Triangularisation
        Of the matrix without its first rows, which makes the reflectors.
    width : int
        Columns of a panel, and of the band below the diagonal.
    lines : four arrays
        P transposed, ``V^T P``, ``[Z V]`` and ``[V Z]`` transposed.
    tiling : (Tiling, int)
        Squares of the matrix, and the work-items that change one.
    """

    device: Device
    whole: Any
    triangle: Triangularisation
    width: int
    lines: tuple[Any, Any, Any, Any]
    tiling: tuple[Tiling, int]

    @staticmethod
    def of(device: Device, n: int, width: int, kind: DType) -> SymmetricPanels:
        """Room for matrices of an order."""
        whole, rows = turned(workspace(device, 1, n, n, kind)), n - width
        triangle = Triangularisation.of(
            device, (1, rows, n), kind, work=whole[:, width:], widest=width
        )
        extents = (width, rows), (width, width), (rows, 2 * width), (2 * width, rows)
        lines = tuple(workspace(device, 1, *x, kind)[0] for x in extents)
        tiling = _squares(kind, device.capabilities)
        return SymmetricPanels(device, whole, triangle, width, lines, tiling)

    def run(self) -> None:
        """Reduces the matrix."""
        triangle, width, n = self.triangle, self.width, int(self.whole.shape[1])
        triangle.begin()
        triangle.reflect(0, width)
        for first in range(0, n - width, width):
            stop, following = first + width, first + 2 * width
            at_once(
                self.device,
                partial(self._multiply, first),
                partial(triangle.factor, first, stop),
            )
            self._make_lines(first)
            if following < n:  # the panel first: its workgroups need whole compute units
                at_once(
                    self.device,
                    partial(triangle.reflect, stop, following),
                    partial(self._change_rest, first),
                )

    def _vectors(self, first: int) -> Any:
        """V of a panel."""
        return self.triangle.reflectors.v[0, first:, first : first + self.width]

    def _multiply(self, first: int) -> None:
        """``P = A V``; of the matrix rows are read, which are its columns."""
        rest = turned(self.triangle.work[0, first:, first + self.width :])
        gemm(turned(self._vectors(first)), rest, out=self.lines[0][:, : int(rest.shape[0])])

    def _make_lines(self, first: int) -> None:
        """Z of a panel, from both sides of which the matrix is changed, the next panel at once."""
        v, width = self._vectors(first), self.width
        rows, corner = int(v.shape[0]), first % self.triangle.reflectors.wide
        products, middle, left, right = self.lines
        gemm(turned(v), turned(products[:, :rows]), out=middle)
        t = self.triangle.reflectors.t[0, first : first + width, corner : corner + width]
        c = turned(self.triangle.work[0, first:, first + width : first + 2 * width])
        can = self.device.capabilities
        items = 1 if can.single_work_items else min(_ITEMS, can.max_workgroup)
        make_lines[groups(-(-rows // _ROWS)), items](
            v, products, t, middle, c, left, right, WIDTH=width, EACH=min(_EACH, width)
        )

    def _change_rest(self, first: int) -> None:
        """Takes ``Z V^T + V Z^T`` off what is behind the next panel's columns.

        Rows above are not read any more.
        """
        width, (_, _, left, right) = self.width, self.lines
        c = turned(self.triangle.work[0, first + width :, first + 2 * width :])
        n, (tiling, items) = int(c.shape[0]), self.tiling
        half = -(-n // (2 * tiling.rows))
        change_both_sides[groups(2 * half + 1, half), items](
            left[width : width + n], right[:, width : width + n], c, TILING=tiling
        )

    def join(self) -> None:
        """Makes blocks of panels, by which vectors are led back."""
        reflectors = self.triangle.reflectors
        count = int(reflectors.v.shape[2])
        for first in range(0, count, reflectors.wide):
            stop = min(first + reflectors.wide, count)
            self.triangle.join(first, stop)
            reflectors.join(first, stop)

    def lead_back(self, x: Any, out: Any) -> None:
        """Multiplies vectors with all reflectors.

        Parameters
        ----------
        x : array, shape (1, n or more, columns)
            The vectors as columns, zeros where the matrix has none.
        out : array, shape (1, n or fewer, columns)
            Where they go.
        """
        n, (rows, columns) = int(self.whole.shape[1]), (int(size) for size in out.shape[1:])
        c = turned(workspace(self.device, 1, columns, n, self.triangle.reflectors.kind))
        moved(self.device, x[:, :n, :columns], c)
        self.triangle.reflectors.apply(c[:, self.width :], adjoint=False)
        moved(self.device, c[:, :rows], out)


def _squares(kind: DType, can: Capabilities) -> tuple[Tiling, int]:
    """Squares as large as local memory has room for, and the work-items that change one."""
    edge, most = _EDGE, can.local_memory_most // kind.itemsize
    while edge > 8 and edge * (5 * _DEPTH * _STAGES // 2 + edge + 1) > most:
        edge //= 2
    items = 1 if can.single_work_items else min(2 * edge, can.max_workgroup)
    return Tiling(edge, edge, _DEPTH, _STAGES, units=True), items


class _Plan(NamedTuple):
    """What reduces matrices of an order, and enqueues that, and what vectors ask for then."""

    panels: SymmetricPanels
    run: Callable[[], object]
    join: Callable[[], object]


def symmetric_panels(device: Device, n: int, width: int, kind: DType) -> _Plan:
    """What reduces symmetric matrices to bands, and its arrays, which a later call overwrites.

    Parameters
    ----------
    device : Device
        Where.
    n : int
        The order.
    width : int
        Columns of the bands below the diagonal, a power of two.
    kind : DType
        Of the elements.
    """
    rows = max(-(-n // width), 2) * width
    size = 3 * rows * rows * kind.itemsize

    def made() -> _Plan:
        panels = SymmetricPanels.of(device, rows, width, kind)
        if not is_kept(device, size):
            return _Plan(panels, panels.run, panels.join)
        return _Plan(panels, repeated(device, panels.run), repeated(device, panels.join))

    return cached_plan(device, ("symmetric panels", rows, width, kind), made, size)


@kernel
def make_lines(
    v: kl.Array,
    products: kl.Array,
    t: kl.Array,
    middle: kl.Array,
    c: kl.Array,
    left: kl.Array,
    right: kl.Array,
    *,
    WIDTH: int,
    EACH: int,
) -> None:
    """``Z = P T - V T^T (V^T P) T / 2`` beside V, and what they change of the next panel.

    A workgroup has some rows of them, and makes the first ones of Z too, which stand for the
    panel's columns.

    Parameters
    ----------
    v : array, shape (rows, WIDTH)
        V.
    products : array, shape (WIDTH, rows or more)
        P transposed.
    t, middle : array, shape (WIDTH, WIDTH)
        T, and ``V^T P``.
    c : array, shape (WIDTH, rows)
        The columns of the next panel, transposed, from which ``Z V^T + V Z^T`` is taken.
    left : array, shape (rows, 2 WIDTH)
        Becomes ``[Z V]``.
    right : array, shape (2 WIDTH, rows)
        Becomes ``[V Z]`` transposed.
    WIDTH, EACH : int
        Columns of a panel, and of a row that a work-item makes.
    """
    kind, zero, SHARES = v.dtype, kl.cast(0, v.dtype), WIDTH // EACH
    factor, square, half, top = [kl.local((WIDTH, WIDTH + _PADDING), kind) for _ in range(4)]
    lines = kl.local((_ROWS, WIDTH + 1), kind)
    for entry in kl.workgroup_range(WIDTH * WIDTH):
        i, j = entry // WIDTH, entry % WIDTH
        factor[i, j] = kl.where(i <= j, t[i, j], zero)
        square[i, j] = middle[i, j]
        top[j, i] = v[i, j]
    kl.barrier()
    make_correction(square, factor, half, WIDTH, EACH)
    head = half
    for entry in kl.workgroup_range(WIDTH * SHARES):
        row, j = entry % WIDTH, entry // WIDTH * EACH
        sums = row_of_products(products.T, factor, v, square, (row, row, j), EACH)
        for share in kl.static_range(EACH):
            head[j + share, row] = sums[share]
    first = kl.group_id(0) * _ROWS
    for entry in kl.workgroup_range(_ROWS * SHARES):
        i, j = entry % _ROWS, entry // _ROWS * EACH
        row = first + i
        if row < v.shape[0]:
            sums = row_of_products(products.T, factor, v, square, (row, row, j), EACH)
            for share in kl.static_range(EACH):
                vector = v[row, j + share]
                lines[i, j + share] = sums[share]
                left[row, j + share], left[row, WIDTH + j + share] = sums[share], vector
                right[j + share, row], right[WIDTH + j + share, row] = vector, sums[share]
    kl.barrier()
    for entry in kl.workgroup_range(_ROWS * SHARES):
        i, j = entry % _ROWS, entry // _ROWS * EACH
        row = first + i
        if row < v.shape[0]:
            sums = row_of_products(lines, top, v, head, (i, row, j), EACH)
            for share in kl.static_range(EACH):
                c[j + share, row] = c[j + share, row] - sums[share]


@function
def make_correction(
    square: kl.Array, factor: kl.Array, half: kl.Array, WIDTH: int, EACH: int
) -> None:
    """``-T^T (V^T P) T / 2`` in the place of ``V^T P``, `factor` being T, and `half` room."""
    SHARES = WIDTH // EACH
    for entry in kl.workgroup_range(WIDTH * SHARES):
        i, j = entry // SHARES, entry % SHARES * EACH
        sums = kl.private(EACH, square.dtype, fill=0)
        for k in kl.range(WIDTH, unroll=8):
            add_row(sums, square[i, k], factor, (k, j), EACH)
        for share in kl.static_range(EACH):
            half[i, j + share] = sums[share] * -0.5
    kl.barrier()
    for entry in kl.workgroup_range(WIDTH * SHARES):
        i, j = entry // SHARES, entry % SHARES * EACH
        sums = kl.private(EACH, square.dtype, fill=0)
        for k in kl.range(WIDTH, unroll=8):
            add_row(sums, factor[k, i], half, (k, j), EACH)
        for share in kl.static_range(EACH):
            square[i, j + share] = sums[share]
    kl.barrier()


@function
def row_of_products(
    x: kl.Array, by: kl.Array, y: kl.Array, other: kl.Array, at: tuple[Any, ...], EACH: int
) -> Any:
    """Elements of a row of ``x @ by + y @ other``; `at` is the rows of x and y, and a column."""
    (i, row, column), WIDTH = at, by.shape[0]
    sums = kl.private(EACH, by.dtype, fill=0)
    for k in kl.range(WIDTH, unroll=_AHEAD):
        add_row(sums, x[i, k], by, (k, column), EACH)
        add_row(sums, y[row, k], other, (k, column), EACH)
    return sums


@function
def add_row(sums: kl.Array, by: kl.Scalar, rows: kl.Array, at: tuple[Any, ...], EACH: int) -> None:
    """Adds so many elements of a row, times a number."""
    row, column = at
    for share in kl.static_range(EACH):
        sums[share] = sums[share] + by * rows[row, column + share]


@kernel
def change_both_sides(left: kl.Array, right: kl.Array, c: kl.Array, *, TILING: Tiling) -> None:
    """Takes ``left @ right``, which is symmetric, off the symmetric `c`.

    A workgroup makes a square on or below the diagonal, and stores it on both sides. Of an even
    number of rows of squares those of the lower half are dimension 1; what is right of the diagonal
    there stands for the rows of the upper half, the last one beside the first.

    Parameters
    ----------
    left : array, shape (n, k)
    right : array, shape (k, n)
    c : array, shape (n, n)
    TILING : Tiling
        The squares.
    """
    EDGE, kind, n, half = TILING.rows, c.dtype, c.shape[0], kl.num_groups(1)
    lower, across = kl.group_id(1) + half, kl.group_id(0)
    is_lower = across <= lower
    row = kl.where(is_lower, lower, 2 * half - 1 - lower) * EDGE
    column = kl.where(is_lower, across, across - lower - 1) * EDGE
    if row < n:
        tiles, acc = room((left, right), kind, TILING)
        square = Place(0, row, column, 0)
        reader = Reader(left, right, square, (n, n, left.shape[1]), TILING.depth)
        multiply(acc, tiles, reader, (0, kl.cdiv(left.shape[1], TILING.depth)), TILING)
        Epilogue((-1, 1, c, None), c, keep).store(acc, c, square, TILING)
        if row > column:
            if kind == kl.f64:  # of which matrix units hold whole sectors of columns
                acc.store(c.T[row : row + EDGE, column : column + EDGE])
            else:
                mirrored = kl.local((EDGE, EDGE + 1), kind)
                for i, j, value in kl.elements(acc):
                    mirrored[j, i] = value
                kl.barrier()
                for entry in kl.workgroup_range(EDGE * EDGE):
                    i, j = column + entry // EDGE, row + entry % EDGE
                    if j < n:
                        c[i, j] = mirrored[entry // EDGE, entry % EDGE]
