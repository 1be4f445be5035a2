"""The gradients of a tape's arrays while they grow, and how they are given back."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable import lang as kl
from portable.dtypes import DType, dtype, float32
from portable.lang.kernel import kernel
from portable.namespace import device_of
from portable.primitives import copy


@kernel
def _add(x: kl.Array, out: kl.Array) -> None:
    """Adds to each element."""
    i = kl.global_id(0)
    out[i] += x[i]


@kernel
def _set(value: kl.Scalar, out: kl.Array) -> None:
    """Makes each element a number, which no copy has to bring."""
    out[kl.global_id(0)] = value


@kernel
def _join(parts: kl.Array, out: kl.Array) -> None:
    """Complex numbers of pairs."""
    i = kl.global_id(0)
    out[i] = kl.complex(parts[i, 0], parts[i, 1])


@kernel
def _part(x: kl.Array, out: kl.Array) -> None:
    """Pairs of complex numbers."""
    i = kl.global_id(0)
    out[i, 0] = kl.real(x[i])
    out[i, 1] = kl.imag(x[i])


def nought_for(x: Any, value: float | None = 0.0) -> Any:
    """A gradient of nought for an array: single precision for half, pairs for complex numbers.

    Of another number where `value` says so, of whatever is in memory where that is None.
    """
    kind, shape = dtype(x.dtype), tuple(x.shape)
    real = float32 if kind.itemsize == 2 else kind.real
    shape = (*shape, 2) if kind.is_complex else shape
    return _filled(x, shape, real, value)


def _filled(like: Any, shape: tuple[int, ...], kind: DType, value: float | None = 0.0) -> Any:
    if isinstance(like, np.ndarray):
        return np.empty(shape, kind.numpy) if value is None else np.full(shape, value, kind.numpy)
    made = device_of(like).empty(shape, kind)
    return made if value is None else set_to(made, value)


def set_to(x: Any, value: float) -> Any:
    """An array in C order whose elements were made a number."""
    if x.size:
        _set[x.size](value, flat(x))
    return x


def flat(x: Any, last: int = 0) -> Any:
    """An array in C order as one of one dimension, but for so many last ones."""
    kept = tuple(x.shape[len(x.shape) - last :])
    return x.reshape((-1, *kept))


def add_to(total: Any, x: Any) -> None:
    """Adds an array to another one of its shape, both in C order."""
    if total.size:
        _add[total.size](flat(x), flat(total))


def as_given(gradient: Any, x: Any) -> Any:
    """A gradient as an array of the dtype of `x`."""
    kind = dtype(x.dtype)
    if kind.is_complex:
        out = _filled(x, tuple(x.shape), kind)
        if out.size:
            _join[out.size](flat(gradient, 1), flat(out))
        return out
    if dtype(gradient.dtype) is kind:
        return gradient
    out = _filled(x, tuple(x.shape), kind)
    return copy(gradient, out) if out.size else out


def as_pairs(x: Any) -> Any:
    """A seed as gradients are kept: pairs of a complex one."""
    kind = dtype(x.dtype)
    if not kind.is_complex:
        return x
    out = _filled(x, (*x.shape, 2), kind.real)
    if x.size:
        _part[x.size](flat(copy(x)), flat(out, 1))
    return out
