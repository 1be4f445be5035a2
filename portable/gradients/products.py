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
from portable.gradients.records import Gradients
from portable.gradients.sums import add_to
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
    first, second, written = tape.value(a), tape.value(b), tape.value(result)
    alpha = float(kwargs.get("alpha", 1))

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        into = gradients.of(first)
        if into is not None and into.size:
            add_to(into, gemm(total, in_precision_of(second, total).T, alpha=alpha))
        into = gradients.of(second)
        if into is not None and into.size:
            add_to(into, gemm(in_precision_of(first, total).T, total, alpha=alpha))

    return done(tape, through, [first, second], result, [first, second])


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
    written = tape.value(result)
    axis = 1 if kwargs.get("layout", "NC").startswith("NC") else x.ndim - 1
    by_images, by_filters = _BACK[function.__name__]

    def through(gradients: Gradients) -> None:
        total = gradients.taken(written)
        if total is None or not total.size:
            return
        into = gradients.of(images)
        if into is not None and into.size:
            shape = tuple(x.shape)
            add_to(
                into,
                by_images(total, in_precision_of(filters, total), shape, **options),
            )
        into = gradients.of(filters)
        if into is not None and into.size:
            seen, shape = in_precision_of(images, total), tuple(w.shape)
            made = by_filters(seen, total, shape, **options)
            add_to(into, made)
        into = None if bias is None else gradients.of(reads[2])
        if into is not None:
            before, count, after = three_axes(tuple(total.shape), axis)
            sums = reduce(total.reshape((before, count, after)), axis=2)
            add_to(into, reduce(sums, axis=0))

    return done(tape, through, reads, result, [images, filters])
