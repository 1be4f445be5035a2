"""Norms of vectors and matrices, asked for as NumPy's ``linalg.norm``."""

from __future__ import annotations

from typing import Any, Literal

from portable.errors import ShapeError
from portable.interchange.libraries import runs_where_chosen
from portable.numerics.namespaces import axes_of, floating, namespace_of


@runs_where_chosen
def norm(
    x: Any,
    /,
    ord: float | Literal["fro", "nuc"] | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Any:
    """The norm of vectors or matrices, by `vector_norm` and `matrix_norm` of the array's library.

    Parameters
    ----------
    x : array
        Numbers; integers count as floats.
    ord : float, "fro", "nuc" or None
        Which norm. None: the root of the sum of squares, of all elements where there is no `axis`.
    axis : int, (int, int) or None
        One for vectors, two for matrices. None with an `ord`: an array of one dimension is a
        vector, one of two a matrix.
    keepdims : bool
        Whether these dimensions stay, with an extent of 1.

    Returns
    -------
    array
        Real, of the precision of `x`.

    Raises
    ------
    ShapeError
        For an `ord` of more than two dimensions, or axes that are no one or two.
    """
    xp = namespace_of(x)
    x = floating("norm", xp, x, ("real floating", "complex floating"))
    if axis is None and ord is None:
        return xp.asarray(xp.linalg.vector_norm(x, keepdims=keepdims))
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        order = 2 if ord is None else ord
        return xp.asarray(xp.linalg.vector_norm(x, axis=axes[0], keepdims=keepdims, ord=order))
    if len(axes) != 2:
        raise ShapeError(
            f"norm of a vector or a matrix takes one axis or two, not {axis} of shape "
            f"{tuple(x.shape)}"
        )
    last = xp.moveaxis(x, axes, (-2, -1))
    norms = xp.linalg.matrix_norm(last, ord="fro" if ord is None else ord)
    if keepdims:
        norms = xp.reshape(norms, tuple(1 if a in axes else n for a, n in enumerate(x.shape)))
    return xp.asarray(norms)
