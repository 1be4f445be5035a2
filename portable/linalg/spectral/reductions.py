"""Matrices reduced to tridiagonal and bidiagonal form with reflectors that are kept."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.lang.launch.geometry import groups
from portable.linalg.singular_values.direct import Direct
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    KeptReflectors,
    Scratch,
    merge_totals,
)
from portable.linalg.spectral.bidiagonal_kernels import bidiagonalize_keeping
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
from portable.linalg.spectral.tridiagonal_kernels import Tridiagonal, tridiagonalize

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

_ROWS: Final = 4
_TEAM: Final = 32
_ITEMS: Final = 256
_ROWS_OF_GROUP: Final = 32
_TILE: Final = (32, 8, 1)
_LINE: Final = 64
_PARTS: Final = 128
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


def _loaded(device: Device, a: Any, largest: Any, layout: Direct, form: Form) -> Any:
    """Scaled copies, columns made up to whole vectors, rows to whole blocks."""
    shape, kind = layout.shape, dtype(a.dtype).register
    count, m, n = (int(x) for x in a.shape)
    m, n = (n, m) if form == "turned" else (m, n)
    pitch = -(-n // shape.lanes) * shape.lanes
    work = device.empty((count, m + shape.rows - 1, pitch), kind)
    load_scaled[(pitch, m + shape.rows - 1, count), _TILE](
        a, largest, work, TARGET=SCALED_TO, FORM=form
    )
    return work


def _whole_blocks(reflectors: int) -> int:
    return -(-reflectors // BLOCK) * BLOCK


# -- tridiagonal ----------------------------------------------------------------------------------


def reduced_to_tridiagonal(
    device: Device, a: Any, largest: Any, layout: Direct | None = None
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
    layout : Direct, optional
        How a pass is shared out; what suits the device if left out.
    """
    count, n, _ = (int(x) for x in a.shape)
    kind, can = dtype(a.dtype).register, device.capabilities
    layout = layout or _layout(n, n, kind, can)
    work = _loaded(device, a, largest, layout, "hermitian")
    pitch = max(int(x) for x in work.shape[1:])
    reflectors = n if kind.is_complex else _whole_blocks(n)

    def empty(*shape: int, of: DType = kind) -> Any:
        return device.empty((count, *shape), of)

    out = Tridiagonal(
        empty(n, of=kind.real),
        empty(reflectors),
        empty(reflectors, n),
        empty(reflectors, of=kind.real),
        empty(2, pitch),
        empty(layout.groups, 4, pitch),
    )
    for zeros in (out.vectors, out.products):
        clear_all[tuple(int(x) for x in reversed(zeros.shape)), _TILE](zeros)
    launch = tridiagonalize[groups(layout.groups, count), layout.shape.items]
    for first in range(-1, n - 1) if layout.groups > 1 else (-1,):
        last = first + 1 if layout.groups > 1 else n - 1
        launch(work, out, first, last, SHAPE=layout.shape)
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
    work = _loaded(device, a, largest, layout, "turned" if rows < columns else "plain")
    shape, pitch = layout.shape, int(work.shape[2])

    def empty(*extents: int, of: DType = kind) -> Any:
        return device.empty((count, *extents), of)

    several = layout.groups > 1
    scratch = Scratch(
        left=empty(layout.groups, pitch),
        right=empty(layout.groups, pitch),
        sums=empty(layout.groups, shape.teams, pitch) if several else None,
        totals=empty(2, layout.groups if several else shape.teams, pitch),
        merged=empty(2, 1, pitch) if layout.groups >= _MANY else None,
    )
    d, e = empty(n), empty(n)
    kept = KeptReflectors(empty(n, pitch), empty(2, n, of=kind.real), empty(2, n))
    launch = bidiagonalize_keeping[groups(layout.groups, count), shape.items]
    for first in range(-1, n) if several else (-1,):
        launch(work, scratch, d, e, kept, first, first + 1 if several else n, SHAPE=shape)
        if scratch.merged is not None and first + 1 < n:
            add_up = merge_totals[(pitch, count), (_LINE, 1)]
            add_up(scratch.totals, scratch.merged, first + 1, LANES=shape.lanes)
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
