"""Singular values of dense matrices of moderate size, straight by way of bidiagonal form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, starmap
from math import isqrt
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.lang.launch.geometry import groups
from portable.linalg.dense.kernels import load_dense
from portable.linalg.dense.reduction import SCALED_TO
from portable.linalg.products.repeats import cached_plan
from portable.linalg.singular_values.bidiagonal import bisected
from portable.linalg.singular_values.direct_kernels import (
    DirectShape,
    Scratch,
    bidiagonalize,
    bidiagonalize_each,
)

_CACHED: Final = 2 << 20
"""Bytes of a matrix up to which a core alone is faster than panels are on all of them."""

_TALL: Final = 5 / 3
_CACHED_TALL: Final = 512 << 10
"""The same of one that is so many times as tall as wide: panels soon make a triangle of it."""

_ROW: Final = 4 << 10
"""Bytes of a row up to which a launch a column takes less time than panels where launches are
replayed. On an H200, all but bisection: 512 columns 2.8 instead of 3.5 ms in single, 3.7 instead of
4.2 in double precision, 768 in double 8.2 instead of 6.7. Launched one by one through NVIDIA's
OpenCL, 256 columns took 4.3 instead of 2.5 ms."""

_ALONE: Final = 128
"""Columns up to which one workgroup makes all steps in no more time than launches take."""

_ROWS: Final = 4
_TEAM: Final = 32
_ITEMS: Final = 256
_ROWS_OF_GROUP: Final = 32
_TILE: Final = (32, 8)
_EACH: Final = 4
"""Matrices for each core that are worked on at a time."""


class Direct(NamedTuple):
    """A layout.

    Attributes
    ----------
    shape : DirectShape
        Of a workgroup's part.
    groups : int
        Workgroups. One makes all steps in a launch, of several a launch makes one step.
    """

    shape: DirectShape
    groups: int


@lru_cache(maxsize=1024)
def direct_layout(m: int, n: int, kind: DType, can: Capabilities) -> Direct | None:
    """The layout for matrices of that size; None for those that are reduced to a band first.

    Parameters
    ----------
    m, n : int
        Rows and columns, m >= n.
    kind : DType
        What is computed in.
    can : Capabilities
        Of the device.
    """
    lanes, size = max(can.vector_bytes // kind.itemsize, 1), m * n * kind.itemsize
    if can.single_work_items:
        fits = size <= (_CACHED if m <= _TALL * n else _CACHED_TALL)
        return Direct(DirectShape(lanes, _ROWS, 1, 1), 1) if fits else None
    if m > _TALL * n or not (n <= _ALONE or (can.replays and n * kind.itemsize <= _ROW)):
        return None
    team = can.sub_group_size if can.sub_group_size > 1 else min(_TEAM, can.max_workgroup)
    most = min(_ITEMS, can.max_workgroup, can.max_workgroup_shape[0])
    shape = DirectShape(lanes, _ROWS, team, max(most // team, 1))
    if n <= _ALONE:
        return Direct(shape, 1)
    return Direct(shape, -(-m // (shape.ahead * _ROWS_OF_GROUP)) * shape.ahead)


def direct_svdvals(
    device: Device, matrices: Sequence[Any], largest: Sequence[Any], layout: Direct
) -> Iterator[Any]:
    """The singular values of matrices that are not empty, scaled as `SCALED_TO` says.

    Parameters
    ----------
    device : Device
        Where.
    matrices : sequence of array, shape (m, n)
        They are not changed.
    largest : sequence of array, shape (1,)
        The largest magnitude of each.
    layout : Direct
        How the work is laid out. Where a workgroup is a work-item that has a core to itself, cores
        work on some matrices at a time.

    Yields
    ------
    array, shape (min(m, n),)
        The largest first. What comes later may overwrite it, the next call of this thread too.
    """
    alone = layout.groups * layout.shape.items == 1
    together = _EACH * max(1, device.capabilities.compute_units) if alone else 1
    parts = -(-len(matrices) // together)
    bounds = [len(matrices) * part // parts for part in range(parts + 1)]
    for some in starmap(slice, pairwise(bounds)):
        yield from _values_of_some(device, matrices[some], largest[some], layout)


def _values_of_some(
    device: Device, matrices: Sequence[Any], largest: Sequence[Any], layout: Direct
) -> Iterator[Any]:
    """Those of so many matrices as there is room for."""
    m, n = (int(x) for x in (max(matrices[0].shape), min(matrices[0].shape)))
    kind = kl.f32 if largest[0].dtype.itemsize == 4 else kl.f64
    shape = len(matrices), m, n
    key = "svdvals", shape, kind, layout
    plan = cached_plan(device, key, lambda: _new_plan(device, shape, kind, layout))
    bound = 2.0 ** (SCALED_TO + 1 + (isqrt(m * n) + 1).bit_length())
    turned = matrices[0].shape[0] < matrices[0].shape[1]
    for a, size, arrays in zip(matrices, largest, plan.each, strict=True):
        rows, pitch = arrays.work.shape
        load_dense[(pitch, rows), _TILE](
            a, size, arrays.work, arrays.most, bound, TARGET=SCALED_TO, TRANSPOSED=turned
        )
    plan.run()
    for arrays in plan.each:
        yield arrays.found


class _Arrays(NamedTuple):
    """What is kept for a matrix of some size: a copy, what is worked out of it, and room.

    For several matrices each array has a dimension more, the first.
    """

    work: Any
    most: Any
    scratch: Scratch
    d: Any
    e: Any
    found: Any

    def of(self, number: int) -> _Arrays:
        """One of several matrices' own."""
        whole = self.scratch
        scratch = Scratch(whole.left[number], whole.right[number], None, whole.totals[number])
        work, most, _, *others = self
        return _Arrays(work[number], most[number], scratch, *(x[number] for x in others))


class _Plan(NamedTuple):
    """Arrays for each matrix, and what enqueues all that is done with the copies in them."""

    each: tuple[_Arrays, ...]
    run: Callable[[], object]


def _new_plan(device: Device, shape: tuple[int, int, int], kind: DType, layout: Direct) -> _Plan:
    matrices, m, n = shape
    if matrices == 1:
        arrays = _arrays(device, (m, n), kind, layout)
        return _Plan((arrays,), device.replay(lambda: _enqueue(device, arrays, layout)))
    together = _arrays(device, (m, n), kind, layout, (matrices,))
    each = tuple(together.of(number) for number in range(matrices))
    return _Plan(each, lambda: _enqueue_each(device, together, each, layout))


def _arrays(
    device: Device,
    shape: tuple[int, int],
    kind: DType,
    layout: Direct,
    lead: tuple[int, ...] = (),
) -> _Arrays:
    """Those for a matrix of a shape, with further dimensions before their own."""
    (m, n), (rows_held, count) = shape, layout
    pitch = -(-n // rows_held.lanes) * rows_held.lanes

    def empty(*extents: int) -> Any:
        return device.empty((*lead, *extents), kind)

    scratch = Scratch(
        left=empty(count, pitch),
        right=empty(count, pitch),
        sums=empty(count, rows_held.teams, pitch) if count > 1 else None,
        totals=empty(2, count if count > 1 else rows_held.teams, pitch),
    )
    work = empty(m + rows_held.rows, pitch)
    return _Arrays(work, empty(1), scratch, empty(n), empty(max(n - 1, 1)), empty(n))


def _enqueue(device: Device, arrays: _Arrays, layout: Direct) -> None:
    """All steps, and the values of the bidiagonal matrix that they leave."""
    work, most, scratch, d, e, flag = arrays
    n = int(d.shape[0])
    shape, count = layout
    launch = bidiagonalize[groups(count), shape.items]
    for first in range(-1, n) if count > 1 else (-1,):
        last = first + 1 if count > 1 else n
        launch(work, scratch, d, e, first, last, SHAPE=shape)
    bisected(device, (d, e), most, flag)


def _enqueue_each(
    device: Device, together: _Arrays, each: tuple[_Arrays, ...], layout: Direct
) -> None:
    """The same for several matrices."""
    work, _, scratch, d, e, _ = together
    bidiagonalize_each[groups(1, len(each)), layout.shape.items](
        work, scratch, d, e, SHAPE=layout.shape
    )
    for arrays in each:
        bisected(device, (arrays.d, arrays.e), arrays.most, arrays.found)
