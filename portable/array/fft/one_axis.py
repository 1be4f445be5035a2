"""Transforms along one axis of an array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod, sqrt
from typing import TYPE_CHECKING, Any, Final

from portable.array.base.geometry import normalized_axis
from portable.array.base.recipe import Plans, Recipe
from portable.array.creation import zeros
from portable.array.engine import check_operands
from portable.array.fft.access import MIRRORED
from portable.array.fft.chirp import chirp_transform
from portable.array.fft.ends import Ends, with_few_dimensions
from portable.array.fft.halves import transform_from_real, transform_to_real
from portable.array.fft.passes import transform
from portable.array.fft.plan import is_smooth
from portable.dtypes import complex64, complex128, float32, float64
from portable.errors import DTypeError

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["COMPLEX", "COMPLEX_OF", "FROM_REAL", "TO_REAL", "along", "check"]

COMPLEX: Final = "complex"
"""Transforms of all numbers."""
FROM_REAL: Final = "from real"
"""Transforms of real numbers into half of a Hermitian row."""
TO_REAL: Final = "to real"
"""Transforms of half of a Hermitian row into real numbers."""

COMPLEX_OF: Final = {
    float32: complex64,
    complex64: complex64,
    float64: complex128,
    complex128: complex128,
}
"""The type to compute in, for each that can be transformed."""


def check(name: str, x: Any, form: str) -> None:
    """Refuses what cannot be transformed.

    Raises
    ------
    TypeError
        If it is no array.
    DTypeError
        If it is one of other numbers.
    """
    check_operands(name, (x,))
    if x.dtype not in COMPLEX_OF or (form == FROM_REAL and x.dtype.is_complex):
        wanted = "float32 and float64" if form == FROM_REAL else "real and complex numbers"
        wanted += "" if form == FROM_REAL else " of 32-bit and 64-bit parts"
        raise DTypeError(f"{name} takes {wanted}, not {x.dtype.name}")


def along(
    name: str, x: Any, form: str, n: int | None, axis: int, *, inverse: bool, norm: str
) -> Array:
    """One of the transforms of `portable.array.fft` along an axis.

    Parameters
    ----------
    name : str
        As users call it.
    x : Array
        The numbers.
    form : str
        `COMPLEX`, `FROM_REAL` or `TO_REAL`.
    n : int or None
        Length.
    axis : int
        The axis.
    inverse : bool
        Whether the exponent's sign is plus.
    norm : str
        "backward", "ortho" or "forward".
    """
    check(name, x, form)
    axis = normalized_axis(axis, x.ndim)
    n = _length(name, x.shape[axis], form, n)
    scale = _scale(name, n, inverse, norm)
    return _plans(x, form, n, axis, inverse, scale)  # type: ignore[no-any-return]


def _length(name: str, extent: int, form: str, n: int | None) -> int:
    if n is None:
        n = 2 * (extent - 1) if form == TO_REAL else extent
    try:
        n = int(n.__index__())
    except AttributeError:
        raise TypeError(f"{name} takes an integer as length, not {n!r}") from None
    if n < 1:
        raise ValueError(f"{name} of {n} data points; give a length n of 1 or more")
    return n


def _scale(name: str, n: int, inverse: bool, norm: str) -> float:
    if norm == "ortho":
        return 1 / sqrt(n)
    if norm not in ("backward", "forward"):
        raise ValueError(f"{name} has the norms backward, ortho and forward, not {norm!r}")
    return 1 / n if inverse == (norm == "backward") else 1.0


def _written(x: Any, form: str, n: int, axis: int, inverse: bool, scale: float) -> Any:
    """How to transform arrays like this one."""
    kind = COMPLEX_OF[x.dtype]
    extent = n // 2 + 1 if form == FROM_REAL else n
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    result = kind.real if form == TO_REAL else kind
    if not x.size or not prod(shape):
        return lambda x: zeros(shape, dtype=result, device=x.device)
    recipe = Recipe(x)
    out = recipe.empty(shape, result)
    source = _as_rows(x, axis, n // 2 + 1 if form == TO_REAL else n)
    ends = Ends(inverse, conjugate_after=inverse, scale=scale)
    if form == TO_REAL and n % 2:
        ends = replace(ends, real=MIRRORED, length=n)
    _way(form, n)(recipe, source, _as_rows(out, axis, extent), n, kind, ends)
    return recipe.finish(out)


def _way(form: str, n: int) -> Callable[..., None]:
    """Which transform of rows it is."""
    if form != COMPLEX and n % 2 == 0:
        return transform_from_real if form == FROM_REAL else transform_to_real
    return transform if is_smooth(n) else chirp_transform


def _as_rows(x: Any, axis: int, most: int) -> Any:
    """The axis last and no longer than `most`, the others before it, as few as possible."""
    order = [*(a for a in range(x.ndim) if a != axis), axis]
    shape, strides = [x.shape[a] for a in order], [x.strides[a] for a in order]
    shape[-1] = min(shape[-1], most)
    return with_few_dimensions(x.viewed(tuple(shape), tuple(strides)))


_plans = Plans(_written)
