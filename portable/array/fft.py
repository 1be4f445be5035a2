"""The ``fft`` extension of the Array API. All transforms go through the host and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from portable import dtypes
from portable.array.creation import default_dtype, device_for
from portable.array.engine import check_operands
from portable.array.geometry import normalized_axes
from portable.array.manipulation import roll
from portable.errors import DTypeError

if TYPE_CHECKING:
    from portable.array.array import Array

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


def _on_host(
    name: str, function: Callable[..., Any], x: Array, kinds: str, **options: Any
) -> Array:
    """A transform of NumPy's on a copy of the array; the result on its device."""
    device = check_operands(name, (x,))
    if x.dtype.kind not in kinds or x.dtype.itemsize < 4:
        wanted = {"f": "real", "c": "complex", "fc": "real or complex"}[kinds]
        raise DTypeError(f"{name} takes {wanted} floating-point numbers, not {x.dtype.name}")
    found = function(device.to_numpy(x), **options)
    if not x.size:  # which NumPy pads with whatever memory holds
        found[...] = 0
    return device.from_numpy(found)  # type: ignore[no-any-return]


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The transform of complex numbers along an axis. Goes through the host."""
    return _on_host("fft", np.fft.fft, x, "fc", n=n, axis=axis, norm=norm)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `fft`. Goes through the host."""
    return _on_host("ifft", np.fft.ifft, x, "fc", n=n, axis=axis, norm=norm)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """Half of the transform of real numbers; the rest mirrors it. Goes through the host."""
    return _on_host("rfft", np.fft.rfft, x, "f", n=n, axis=axis, norm=norm)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `rfft`. Goes through the host."""
    return _on_host("irfft", np.fft.irfft, x, "fc", n=n, axis=axis, norm=norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The transform of a signal with Hermitian symmetry, which is real. Goes through the host."""
    return _on_host("hfft", np.fft.hfft, x, "fc", n=n, axis=axis, norm=norm)


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Array:
    """The inverse of `hfft`. Goes through the host."""
    return _on_host("ihfft", np.fft.ihfft, x, "f", n=n, axis=axis, norm=norm)


def fftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The transform of complex numbers along several axes (None: all). Goes through the host."""
    return _on_host("fftn", np.fft.fftn, x, "fc", s=s, axes=_axes(s, axes, x), norm=norm)


def ifftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse of `fftn`. Goes through the host."""
    return _on_host("ifftn", np.fft.ifftn, x, "fc", s=s, axes=_axes(s, axes, x), norm=norm)


def rfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The transform of real numbers along several axes (None: all). Goes through the host."""
    return _on_host("rfftn", np.fft.rfftn, x, "f", s=s, axes=_axes(s, axes, x), norm=norm)


def irfftn(
    x: Array,
    /,
    *,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
) -> Array:
    """The inverse of `rfftn`. Goes through the host."""
    return _on_host("irfftn", np.fft.irfftn, x, "fc", s=s, axes=_axes(s, axes, x), norm=norm)


def _axes(s: Sequence[int] | None, axes: Sequence[int] | None, x: Array) -> Sequence[int] | None:
    """The axes that extents are given for: the last ones, if none are named."""
    return range(x.ndim - len(s), x.ndim) if s is not None and axes is None else axes


def _frequencies(made: Any, dtype: Any, device: Any) -> Array:
    target = device_for(device)
    kind = default_dtype(target, "f") if dtype is None else dtypes.dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"frequencies are real floating-point numbers, not {kind.name}")
    return target.from_numpy(made.astype(kind.numpy))  # type: ignore[no-any-return]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies that `fft` gives, `d` being the time between samples."""
    return _frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies that `rfft` gives, `d` being the time between samples."""
    return _frequencies(np.fft.rfftfreq(n, d), dtype, device)


def fftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """Frequency zero moved to the middle along axes (None: all)."""
    places = normalized_axes(axes, x.ndim)
    return roll(x, tuple(x.shape[a] // 2 for a in places), axis=places)


def ifftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """The inverse of `fftshift`."""
    places = normalized_axes(axes, x.ndim)
    return roll(x, tuple(-(x.shape[a] // 2) for a in places), axis=places)
