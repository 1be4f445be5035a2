"""Triangular systems."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from portable.backend import Device
from portable.interchange.libraries import takes_other_libraries
from portable.lang.launch.geometry import groups
from portable.linalg.factorisations.layout import LONG_SEGMENT, Layout, layout_of
from portable.linalg.factorisations.matrices import (
    checked_dtype,
    copied,
    order_of,
    workspace,
)
from portable.linalg.factorisations.products import subtract_product
from portable.linalg.factorisations.right_sides import right_sides
from portable.linalg.factorisations.triangle_kernels import (
    SEGMENT,
    Triangle,
    solve_segments,
    solve_strips,
)
from portable.linalg.products.repeats import cached_plan, repeated
from portable.namespace import device_of_arrays
from portable.typing import ArrayT


@takes_other_libraries
def solve_triangular(
    a: ArrayT,
    b: ArrayT,
    *,
    upper: bool = False,
    transposed: bool = False,
    unit_diagonal: bool = False,
) -> ArrayT:
    """The solution of ``a @ x = b`` for triangular matrices.

    Parameters
    ----------
    a : array, shape (..., n, n)
        ``float16``, ``float32``, ``float64``, ``complex64`` or ``complex128``, any strides; of one
        triangle nothing is read. It is not changed, nor is `b`.
    b : array, shape (..., n, k) or (n,)
        Of the same dtype and device: right-hand sides as columns, or one for all matrices. Leading
        dimensions broadcast with those of `a`.
    upper : bool
        Whether the upper triangle of `a` is meant, and not the lower one.
    transposed : bool
        Whether ``a^H @ x = b`` is solved.
    unit_diagonal : bool
        Whether ones stand for the diagonal, which is not read.

    Returns
    -------
    array, shape (..., n, k) or (..., n)
        The solution; ``float32`` for ``float16``. Where a number on the diagonal is 0 it is not
        finite, as by BLAS.

    Raises
    ------
    ShapeError, DTypeError, DeviceMismatchError
        For shapes that do not fit together, other or mixed dtypes, arrays of two devices.

    Notes
    -----
    By halves: substitution in small triangles, and products. ``|a x - b|`` is bounded by a modest
    multiple of n units of roundoff times ``|a| |x|``, however ill-conditioned `a` is. Copies of
    both are made.

    Examples
    --------
    >>> import numpy as np
    >>> import portable
    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> portable.linalg.solve_triangular(a, np.array([2.0, 9.0]))
    array([1., 2.])
    """
    device = device_of_arrays(a, b)
    kind, n = checked_dtype("solve_triangular", a=a, b=b), order_of("solve_triangular", a)
    sides = right_sides("solve_triangular", a, b)
    if not sides.size:
        return device.empty(sides.shape, kind)  # type: ignore[no-any-return]
    which = Triangle(upper != transposed, transposed, transposed, unit_diagonal)
    size = sides.batch, n, sides.columns
    room = sides.batch * n * (n + sides.columns) * kind.itemsize
    key = "triangles", size, kind, which

    def made() -> tuple[Any, Any, Callable[[], object]]:
        triangles = workspace(device, sides.batch, n, n, kind)
        work = workspace(device, *size, kind)
        layout = layout_of(kind, device.capabilities)
        run = partial(solved_in_place, device, triangles, work, which, layout)
        return triangles, work, repeated(device, run)

    triangles, work, run = cached_plan(device, key, made, room)
    copied(device, a, triangles, from_lead=sides.lead)
    copied(device, b[:, None] if sides.is_vector else b, work, from_lead=sides.lead)
    run()
    return sides.result(device, work)  # type: ignore[no-any-return]


def solved_in_place(device: Device, t: Any, b: Any, which: Triangle, layout: Layout) -> None:
    """``B = T^-1 B`` for triangles of a batch.

    Parameters
    ----------
    device : Device
        Where.
    t : array, shape (batch, m, m)
        The triangles; from row and column n on they are not read.
    b : array, shape (batch, n, k)
        Is overwritten.
    which : Triangle
        Which triangle, and of what.
    layout : Layout
        The layout.
    """
    batch, n, columns = (int(x) for x in b.shape)
    if 0 in b.shape:
        return
    alone = device.capabilities.single_work_items
    # Such triangles lie the way a lone work-item reads them: no copy in local memory bounds them.
    direct = alone and which.turned and not which.backward and n % LONG_SEGMENT == 0
    if n > (layout.block if direct else layout.solved):
        middle = layout.solved * -(-n // (2 * layout.solved))
        halves = slice(0, middle), slice(middle, n)
        before, after = reversed(halves) if which.backward else halves
        solved_in_place(device, t[:, before, before], b[:, before], which, layout)
        block = t[:, before, after] if which.turned else t[:, after, before]
        subtract_product(device, b[:, after], block, b[:, before], adjoint=which.turned)
        solved_in_place(device, t[:, after, after], b[:, after], which, layout)
        return
    if alone:
        strips = -(-columns // layout.strip)
        solve_strips[groups(batch * strips), 1](
            t[:, :n, :n], b, strips, LAYOUT=layout, WHICH=which, COPIED=not direct
        )
        return
    edge = LONG_SEGMENT
    while edge < n:
        edge *= 2
    strip = layout.items * SEGMENT // edge
    strips = -(-columns // strip)
    solve_segments[groups(batch * strips), edge * strip // SEGMENT](
        t[:, :n, :n], b, strips, WHICH=which, EDGE=edge, STRIP=strip
    )
