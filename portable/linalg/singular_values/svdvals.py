"""Singular values of dense matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise, starmap
from math import isqrt, prod
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, dtype
from portable.errors import ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.bands.band import chase
from portable.linalg.bands.shapes import plan_for
from portable.linalg.base.magnitude import largest_magnitude, require_finite
from portable.linalg.base.operands import common_dtype
from portable.linalg.dense.kernels import load_dense, store_values
from portable.linalg.dense.reduction import SCALED_TO, reduced
from portable.linalg.dense.shapes import dense_shape, tuned
from portable.linalg.products.repeats import cached_plan
from portable.linalg.singular_values.bidiagonal import bisected
from portable.linalg.singular_values.direct_kernels import DirectShape, Scratch, bidiagonalize
from portable.linalg.singular_values.jacobi_kernels import jacobi_svdvals
from portable.linalg.singular_values.rotation_shapes import RotationShape, rotation_shape
from portable.namespace import device_of_arrays
from portable.primitives import fill
from portable.tune.space import Parameters
from portable.tune.table import first_accepted
from portable.tune.ways import Way, Ways
from portable.typing import ArrayT

# Singular values of dense matrices of moderate size, straight by way of bidiagonal form.

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
    turned = matrices[0].shape[0] < matrices[0].shape[1]
    for a, size, own in zip(matrices, largest, plan.each, strict=True):
        rows, pitch = own.work.shape
        load_dense[(pitch, rows), _TILE](a, size, own.work, TARGET=SCALED_TO, TRANSPOSED=turned)
    plan.run()
    for own in plan.each:
        yield own.values


class _Own(NamedTuple):
    """What is kept for one matrix of some size: a copy, and what is worked out of it."""

    work: Any
    d: Any
    e: Any
    values: Any


class _Plan(NamedTuple):
    """Arrays for each matrix, those that launches share, and what enqueues all of these."""

    each: tuple[_Own, ...]
    shared: tuple[Scratch, Any]
    run: Callable[[], object]


def _new_plan(device: Device, shape: tuple[int, int, int], kind: DType, layout: Direct) -> _Plan:
    (matrices, m, n), (rows_held, count) = shape, layout
    pitch = -(-n // rows_held.lanes) * rows_held.lanes

    def empty(*extents: int) -> Any:
        return device.empty((matrices, *extents), kind)

    scratch = Scratch(
        left=empty(count, pitch),
        right=empty(count, pitch),
        sums=empty(count, rows_held.teams, pitch) if count > 1 else None,
        totals=empty(2, count if count > 1 else rows_held.teams, pitch),
    )
    work = empty(m + rows_held.rows, pitch)
    all_own = _Own(work, empty(n), empty(max(n - 1, 1)), empty(n))
    each = tuple(_Own(*(x[number] for x in all_own)) for number in range(matrices))

    bound = 2.0 ** (SCALED_TO + 1 + (isqrt(m * n) + 1).bit_length())  # of scaled singular values
    most = device.empty((1,), kind)

    def enqueue() -> None:
        """All steps, and the values of the bidiagonal matrices that they leave."""
        fill(most, bound)
        launch = bidiagonalize[groups(count, matrices), rows_held.items]
        for first in range(-1, n) if count > 1 else (-1,):
            last = first + 1 if count > 1 else n
            launch(work, scratch, all_own.d, all_own.e, None, first, last, SHAPE=rows_held)
        for own in each:
            bisected(device, (own.d, own.e), most, own.values)

    return _Plan(each, (scratch, most), device.replay(enqueue))


# -- svdvals ---------------------------------------------------------------------------------------

Stage = Literal["band", "bidiagonal", "values"]
"""The parts of the work: dense to banded, banded to bidiagonal, bidiagonal to singular values."""

STAGES: Final[tuple[Stage, ...]] = ("band", "bidiagonal", "values")

Progress = Callable[[Stage, float], None]
"""Called with the part of a stage that is done, from 0 to 1."""

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_FEW: Final = 32
"""Columns up to which rotations take the least time."""

_FEW_OF_MANY: Final = 64
"""The same of several matrices where work-items are many: one launch, and all at once."""

_LINE: Final = 64


@takes_other_libraries
def svdvals(a: ArrayT, *, check_finite: bool = True, progress: Progress | None = None) -> ArrayT:
    """The singular values of matrices, the largest first, computed on the device of `a`.

    Parameters
    ----------
    a : array, shape (..., m, n)
        ``float16``, ``float32`` or ``float64``, any strides; it is not changed.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device. Without it
        their singular values are anything.
    progress : callable, optional
        Called with the name of a stage ("band", "bidiagonal", "values") and the part of it that is
        done, for a progress bar; for each matrix, unless they are small. The device is waited for
        before each call, up to a hundred times.

    Returns
    -------
    array, shape (..., min(m, n))
        On the device of `a`; ``float32`` for ``float16``. The largest error is a modest multiple of
        the unit roundoff times the largest singular value.

    Raises
    ------
    ShapeError
        Unless `a` has two dimensions or more.
    DTypeError
        For other dtypes.
    ValueError
        For NaN or infinities.

    Notes
    -----
    Up to 32 rows or columns, 64 of several matrices where work-items are many, if a matrix fits
    into local memory: one-sided Jacobi rotations, all matrices in one launch. Others follow each
    other. One that stays in a core's caches, or has up to 128 columns where work-items are many,
    on CUDA rows of up to 4 KiB, is reduced straight to bidiagonal form, column by column, each in
    one pass over the matrix. The rest go through `dense_to_band` and `band_to_bidiagonal`, with the
    bandwidth that the tuning table has for the device. `bidiagonal_svdvals` is the last stage of
    both. The stages follow each other on the device; nothing but the flag of `check_finite` is read
    from it. Beside `a` one copy of a matrix is held, in single precision for half, and O(m)
    numbers; each thread keeps those of the last eight sizes that were reduced straight.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> portable.linalg.svdvals(np.array([[3.0, 0.0], [4.0, 0.0]]))
    array([5., 0.])
    """
    device = device_of_arrays(a)
    kind = common_dtype("svdvals", _DTYPES, a=a).register
    if a.ndim < 2:
        raise ShapeError(f"svdvals takes matrices (..., m, n), not shape {tuple(a.shape)}")
    *lead, m, n = (int(x) for x in a.shape)
    values = device.empty((prod(lead), min(m, n)), kind)
    if prod(values.shape) > 0:
        SINGULAR_VALUES.first(Asked(device, a, values, check_finite, progress))()
    if not lead:
        return values[0]  # type: ignore[no-any-return]
    return values if len(lead) == 1 else device.namespace().reshape(values, (*lead, min(m, n)))  # type: ignore[no-any-return]


# -- small matrices -------------------------------------------------------------------------------


class Asked(NamedTuple):
    """What is asked of the ways.

    Attributes
    ----------
    device : Device
        Where.
    a : array, shape (..., m, n)
        The matrices, which are not empty.
    values : array, shape (matrices, min(m, n))
        Where the values go.
    check_finite, progress
        As for `svdvals`.
    """

    device: Device
    a: Any
    values: Any
    check_finite: bool = True
    progress: Progress | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many matrices there are, and their rows and columns."""
        return self.values.shape[0], *(int(n) for n in self.a.shape[-2:])

    @property
    def kind(self) -> DType:
        """What values are computed in."""
        return dtype(self.values.dtype)


def _by_rotations(asked: Asked) -> Iterator[Callable[[], None]]:
    shape = _jacobi_shape(asked)
    if shape is not None:
        yield partial(_by_jacobi, asked, shape)


def _jacobi_shape(asked: Asked) -> RotationShape | None:
    """The layout for rotations; None unless columns are few and a matrix fits into local memory."""
    (batch, m, n), kind, can = asked.shape, asked.kind, asked.device.capabilities
    most_columns = _FEW_OF_MANY if batch > 1 and not can.single_work_items else _FEW
    wanted = RotationShape(max(m, n), min(m, n), 0, squares=False, turned=m < n)
    shape = rotation_shape(wanted, kind, can)
    return shape if shape.held and shape.columns <= most_columns else None


def _by_jacobi(asked: Asked, shape: RotationShape) -> None:
    device, batch = asked.device, asked.shape[0]
    largest = device.empty((batch,), asked.kind)
    lone = device.capabilities.single_work_items
    items = 1 if lone else shape.pairs * shape.parts
    jacobi_svdvals[groups(batch), items](asked.a, asked.values, largest, SHAPE=shape)
    if asked.check_finite:
        require_finite(device, largest_magnitude(device, largest), "svdvals")


# -- others ---------------------------------------------------------------------------------------


def directly(asked: Asked, layout: Direct) -> None:
    """Puts singular values where they go, the work being laid out in a way."""

    def found(matrices: Sequence[Any], largest: Sequence[Any]) -> Iterator[Any]:
        for result in direct_svdvals(asked.device, matrices, largest, layout):
            for stage in STAGES:
                _tell(asked.device, asked.progress, stage)
            yield result

    _each(asked, found)


def in_stages(asked: Asked, choice: Parameters) -> None:
    """Puts singular values where they go, by tuned parameters: the band's width, and panels."""

    def found(matrices: Sequence[Any], largest: Sequence[Any]) -> Iterator[Any]:
        for matrix, size in zip(matrices, largest, strict=True):
            yield _one_in_stages(asked.device, matrix, size, choice, asked.progress)

    _each(asked, found)


def _straight(asked: Asked) -> Iterator[Callable[[], None]]:
    (_, m, n), can = asked.shape, asked.device.capabilities
    layout = direct_layout(max(m, n), min(m, n), asked.kind, can)
    if layout is not None:
        yield partial(directly, asked, layout)


def _staged(asked: Asked) -> Iterator[Callable[[], None]]:
    choices = tuned(asked.kind, min(asked.shape[1:]), asked.device.capabilities)
    yield lambda: first_accepted(choices, lambda x: in_stages(asked, x))


SINGULAR_VALUES: Final = Ways[Asked, Callable[[], None]](
    "singular values",
    Way("by rotations", "jacobi_svdvals", _by_rotations),
    Way("directly", "load_dense elementwise bidiagonalize bisect store_values", _straight),
    Way(
        "in stages",
        "load_dense factor_panel apply_reflectors store_band vector_packs ring_packs bisect",
        _staged,
    ),
)
"""How singular values of dense matrices are found."""


def _each(
    asked: Asked, scaled_values: Callable[[Sequence[Any], Sequence[Any]], Iterator[Any]]
) -> None:
    """Calls `scaled_values` with matrices and their largest magnitudes, and scales back."""
    device, a, values = asked.device, asked.a, asked.values
    matrices = [a[index] for index in np.ndindex(*a.shape[:-2])] if a.ndim > 2 else [a]
    magnitudes = [largest_magnitude(device, x) for x in matrices]
    if asked.check_finite:
        one = magnitudes[0] if len(magnitudes) == 1 else largest_magnitude(device, *magnitudes)
        require_finite(device, one, "svdvals")
    scaled = scaled_values(matrices, magnitudes)
    for row, (largest, result) in enumerate(zip(magnitudes, scaled, strict=True)):
        store_values[(result.shape[0], 1), (_LINE, 1)](
            result[None], largest, values[row : row + 1], TARGET=SCALED_TO, REVERSED=False
        )


def _tell(device: Device, progress: Progress | None, stage: Stage) -> None:
    """Says that a stage is done, once it is."""
    if progress is not None:
        device.synchronize()
        progress(stage, 1)


def _one_in_stages(
    device: Device, a: Any, largest: Any, choice: Parameters, progress: Progress | None
) -> Any:
    """The singular values of one matrix, scaled."""
    kind = kl.f32 if largest.dtype.itemsize == 4 else kl.f64
    bandwidth = max(1, min(choice["BANDWIDTH"], min(a.shape) - 1))
    shape = dense_shape(choice, bandwidth, kind, device.capabilities)
    follow = None if progress is None else lambda done: progress("band", done)
    scales, n = device.empty((2,), kind), int(min(a.shape))
    ab = reduced(device, a, largest, bandwidth, shape, scales=scales, progress=follow)
    diagonals = device.empty((n,), kind), device.empty((n - 1,), kind)
    plan = plan_for(min(bandwidth, n - 1), n, kind, device.capabilities)
    chase(device, ab, scales[:1], diagonals, plan)
    _tell(device, progress, "bidiagonal")
    values = device.empty((n,), kind)
    bisected(device, diagonals, scales[1:], values)
    _tell(device, progress, "values")
    return values
