"""What goes back through products of matrices and convolutions."""

from __future__ import annotations

from typing import Any, Final

from portable import recording
from portable.conv import (
    conv1d_input_gradient,
    conv1d_weight_gradient,
    conv2d_input_gradient,
    conv2d_weight_gradient,
    conv3d_input_gradient,
    conv3d_weight_gradient,
)
from portable.gradients.memory_of import is_real
from portable.gradients.recorders import TapeLike, done, in_precision_of, three_axes, unknown
from portable.linalg import gemm
from portable.primitives import reduce

_BACK: Final[dict[str, tuple[Any, Any]]] = {
    "conv1d": (conv1d_input_gradient, conv1d_weight_gradient),
    "conv2d": (conv2d_input_gradient, conv2d_weight_gradient),
    "conv3d": (conv3d_input_gradient, conv3d_weight_gradient),
}
"""By images, and by filters."""


def multiplied(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A product of two matrices."""
    a, b = args
    plain = all(kwargs.get(name) is None for name in ("c", "bias", "activation", "out"))
    if not plain or kwargs.get("beta") or a.ndim != 2 or b.ndim != 2 or not is_real(a):
        why = " with c, bias, activation, out or more dimensions"
        return unknown(tape, function, args, kwargs, why)
    with recording.unwatched():
        result = function(*args, **kwargs)
    first, second = tape.value(a), tape.value(b)
    alpha = float(kwargs.get("alpha", 1))

    def shares(total: Any) -> Any:
        yield lambda: gemm(total, in_precision_of(second, total).T, alpha=alpha)
        yield lambda: gemm(in_precision_of(first, total).T, total, alpha=alpha)

    return done(tape, shares, [first, second], result, [first, second])


def convolved(tape: TapeLike, function: Any, args: Any, kwargs: Any) -> Any:
    """A convolution of lines, images or volumes, and a bias."""
    known = {"stride", "padding", "dilation", "groups", "layout", "algorithm", "precision"}
    given = {name for name, x in kwargs.items() if x is not None}
    if len(args) != 2 or given - known - {"bias"}:
        return unknown(tape, function, args, kwargs, " with scale, residual, activation or out")
    x, w = args
    bias = kwargs.get("bias")
    options = {name: y for name, y in kwargs.items() if name in known - {"algorithm"}}
    with recording.unwatched():
        result = function(*args, **kwargs)
    images, filters = tape.value(x), tape.value(w)
    reads = [images, filters] + ([] if bias is None else [tape.value(bias)])
    axis = 1 if kwargs.get("layout", "NC").startswith("NC") else x.ndim - 1
    by_images, by_filters = _BACK[function.__name__]

    def shares(total: Any) -> Any:
        seen, weights = in_precision_of(images, total), in_precision_of(filters, total)
        yield lambda: by_images(total, weights, tuple(x.shape), **options)
        yield lambda: by_filters(seen, total, tuple(w.shape), **options)
        sides = three_axes(tuple(total.shape), axis)
        yield lambda: reduce(reduce(total.reshape(sides), axis=2), axis=0)

    return done(tape, shares, reads, result, [images, filters])
