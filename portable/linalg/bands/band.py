"""Banded matrices reduced to bidiagonal form."""

from __future__ import annotations

from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, ShapeError
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.bands import kernels
from portable.linalg.bands.panels import panel_packs, panel_wave
from portable.linalg.bands.plan import Layout, Plan, Stage, rounded, sweeps_of_wave, waves_of
from portable.linalg.bands.products import product_packs
from portable.linalg.bands.ring import ring_packs
from portable.linalg.bands.shapes import plan_for
from portable.linalg.base.magnitude import largest_magnitude, require_finite
from portable.linalg.base.operands import common_dtype, require_apart
from portable.namespace import device_of_arrays
from portable.typing import ArrayT

_DTYPES: Final = (kl.f16, kl.f32, kl.f64)
_WIDEST: Final = 4096
_WORKGROUP: Final = 256
_SCALED_TO: Final = 20
_WIDEST_TILE: Final = 16
_NONE: Final = kernels.Kept(None, None)


@takes_other_libraries
def band_to_bidiagonal(
    ab: ArrayT, *, check_finite: bool = True, out: tuple[ArrayT, ArrayT] | None = None
) -> tuple[ArrayT, ArrayT]:
    """A bidiagonal matrix with the singular values of an upper banded one.

    Parameters
    ----------
    ab : array, shape (u + 1, n)
        The upper band in SciPy's diagonal-ordered form, ``ab[u + i - j, j] == A[i, j]``, in
        ``float16``, ``float32`` or ``float64``; any strides. It is not changed; the places that
        belong to no element are not read.
    check_finite : bool
        Whether to look for NaN and infinities, which reads one number from the device.
    out : (array, array), optional
        Where to put the diagonal and the superdiagonal.

    Returns
    -------
    d : array, shape (n,)
        The diagonal, on the device of `ab`; ``float32`` for ``float16``. Signs are as they come.
    e : array, shape (n - 1,)
        The superdiagonal.

    Raises
    ------
    ShapeError
        Unless `ab` has two dimensions, a row at least and at most 4097, and `out` fits.
    DTypeError
        For other dtypes.
    LaunchError
        If `out` is read-only.
    ValueError
        For NaN or infinities.

    Notes
    -----
    Bulge chasing by Householder reflectors: B. Lang, "Parallel reduction of banded matrices to
    bidiagonal form", Parallel Computing 22 (1996), scheduled as in E. Ringoot, R. Alomairy, A.
    Edelman, "A GPU-resident memory-aware algorithm for accelerating bidiagonalization of banded
    matrices", arXiv 2510.12705, but in one launch where workgroups may wait for each other. The
    matrix is scaled by a power of two; half precision is computed in single.

    Wide bands become narrow ones first, mostly of 32 superdiagonals, by panels: reflectors of
    neighbouring rows, and then columns, are made together (C. Bischof, B. Lang, X. Sun, "A
    framework for symmetric band reduction", ACM TOMS 26, 2000). Each such stage adds to the error
    as the last does, so that it grows by the square root of their number.

    Working storage is ``3 b`` elements a column for b superdiagonals on a processor and in panels,
    and ``2 b + 4`` where blocks are in registers; rounded up to whole vectors, in the precision of
    the computation but where half precision is kept in global memory only; and O(n). There are
    ``n^2 / (2 b)`` hops of ``16 b^2`` operations in a stage that leaves a bidiagonal matrix.

    Dependent steps and what they move through caches and local memory take the time, not
    arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> d, e = portable.linalg.band_to_bidiagonal(np.array([[0.0, 2.0], [1.0, 1.0]]))
    >>> d, e
    (array([1., 1.]), array([2.]))
    """
    device = device_of_arrays(ab, *(out or ()))
    kind = common_dtype("band_to_bidiagonal", _DTYPES, ab=ab)
    u, n = _checked_shape(ab)
    d, e = _results(device, kind, ab, n, out)
    if n > 0:
        largest = largest_magnitude(device, ab, band=True)
        if check_finite:
            require_finite(device, largest, "band_to_bidiagonal")
        chase(device, ab, largest, (d, e), plan_for(min(u, n - 1), n, kind, device.capabilities))
    return d, e


def _checked_shape(ab: Any) -> tuple[int, int]:
    if ab.ndim != 2 or ab.shape[0] < 1:
        raise ShapeError(
            "band_to_bidiagonal takes an upper band of shape (u + 1, n) with u >= 0 "
            f"superdiagonals, not shape {tuple(ab.shape)}"
        )
    rows, n = (int(x) for x in ab.shape)
    if min(rows, n) - 1 > _WIDEST:
        raise ShapeError(
            f"band_to_bidiagonal takes at most {_WIDEST} superdiagonals, not {rows - 1}; a matrix "
            "as dense as that is reduced to a narrower band first"
        )
    return rows - 1, n


def _results(
    device: Device, kind: DType, ab: Any, n: int, out: tuple[Any, Any] | None
) -> tuple[Any, Any]:
    shapes = ((n,), (max(n - 1, 0),))
    if out is None:
        return device.empty(shapes[0], kind.register), device.empty(shapes[1], kind.register)
    for name, x, shape in zip("de", out, shapes, strict=True):
        if tuple(x.shape) != shape:
            raise ShapeError(f"band_to_bidiagonal: {name} has shape {tuple(x.shape)}, not {shape}")
        if dtype(x.dtype) is not kind.register:
            given = dtype(x.dtype).name
            raise DTypeError(f"band_to_bidiagonal: {name} is {given}, not {kind.register.name}")
        others = {"ab": ab} if name == "d" else {"ab": ab, "d": out[0]}
        require_apart("band_to_bidiagonal", device, x, others, what=name)
    return out


def chase(
    device: Device,
    ab: Any,
    largest: Any,
    out: tuple[Any, Any],
    plan: Plan,
    kept: kernels.Kept = _NONE,
) -> None:
    """Reduces a band as planned; without stages it is bidiagonal already.

    Parameters
    ----------
    device : Device
        Where.
    ab : array, shape (u + 1, n)
        The upper band in diagonal-ordered form.
    largest : array, shape (1,)
        Its largest magnitude.
    out : (array, array)
        Where the diagonal and the superdiagonal go, shapes (n,) and (n - 1,).
    plan : Plan
        Of stages for n columns.
    kept : Kept
        Where reflectors go, if `plan` is one that keeps them.
    """
    d, e = out
    n = d.shape[0]
    columns = rounded(n + 3 * max((x.bandwidth for x in plan.stages), default=1), _WIDEST_TILE)
    target = _exponent(plan.storage, ab.shape[0] - 1)
    needed = [1 + x.pack_count(n) for x in plan.stages]
    sync = device.empty((max(sum(needed), 1),), kl.i32)
    layout = plan.layout(plan.stages[0]) if plan.stages else Layout(4, 1)
    work = device.empty((layout.places(columns),), plan.storage)
    kernels.load_band[work.shape[0], _WORKGROUP](
        ab, largest, work, sync, LAYOUT=layout, TARGET=target
    )
    for number, stage in enumerate(plan.stages):
        if plan.layout(stage) != layout:
            before, source, layout = layout, work, plan.layout(stage)
            work = device.empty((layout.places(columns),), plan.storage)
            kernels.move_band[work.shape[0], _WORKGROUP](source, work, BEFORE=before, LAYOUT=layout)
        start = sum(needed[:number])
        flags = sync[start : start + needed[number]]
        if plan.in_packs(stage):
            _run_packs(work, flags, n, stage, kept)
        else:
            _run_waves(work, n, stage, layout)
    last = e if n > 1 else None
    kernels.store_bidiagonal[n, _WORKGROUP](work, largest, d, last, LAYOUT=layout, TARGET=target)


def _exponent(storage: DType, u: int) -> int:
    """What the largest element is scaled to; in half, no element can then grow to overflow.

    No element exceeds the largest singular value, which is below (u + 1) times the largest element.
    """
    return 14 - u.bit_length() if storage is kl.f16 else _SCALED_TO


def _run_packs(work: Any, sync: Any, n: int, stage: Stage, kept: kernels.Kept) -> None:
    packs = groups(stage.pack_count(n))
    match stage.residency:
        case "vectors":
            ahead = {"SWEEPS": stage.sweeps, "EVERY": stage.every}
            kernels.vector_packs[packs, 1](work, sync, n, kept, SHAPE=stage.vector_shape, **ahead)
        case "products":
            tiles = {"SHAPE": stage.product_shape, "SWEEPS": stage.sweeps}
            product_packs[packs, 1](work, sync, n, **tiles)
        case "panels":
            panel_packs[packs, stage.items](work, sync, n, SHAPE=stage.panel_shape)
        case "ring" | "direct":
            ring_packs[packs, stage.ring.items](work, sync, n, kept, RING=stage.ring)


def _run_waves(work: Any, n: int, stage: Stage, layout: Layout) -> None:
    b = stage.bandwidth
    for wave in range(waves_of(n, stage)):
        first, last = sweeps_of_wave(wave, n, stage)
        if first > last:
            continue
        sweeps = groups(last - first + 1)
        match stage.residency:
            case "panels":
                panels = {"SHAPE": stage.panel_shape, "TRANSPOSED": wave % 2 == 1}
                panel_wave[sweeps, stage.items](work, n, wave, first, **panels)
            case _:
                shape = stage.item_shape(layout)
                kernels.item_wave[sweeps, stage.items](work, n, wave, first, b, SHAPE=shape)
