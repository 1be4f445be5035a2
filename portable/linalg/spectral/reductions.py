"""Matrices reduced to tridiagonal and bidiagonal form with reflectors that are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from threading import local
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.lang.launch.geometry import groups
from portable.linalg.products.gemm import gemm
from portable.linalg.singular_values.direct import Direct
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    KeptReflectors,
    Scratch,
    merge_totals,
)
from portable.linalg.spectral.bidiagonal_kernels import bidiagonalize_keeping
from portable.linalg.spectral.products import multiplied
from portable.linalg.spectral.reduction_kernels import (
    Form,
    clear_all,
    largest_of_each,
    largest_parts,
    load_scaled,
    real_bidiagonal,
    real_tridiagonal,
    unfold_columns,
    unfold_complex,
    unfold_rows,
)
from portable.linalg.spectral.reflections import BLOCK
from portable.linalg.spectral.step_kernels import StepShape, subtract
from portable.linalg.spectral.tridiagonal_kernels import Tridiagonal, tridiagonalize
from portable.sim.settings import current

__all__ = [
    "SCALED_TO",
    "Reduced",
    "Reflectors",
    "largest_magnitudes",
    "reduced_to_bidiagonal",
    "reduced_to_tridiagonal",
]

SCALED_TO: Final = 10
"""The exponent that the largest element is scaled to: nothing overflows when squared and summed."""

_CACHED: Final = 512 << 10
"""Bytes of a matrix up to which a core alone is faster than several that wait for each other."""

_ALONE: Final = 128
"""Columns up to which one workgroup makes all steps in no more time than launches take."""

_KEPT: Final = 8
"""Plans that a thread keeps: their arrays, and what replays their launches."""

_KEPT_BYTES: Final = 32 << 20
"""Bytes of a matrix up to which launches take longer to enqueue than to run."""

_ROWS: Final = 4
_TEAM: Final = 32
_ITEMS: Final = 256
_ROWS_OF_GROUP: Final = 32
_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_PARTS: Final = 128
_PANEL: Final = 64
_PANEL_ALONE: Final = 32
"""Reflectors of a panel, where work-items are many and where they are alone."""

_SHAPES: Final = 4
"""How many shapes of products there are, each of which is planned by itself."""

_MANY: Final = 24
"""Workgroups from which on a launch of its own adds up what they have, and not each of them."""


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


class _Plan(NamedTuple):
    """Arrays for a reduction, and what enqueues its steps; a later call overwrites them."""

    work: Any
    out: Any
    run: Callable[[], object]


@lru_cache(maxsize=1024)
def _step_shape(n: int, kind: DType, can: Capabilities) -> StepShape:
    """How steps made in panels are shared out."""
    lanes = 1 if kind.is_complex else max(can.vector_bytes // kind.itemsize, 1)
    if can.lone_work_items:
        cores = 1 if n * n * kind.itemsize <= _CACHED else max(1, can.compute_units)
        return StepShape(lanes, lanes, _ROWS, 1, 1, cores, _PANEL_ALONE)
    team = can.sub_group_size if can.sub_group_size > 1 else min(_TEAM, can.max_workgroup)
    most = min(_ITEMS, can.max_workgroup, can.max_workgroup_shape[0])
    several = 1 if n <= _ALONE else min(-(-n // _ROWS_OF_GROUP), max(1, can.compute_units))
    return StepShape(lanes, 1, _ROWS, team, max(most // team, 1), several, _PANEL)


@lru_cache(maxsize=1024)
def _layout(m: int, n: int, kind: DType, can: Capabilities) -> Direct:
    """How a reduction's pass is shared out."""
    lanes = 1 if kind.is_complex else max(can.vector_bytes // kind.itemsize, 1)
    if can.lone_work_items:
        cores = 1 if m * n * kind.itemsize <= _CACHED else max(1, can.compute_units)
        return Direct(DirectShape(lanes, _ROWS, 1, 1), cores)
    team = can.sub_group_size if can.sub_group_size > 1 else min(_TEAM, can.max_workgroup)
    most = min(_ITEMS, can.max_workgroup, can.max_workgroup_shape[0])
    shape = DirectShape(lanes, _ROWS, team, max(most // team, 1))
    if n <= _ALONE:
        return Direct(shape, 1)
    return Direct(shape, -(-m // (shape.ahead * _ROWS_OF_GROUP)) * shape.ahead)


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
    items = 1 if device.capabilities.lone_work_items else _LINE
    largest_parts[groups(share, count), items](a, parts, HERMITIAN=hermitian)
    largest_of_each[count, _LINE](parts, largest)
    return largest


def _work(device: Device, size: tuple[int, int, int], kind: DType, layout: Direct) -> Any:
    """Room for copies, columns made up to whole vectors, rows to whole blocks."""
    (count, m, n), shape = size, layout.shape
    return device.empty((count, m + shape.rows - 1, -(-n // shape.lanes) * shape.lanes), kind)


def _load(a: Any, largest: Any, work: Any, form: Form) -> None:
    """Puts scaled copies there."""
    extents = tuple(int(x) for x in reversed(work.shape))
    load_scaled[extents, _TILE](a, largest, work, TARGET=SCALED_TO, FORM=form)


_threads: Final = local()
"""Each thread has plans of its own: nobody else's launches come between those of a call."""


def _plan(device: Device, size: int, key: Any, make: Callable[[], _Plan]) -> _Plan:
    """What was made for a key before, where launches are replayed and arrays are not large."""
    if size > _KEPT_BYTES or not device.capabilities.replays:
        return make()
    plans: OrderedDict[Any, _Plan] = _threads.__dict__.setdefault("plans", OrderedDict())
    key = device.name, device.current_queue(), key
    plan = plans.get(key)
    if plan is None:
        plan = plans[key] = make()
        if len(plans) > _KEPT:
            plans.popitem(last=False)
    plans.move_to_end(key)
    return plan


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
    shape = shape or _step_shape(n, kind, can)
    lanes = max(shape.lanes, shape.across)
    pitch, panels = -(-n // lanes) * lanes, -(-n // shape.block)
    reflectors = n if kind.is_complex else _whole_blocks(n)

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    work, counts = empty(n + 4 * shape.block, pitch), empty(1, panels, of=kl.i32)
    out = Tridiagonal(
        empty(n, of=kind.real),
        empty(reflectors),
        empty(reflectors, n),
        empty(reflectors, of=kind.real),
        empty(pitch),
        empty(pitch + 2 * shape.block),
        empty(2, shape.groups, of=kind.real),
    )
    _load(a, largest, work, "hermitian")
    reshape = device.namespace().reshape
    for zeros in (out.vectors, reshape(out.products, (count, 1, -1)), counts):
        clear_all[tuple(int(x) for x in reversed(zeros.shape)), _TILE](zeros)
    _tridiagonalize(device, work, out, reshape(counts, (count, -1)), shape)
    if not kind.is_complex:
        return Reduced(out.d, out.e, Reflectors(out.vectors, out.factors, 1, None), None)
    off, phases = empty(n, of=kind.real), empty(n)
    real_tridiagonal[count, _LINE](out.e, off, phases)
    vectors, factors = _real_room(device, count, n, n, kind)
    unfold_complex[(n, int(vectors.shape[1]) // 2, count), _TILE](
        out.vectors, out.factors, vectors, factors
    )
    return Reduced(out.d, off, Reflectors(vectors, factors, 2, phases), None)


def _real_room(device: Device, count: int, reflectors: int, rows: int, kind: DType) -> Any:
    """Room for real reflectors in place of so many."""
    parts = 2 if kind.is_complex else 1
    shape = count, _whole_blocks(parts * reflectors), parts * rows
    return device.empty(shape, kind.real), device.empty(shape[:2], kind.real)


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
        if stop < n - 1:
            _take_panel(device, work, n, stop, shape)


def _phases(
    device: Device, shape: StepShape, count: int, first: int, last: int
) -> Iterable[tuple[int, int]]:
    """The phases of each launch: all where one workgroup makes them, or several can meet."""
    can = device.capabilities
    at_once = current().resident if device.interprets else can.compute_units
    meets = can.forward_progress and can.memory_orders == "acq_rel" and not can.lone_work_items
    if shape.groups == 1 or (meets and shape.groups * count <= at_once):
        return [(first, last)]
    return ((phase, phase + 1) for phase in range(first, last))


def _take_panel(device: Device, work: Any, n: int, stop: int, shape: StepShape) -> None:
    """Takes the lines of a panel off what is left of matrices, from column `stop` on."""
    step = shape.block * -(-n // (shape.block * _SHAPES))
    start, middle, end = stop // step * step, n + 2 * shape.block, n + 4 * shape.block
    rest = work[:, start:n, start:]
    rows = device.namespace().permute_dims(work[:, middle:end, start:n], (0, 2, 1))
    lines = work[:, n:middle, start:]
    if not dtype(work.dtype).is_complex:
        gemm(rows, lines, alpha=-1, beta=1, c=rest, out=rest)
        return
    extents = tuple(int(x) for x in reversed(rest.shape))
    subtract[extents, _TILE](multiplied(device, rows, lines), rest)


class _Steps(NamedTuple):
    """The steps of reductions: up to which, how they are laid out, and of how many matrices."""

    end: int
    layout: Direct
    matrices: int

    @property
    def bounds(self) -> Iterator[tuple[int, int]]:
        """The steps of each launch: of several workgroups a launch makes one."""
        if self.layout.groups == 1:
            return iter([(-1, self.end)])
        return ((first, first + 1) for first in range(-1, self.end))

    def launch(self, kernel: Any) -> Any:
        """A kernel with its workgroups."""
        return kernel[groups(self.layout.groups, self.matrices), self.layout.shape.items]


# -- bidiagonal -----------------------------------------------------------------------------------


def reduced_to_bidiagonal(
    device: Device, a: Any, largest: Any, layout: Direct | None = None
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
    layout : Direct, optional
        How a pass is shared out; what suits the device if left out.
    """
    count, rows, columns = (int(x) for x in a.shape)
    m, n = max(rows, columns), min(rows, columns)
    kind, can = dtype(a.dtype).register, device.capabilities
    layout = layout or _layout(m, n, kind, can)
    size = count * m * n * kind.itemsize
    key = "bidiagonal", (count, m, n), kind, layout
    plan = _plan(device, size, key, lambda: _bidiagonal_plan(device, (count, m, n), kind, layout))
    work, (d, e, kept) = plan.work, plan.out
    _load(a, largest, work, "turned" if rows < columns else "plain")
    plan.run()

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    parts, tile = (2 if kind.is_complex else 1), _TILE
    vectors, factors = _real_room(device, count, n, m, kind)
    extents = m, int(vectors.shape[1]) // parts, count
    unfold_columns[extents, tile](work, kept, vectors, factors, COUNT=parts)
    others, other_factors = _real_room(device, count, n, n, kind)
    unfold_rows[(n, extents[1], count), tile](kept, others, other_factors, COUNT=parts)
    row_phases = column_phases = None
    if kind.is_complex:
        row_phases, column_phases = empty(n), empty(n)
        on, off = empty(n, of=kind.real), empty(n, of=kind.real)
        real_bidiagonal[count, _LINE](d, e, on, off, row_phases, column_phases)
        d, e = on, off
    return Reduced(
        d,
        e,
        Reflectors(vectors, factors, 0, row_phases),
        Reflectors(others, other_factors, parts, column_phases),
    )


def _bidiagonal_plan(
    device: Device, size: tuple[int, int, int], kind: DType, layout: Direct
) -> _Plan:
    """Room for so many matrices of a size, and their steps."""
    (count, _, n), shape, several = size, layout.shape, layout.groups > 1
    work = _work(device, size, kind, layout)
    pitch = int(work.shape[2])

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    scratch = Scratch(
        left=empty(layout.groups, pitch),
        right=empty(layout.groups, pitch),
        sums=empty(layout.groups, shape.teams, pitch) if several else None,
        totals=empty(2, layout.groups if several else shape.teams, pitch),
        merged=empty(2, 1, pitch) if layout.groups >= _MANY else None,
    )
    kept = KeptReflectors(empty(n, pitch), empty(2, n, of=kind.real), empty(2, n))
    out, steps = (empty(n), empty(n), kept), _Steps(n, layout, count)
    return _Plan(work, out, device.replay(lambda: _bidiagonalize(work, scratch, out, steps)))


def _bidiagonalize(work: Any, scratch: Scratch, out: Any, steps: _Steps) -> None:
    d, e, kept = out
    shape, pitch = steps.layout.shape, int(work.shape[2])
    for first, last in steps.bounds:
        steps.launch(bidiagonalize_keeping)(work, scratch, d, e, kept, first, last, SHAPE=shape)
        if scratch.merged is not None and last < steps.end:
            add_up = merge_totals[(pitch, steps.matrices), (_LINE, 1)]
            add_up(scratch.totals, scratch.merged, last, LANES=shape.lanes)
