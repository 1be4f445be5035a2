"""Matrices reduced to tridiagonal and bidiagonal form with reflectors that are kept."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import clear
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    KeptReflectors,
    Scratch,
    bidiagonalize,
)
from portable.linalg.spectral.bidiagonal_kernels import (
    Bidiagonal,
    bidiagonalize_in_panels,
)
from portable.linalg.spectral.reduction_kernels import (
    Form,
    copy_columns,
    copy_rows,
    largest_of_each,
    largest_parts,
    load_scaled,
    real_bidiagonal,
    real_tridiagonal,
    unfold_complex,
)
from portable.linalg.spectral.reflections import BLOCK, whole_rows
from portable.linalg.spectral.step_kernels import StepShape
from portable.linalg.spectral.tridiagonal_kernels import (
    CHUNK,
    Tridiagonal,
    take_lines,
    tridiagonalize,
)
from portable.sim.launch import current

SCALED_TO: Final = 10
"""The exponent that the largest element is scaled to: nothing overflows when squared and summed."""

_CACHED: Final = 512 << 10
"""Bytes of a matrix up to which a core alone is faster than several that wait for each other."""

_CACHED_SYMMETRIC: Final = 20 << 20
"""The same of a symmetric one: a core alone takes a launch a panel, several take two a step."""

_ALONE: Final = 128
"""Columns up to which one workgroup makes all steps in no more time than launches take."""

_ROWS: Final = 4
_ROWS_OF_MANY: Final = 2
"""Rows that a team multiplies side by side, of work-items that are alone and of many."""

_SET: Final = 4096
"""Bytes in which rows begin at the same place of a cache, which holds a few of these alone."""

_TEAM: Final = 32
_ITEMS: Final = 512
_ROWS_OF_GROUP: Final = 32
_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_PARTS: Final = 1024
_PANEL: Final = 64
_PANEL_ALONE: Final = 32
"""Reflectors of a panel, where work-items are many and where they are alone."""

_SHAPES: Final = 4
"""How many shapes of products there are, each of which is planned by itself."""


class Reflectors(NamedTuple):
    """Real reflectors, as `reflect` takes them.

    Attributes
    ----------
    vectors : array, shape (count, reflectors, rows)
    factors : array, shape (count, reflectors)
    first : int
        The place of the first one's first element.
    phases : array or None
        What the rows of vectors are multiplied with before; of complex matrices.
    """

    vectors: Any
    factors: Any
    first: int
    phases: Any


class Reduced(NamedTuple):
    """Real diagonals of matrices in a form, and the reflectors that led there.

    Attributes
    ----------
    d, e : array, shape (count, n)
        The diagonal and what is beside it; the last element of `e` means nothing.
    columns, rows : Reflectors
        Those that lead back to eigenvectors or left singular vectors, and to right ones.
    """

    d: Any
    e: Any
    columns: Reflectors
    rows: Reflectors | None


@lru_cache(maxsize=1024)
def _step_shape(size: tuple[int, int, int], kind: DType, can: Capabilities) -> StepShape:
    """How steps of reductions of so many matrices of m rows and n columns are shared out."""
    count, m, n = size
    lanes = 1 if kind.is_complex else max(can.vector_bytes // kind.itemsize, 1)
    if can.single_work_items:
        cores = 1 if m * n * kind.itemsize <= _CACHED_SYMMETRIC else max(1, can.compute_units)
        return StepShape(lanes, lanes, _ROWS, 1, 1, cores, _PANEL_ALONE)
    team = can.sub_group_size if can.sub_group_size > 1 else min(_TEAM, can.max_workgroup)
    most = min(_ITEMS, can.max_workgroup, can.max_workgroup_shape[0])
    several = 1
    if n > _ALONE:
        several = max(1, min(-(-m // _ROWS_OF_GROUP), can.compute_units // count))
    return StepShape(lanes, 1, _ROWS_OF_MANY, team, max(most // team, 1), several, _PANEL)


def largest_magnitudes(device: Device, a: Any, *, hermitian: bool) -> Any:
    """The largest magnitude of parts of elements of each matrix; NaN where there is one.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        The matrices.
    hermitian : bool
        Whether their lower triangles are all that is looked at.
    """
    count, m, _ = (int(x) for x in a.shape)
    kind, share = dtype(a.dtype).register.real, min(m, _PARTS)
    parts, largest = device.empty((count, share), kind), device.empty((count,), kind)
    items = 1 if device.capabilities.single_work_items else _LINE
    largest_parts[groups(share, count), items](a, parts, HERMITIAN=hermitian)
    largest_of_each[groups(count), items](parts, largest)
    return largest


def load(a: Any, largest: Any, work: Any, form: Form) -> None:
    """Puts scaled copies of matrices into larger ones, with zeros around them.

    Parameters
    ----------
    a : array, shape (count, m, n)
        The matrices.
    largest : array, shape (count,)
        Their largest magnitudes, by which they are scaled.
    work : array, shape (count, rows, columns)
        Where the copies go.
    form : Form
        Which matrices are made of them.
    """
    extents = tuple(int(x) for x in reversed(work.shape))
    load_scaled[extents, _TILE](a, largest, work, TARGET=SCALED_TO, FORM=form)


def _height(device: Device, rows: int, kind: DType) -> int:
    """Rows that real reflectors are given; complex ones are copied before they are applied."""
    return rows if kind.is_complex else whole_rows(device, rows)


def _clear(device: Device, *arrays: Any) -> None:
    for x in arrays:
        zeros = device.namespace().reshape(x, (-1,))
        clear[int(zeros.shape[0]), _LINE](zeros)


def _whole_blocks(reflectors: int) -> int:
    return -(-reflectors // BLOCK) * BLOCK


# -- tridiagonal ----------------------------------------------------------------------------------


def reduced_to_tridiagonal(
    device: Device, a: Any, largest: Any, shape: StepShape | None = None
) -> Reduced:
    """Hermitian matrices in tridiagonal form, scaled.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, n, n)
        The matrices, of which lower triangles are read.
    largest : array, shape (count,)
        Their largest magnitudes.
    shape : StepShape, optional
        How steps are shared out; what suits the device if left out.
    """
    count, n, _ = (int(x) for x in a.shape)
    kind, can = dtype(a.dtype).register, device.capabilities
    shape = shape or _step_shape((count, n, n), kind, can)
    alone = shape.items == 1
    lanes = CHUNK if alone else max(shape.lanes, shape.across)
    pitch, panels = -(-n // lanes) * lanes, -(-n // shape.block)
    rows = pitch if alone else n
    if alone and pitch * kind.itemsize % _SET == 0:
        pitch += lanes
    reflectors = n if kind.is_complex else _whole_blocks(n)

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    work, counts = empty(rows + 4 * shape.block, pitch), empty(panels, of=kl.i32)
    out = Tridiagonal(
        empty(n, of=kind.real),
        empty(reflectors),
        empty(reflectors, _height(device, n, kind)),
        empty(reflectors, of=kind.real),
        empty(2, pitch),
        empty(2),
        empty(shape.groups if alone else 1, pitch + 2 * shape.block),
        empty(3, shape.groups, of=kind.real),
    )
    load(a, largest, work, "hermitian")
    _clear(device, out.vectors, out.columns, out.products, counts)
    _tridiagonalize(device, work, out, counts, shape)
    if not kind.is_complex:
        return Reduced(out.d, out.e, Reflectors(out.vectors, out.factors, 1, None), None)
    off, phases = empty(n, of=kind.real), empty(n)
    real_tridiagonal[count, _LINE](out.e, off, phases)
    unfolded = _unfolded(device, out.vectors, out.factors)
    return Reduced(out.d, off, Reflectors(*unfolded, 2, phases), None)


def _unfolded(device: Device, vectors: Any, factors: Any) -> tuple[Any, Any]:
    """Complex reflectors as pairs of real ones."""
    (count, reflectors, size), kind = (int(x) for x in vectors.shape), dtype(vectors.dtype).real
    shape = count, _whole_blocks(2 * reflectors), whole_rows(device, 2 * size)
    more, more_factors = device.empty(shape, kind), device.empty(shape[:2], kind)
    unfold_complex[(shape[2] // 2, shape[1] // 2, count), _TILE](
        vectors, factors, more, more_factors
    )
    return more, more_factors


def _tridiagonalize(
    device: Device, work: Any, out: Tridiagonal, counts: Any, shape: StepShape
) -> None:
    """All panels: their phases, and what they leave of the matrix."""
    count, n = (int(x) for x in out.d.shape)
    launch = tridiagonalize[groups(shape.groups, count), shape.items]
    for panel, start in enumerate(range(0, max(n - 1, 1), shape.block)):
        stop = min(start + shape.block, n - 1)
        for first, last in _phases(device, shape, count, int(panel > 0), 2 * (stop - start) + 1):
            launch(work, out, counts, panel, first, last, SHAPE=shape)
        if stop < n - 1 and shape.items == 1 and not dtype(work.dtype).is_complex:
            strip = min(2 * shape.lanes, CHUNK)
            strips = (int(work.shape[2]) - stop // CHUNK * CHUNK) // strip
            take_lines[groups(strips, count), 1](work, stop, SHAPE=shape, STRIP=strip)
        elif stop < n - 1:
            rows = int(work.shape[1]) - 4 * shape.block
            _take_lines(device, work, rows, work[:, rows + 2 * shape.block :], stop, shape)


def _phases(
    device: Device, shape: StepShape, count: int, first: int, last: int
) -> Iterable[tuple[int, int]]:
    """The phases of each launch: all where one workgroup makes them, or several can meet."""
    can = device.capabilities
    at_once = current().resident if device.interprets else can.compute_units
    meets = can.forward_progress and can.memory_orders == "acq_rel" and not can.single_work_items
    if shape.groups == 1 or (meets and shape.groups * count <= at_once):
        return [(first, last)]
    return ((phase, phase + 1) for phase in range(first, last))


# -- bidiagonal -----------------------------------------------------------------------------------


class _Halves(NamedTuple):
    """Diagonals, which may be complex, and reflectors of columns and rows with their factors."""

    d: Any
    e: Any
    left: Any
    left_factors: Any
    right: Any
    right_factors: Any


def reduced_to_bidiagonal(
    device: Device, a: Any, largest: Any, shape: StepShape | None = None
) -> Reduced:
    """Matrices, or conjugate transposes of wide ones, in upper bidiagonal form, scaled.

    Parameters
    ----------
    device : Device
        Where.
    a : array, shape (count, m, n)
        The matrices.
    largest : array, shape (count,)
        Their largest magnitudes.
    shape : StepShape, optional
        How steps in panels are shared out; what suits the device if left out.
    """
    kind, can, count = dtype(a.dtype).register, device.capabilities, int(a.shape[0])
    if shape is None and can.single_work_items:
        halves = _at_once(device, a, largest)
    else:
        n, m = sorted(int(x) for x in a.shape[1:])
        halves = _in_panels(device, a, largest, shape or _step_shape((count, m, n), kind, can))
    d, e, *sides = halves
    n, parts = int(d.shape[1]), 1
    phases: tuple[Any, Any] = None, None
    if kind.is_complex:
        parts = 2
        phases = device.empty((count, n), kind), device.empty((count, n), kind)
        on, off = device.empty((count, n), kind.real), device.empty((count, n), kind.real)
        real_bidiagonal[count, _LINE](d, e, on, off, *phases)
        d, e = on, off
        for i in (0, 2):
            sides[i : i + 2] = _unfolded(device, *sides[i : i + 2])
    columns = Reflectors(sides[0], sides[1], 0, phases[0])
    return Reduced(d, e, columns, Reflectors(sides[2], sides[3], parts, phases[1]))


def _in_panels(device: Device, a: Any, largest: Any, shape: StepShape) -> _Halves:
    """By panels of reflectors, by workgroups that meet."""
    count, rows, columns = (int(x) for x in a.shape)
    m, n = max(rows, columns), min(rows, columns)
    kind = dtype(a.dtype).register
    lanes = max(shape.lanes, shape.across)
    height, pitch = (-(-x // lanes) * lanes for x in (m, n))
    reflectors = n if kind.is_complex else _whole_blocks(n)

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    work, counts = empty(m + 2 * shape.block, pitch), empty(-(-n // shape.block), of=kl.i32)
    left, right = (empty(reflectors, _height(device, x, kind)) for x in (m, n))
    out = Bidiagonal(
        d=empty(n),
        e=empty(n),
        left=left[:, :, :m],
        right=right[:, :, :n],
        left_factors=empty(reflectors, of=kind.real),
        right_factors=empty(reflectors, of=kind.real),
        tall=empty(2 * shape.block, height),
        column=empty(height),
        line=empty(pitch),
        heads=empty(2),
        parts=empty(shape.groups, pitch),
        dots=empty(2 * shape.block),
        products=empty(height + 2 * shape.block),
        shares=empty(2, shape.groups, of=kind.real),
    )
    load(a, largest, work, "turned" if rows < columns else "plain")
    _clear(device, left, right, out.tall, out.products, counts)
    _bidiagonalize(device, work, out, counts, shape)
    return _Halves(out.d, out.e, left, out.left_factors, right, out.right_factors)


def _at_once(device: Device, a: Any, largest: Any) -> _Halves:
    """By one pass over the matrix a step, for work-items that have a core each.

    Panels take two cores three times as long for 1000 columns: they read the matrix twice, and what
    they take off columns and rows is as much again where all is in a cache.
    """
    count, rows, columns = (int(x) for x in a.shape)
    m, n = max(rows, columns), min(rows, columns)
    kind, can = dtype(a.dtype).register, device.capabilities
    lanes = 1 if kind.is_complex else max(can.vector_bytes // kind.itemsize, 1)
    shape, pitch = DirectShape(lanes, _ROWS, 1, 1), -(-n // lanes) * lanes
    cores = 1 if m * n * kind.itemsize <= _CACHED else max(1, can.compute_units)
    reflectors = n if kind.is_complex else _whole_blocks(n)

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    scratch = Scratch(
        left=empty(cores, pitch),
        right=empty(cores, pitch),
        sums=empty(cores, 1, pitch) if cores > 1 else None,
        totals=empty(2, cores, pitch),
    )
    kept = KeptReflectors(empty(n, pitch), empty(2, n, of=kind.real), empty(2, n))
    work, d, e = empty(m + shape.rows, pitch), empty(n), empty(n)
    load(a, largest, work, "turned" if rows < columns else "plain")
    launch = bidiagonalize[groups(cores, count), 1]
    for first in range(-1, n) if cores > 1 else (-1,):
        last = first + 1 if cores > 1 else n
        launch(work, scratch, d, e, kept, first, last, SHAPE=shape)
    halves = _Halves(
        d,
        e,
        empty(reflectors, _height(device, m, kind)),
        empty(reflectors, of=kind.real),
        empty(reflectors, _height(device, n, kind)),
        empty(reflectors, of=kind.real),
    )
    copy_columns[(int(halves.left.shape[2]), reflectors, count), _TILE](
        work, kept, halves.left, halves.left_factors
    )
    copy_rows[(int(halves.right.shape[2]), reflectors, count), _TILE](
        kept, halves.right, halves.right_factors
    )
    return halves


def _bidiagonalize(
    device: Device, work: Any, out: Bidiagonal, counts: Any, shape: StepShape
) -> None:
    """All panels: their phases, and what they leave of the matrix."""
    (count, n), m = (int(x) for x in out.d.shape), int(out.left.shape[2])
    launch = bidiagonalize_in_panels[groups(shape.groups, count), shape.items]
    for panel, start in enumerate(range(0, n, shape.block)):
        stop = min(start + shape.block, n)
        end = 4 * (stop - start) + 1 if stop < n else 4 * (n - 1 - start) + 3
        for first, last in _phases(device, shape, count, int(panel > 0), end):
            launch(work, out, counts, panel, first, last, SHAPE=shape)
        if stop < n:
            _take_lines(device, work, m, out.tall, stop, shape)


def _take_lines(
    device: Device, work: Any, m: int, columns: Any, stop: int, shape: StepShape
) -> None:
    """Takes the lines of a panel off what is left of matrices, from row and column `stop` on."""
    step = shape.block * -(-int(work.shape[2]) // (shape.block * _SHAPES))
    start = stop // step * step
    rest = work[:, start:m, start:]
    rows = device.namespace().permute_dims(columns[:, :, start:m], (0, 2, 1))
    lines = work[:, m : m + 2 * shape.block, start:]
    subtract_product(device, rest, rows, lines)
