"""The ``fft`` extension of the Array API."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Literal

import numpy as np

from portable import dtypes
from portable.array.array import Array
from portable.array.base.defaults import default_dtype, device_for
from portable.array.creation import zeros
from portable.array.fourier import one_axis
from portable.array.functions.joining import roll
from portable.array.functions.manipulation import astype
from portable.errors import DTypeError, ShapeError
from portable.primitives.base.operands import normalized_axes, normalized_axis
from portable.primitives.maps.elementwise import check_arrays, check_operands

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm = Literal["backward", "ortho", "forward"]


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The discrete Fourier transform along an axis.

    Elements are ``sum(x[j] * exp(-2 pi i j k / n) for j in range(n))``, by the Stockham form of the
    fast transform (Van Loan 1992; Govindaraju et al. 2008), which takes time proportional to
    ``n log n`` for every n: lengths with prime factors above 13 by the chirp transform (Bluestein
    1970). The relative error in the 2-norm stays below ``2 eps sqrt(1 + log2(n))``, `eps` being
    that of the type; 0.75 in the place of 2 is the most that was seen.

    Parameters
    ----------
    x : Array
        Real or complex, of 32-bit or 64-bit parts.
    n : int, optional
        Length, to which the axis is cut or filled up with zeros; by default the axis's own.
    axis : int
        The axis, counted from the end if negative.
    norm : {"backward", "ortho", "forward"}
        What the result is divided by: nothing, ``sqrt(n)``, or n.

    Returns
    -------
    Array
        Complex, of the shape of `x` but for the axis, which is n long.

    Raises
    ------
    DTypeError
        If `x` holds anything else.
    BadIndexError
        If there is no such axis.
    ValueError
        If n is below 1, or `norm` is another word.
    """
    return _along("fft", x, one_axis.COMPLEX, n, axis, inverse=False, norm=norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `fft`, which has the same parameters.

    "backward" divides by n, "ortho" by ``sqrt(n)``, "forward" by nothing.

    Parameters
    ----------
    x : Array
        Real or complex, of 32-bit or 64-bit parts.
    n : int, optional
        The length: `x` is cut, or filled up with zeros; by default its own.
    axis : int
        Along which.
    norm : {"backward", "ortho", "forward"}
        By what results are divided: see `fft`.
    """
    return _along("ifft", x, one_axis.COMPLEX, n, axis, inverse=True, norm=norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """`fft` of real numbers: its first ``n // 2 + 1`` elements, which the others mirror.

    Of an even length it takes about half the time, since pairs of numbers are transformed as
    complex ones (Cooley, Lewis and Welch 1970); of an odd length that has a large prime factor or
    takes several passes over memory, pairs of contiguous rows are. So it is with `irfft`, `hfft`
    and `ihfft`. Errors are bounded as those of `fft`.

    Parameters
    ----------
    x : Array
        Real, of 32 or 64 bits.
    n : int, optional
        The length: `x` is cut, or filled up with zeros; by default its own.
    axis : int
        Along which.
    norm : {"backward", "ortho", "forward"}
        By what results are divided: see `fft`.
    """
    return _along("rfft", x, one_axis.FROM_REAL, n, axis, inverse=False, norm=norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `rfft`: n real numbers, ``2 * (m - 1)`` of m by default.

    The imaginary parts of the first element, and of element ``n / 2``, do not count.

    Parameters
    ----------
    x : Array
        Complex, the first half of what mirrors itself.
    n : int, optional
        The length of the result.
    axis : int
        Along which.
    norm : {"backward", "ortho", "forward"}
        By what results are divided: see `ifft`.
    """
    return _along("irfft", x, one_axis.TO_REAL, n, axis, inverse=True, norm=norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """`fft` of a signal with Hermitian symmetry of which `x` is the first half: real numbers.

    Parameters are those of `irfft`, norms those of `fft`.

    Parameters
    ----------
    x : Array
        Complex, the first half of a signal with Hermitian symmetry.
    n : int, optional
        The length of the result, ``2 * (m - 1)`` of m by default.
    axis : int
        Along which.
    norm : {"backward", "ortho", "forward"}
        By what results are divided: see `fft`.
    """
    return _along("hfft", x, one_axis.TO_REAL, n, axis, inverse=False, norm=norm)


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `hfft`: the first ``n // 2 + 1`` elements of `ifft` of real numbers.

    Parameters
    ----------
    x : Array
        Real, of 32 or 64 bits.
    n : int, optional
        The length: `x` is cut, or filled up with zeros; by default its own.
    axis : int
        Along which.
    norm : {"backward", "ortho", "forward"}
        By what results are divided: see `ifft`.
    """
    return _along("ihfft", x, one_axis.FROM_REAL, n, axis, inverse=True, norm=norm)


def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """`fft` along several axes.

    Parameters
    ----------
    x : Array
        Real or complex, of 32-bit or 64-bit parts.
    s : sequence of int, optional
        The length along each axis; -1 stands for the axis's own.
    axes : sequence of int, optional
        The axes; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}
        As of `fft`, for the product of the lengths.

    Raises
    ------
    ShapeError
        If `s` and `axes` differ in length.
    """
    return _along_several("fftn", x, _lines(x, s, axes), False, norm)


def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse of `fftn`, which has the same parameters.

    Parameters
    ----------
    x : Array
        Real or complex, of 32-bit or 64-bit parts.
    s : sequence of int, optional
        The length along each axis; -1 stands for the axis's own.
    axes : sequence of int, optional
        The axes; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}
        As of `fftn`, axis by axis.
    """
    return _along_several("ifftn", x, _lines(x, s, axes), True, norm)


def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """`rfft` along the last of several axes, `fft` along the others.

    Parameters
    ----------
    x : Array
        Real, of 32 or 64 bits.
    s : sequence of int, optional
        The length along each axis; -1 stands for the axis's own.
    axes : sequence of int, optional
        The axes; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}
        As of `fftn`, axis by axis.
    """
    _check("rfftn", x, one_axis.FROM_REAL)
    *others, (last, length) = _lines(x, s, axes, at_least_one="rfftn")
    x = _along("rfftn", x, one_axis.FROM_REAL, length, last, inverse=False, norm=norm)
    return _along_several("rfftn", x, others, False, norm)


def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse of `rfftn`; the last axis is as long as `irfft` makes it.

    Parameters
    ----------
    x : Array
        Complex.
    s : sequence of int, optional
        The length of the result along each axis; -1 stands for the axis's own.
    axes : sequence of int, optional
        The axes; by default all, or the last ones if `s` is given.
    norm : {"backward", "ortho", "forward"}
        As of `fftn`, axis by axis.
    """
    _check("irfftn", x, one_axis.TO_REAL)
    *others, (last, length) = _lines(x, s, axes, at_least_one="irfftn")
    x = _along_several("irfftn", x, others[::-1], True, norm)
    return _along("irfftn", x, one_axis.TO_REAL, length, last, inverse=True, norm=norm)


def _check(name: str, x: Any, form: str) -> None:
    """Refuses what is no array, or one of other numbers than can be transformed."""
    check_operands(name, (x,))
    if x.dtype not in one_axis.COMPLEX_OF or (form == one_axis.FROM_REAL and x.dtype.is_complex):
        wanted = "float32 and float64" if form == one_axis.FROM_REAL else "real and complex numbers"
        wanted += "" if form == one_axis.FROM_REAL else " of 32-bit and 64-bit parts"
        raise DTypeError(f"{name} takes {wanted}, not {x.dtype.name}")


def _along(
    name: str, x: Any, form: str, n: int | None, axis: int, *, inverse: bool, norm: str
) -> Array:
    """The transform that users call `name`, along an axis."""
    _check(name, x, form)
    axis = normalized_axis(axis, x.ndim)
    n = _length(name, x.shape[axis], form, n)
    scale = _scale(name, n, inverse, norm)
    if not x.size:
        kind = one_axis.COMPLEX_OF[x.dtype]
        shape = (*x.shape[:axis], one_axis.extent_of(form, n), *x.shape[axis + 1 :])
        return zeros(shape, dtype=kind.real if form == one_axis.TO_REAL else kind, device=x.device)
    if form == one_axis.TO_REAL:
        x = astype(x, one_axis.COMPLEX_OF[x.dtype], copy=False)
    return one_axis.transformed(x, form, n, axis, inverse, scale)  # type: ignore[no-any-return]


def _along_several(
    name: str, x: Any, lines: Sequence[tuple[int, int | None]], inverse: bool, norm: str
) -> Array:
    """Complex transforms along several axes, the last one first."""
    _check(name, x, one_axis.COMPLEX)
    for axis, n in reversed(lines):
        x = _along(name, x, one_axis.COMPLEX, n, axis, inverse=inverse, norm=norm)
    return x if x.dtype.is_complex else astype(x, one_axis.COMPLEX_OF[x.dtype])  # type: ignore[no-any-return]


def _length(name: str, extent: int, form: str, n: int | None) -> int:
    if n is None:
        n = 2 * (extent - 1) if form == one_axis.TO_REAL else extent
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


def _lines(
    x: Array, s: Sequence[int] | None, axes: Sequence[int] | None, at_least_one: str = ""
) -> list[tuple[int, int | None]]:
    """The axes and the lengths along them, None for their own."""
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    if s is not None and len(s) != len(axes):
        raise ShapeError(f"{len(s)} lengths (s) for {len(axes)} axes; give one for each")
    if at_least_one and not axes:
        raise ShapeError(f"{at_least_one} takes at least one axis")
    lengths = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    return list(zip(axes, lengths, strict=True))


def _frequencies(made: Any, dtype: Any, device: Any) -> Array:
    target = device_for(device)
    kind = default_dtype(target, "f") if dtype is None else dtypes.dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"frequencies are real floating-point numbers, not {kind.name}")
    return target.from_numpy(made.astype(kind.numpy))  # type: ignore[no-any-return]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies that `fft` gives, `d` being the time between samples.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        The time between samples.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return _frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies that `rfft` gives, `d` being the time between samples.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        The time between samples.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return _frequencies(np.fft.rfftfreq(n, d), dtype, device)


def fftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """Frequency zero moved to the middle along axes (None: all).

    Parameters
    ----------
    x : Array
        Frequencies as `fft` orders them; any shape and dtype.
    axes : int or tuple of int, optional
        Which.

    Returns
    -------
    Array
        A new one.

    Raises
    ------
    BadIndexError
        If there is no such axis.
    """
    check_arrays("fftshift", x)
    places = normalized_axes(axes, x.ndim)
    return roll(x, tuple(x.shape[a] // 2 for a in places), axis=places)


def ifftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """The inverse of `fftshift`.

    Parameters
    ----------
    x : Array
        Frequencies as `fftshift` orders them; any shape and dtype.
    axes : int or tuple of int, optional
        Which; by default all.

    Returns
    -------
    Array
        A new one.

    Raises
    ------
    BadIndexError
        If there is no such axis.
    """
    check_arrays("ifftshift", x)
    places = normalized_axes(axes, x.ndim)
    return roll(x, tuple(-(x.shape[a] // 2) for a in places), axis=places)
