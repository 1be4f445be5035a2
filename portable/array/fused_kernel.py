"""The one kernel behind every fused function."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, taken, unravelled

__all__ = ["MOST_INPUTS", "MOST_OUTPUTS", "fused"]

MOST_INPUTS = 12
MOST_OUTPUTS = 4


@function
def wrapped(x: Any, kind: Any) -> Any:
    """An integer as memory of 8 or 16 bits would give it back."""
    if kind is None:
        return x
    if kind == kl.u8:
        return x & 255
    if kind == kl.u16:
        return x & 65535
    if kind == kl.i8:
        return (x << 24) >> 24
    return (x << 16) >> 16


@function
def operand(values: Any, source: Any, lanes: Any) -> Any:
    """A value converted, or a constant."""
    if len(source) == 3:
        kind = source[1]
        if kind.is_complex:
            real, imag = source[0]
            return kl.complex(kl.cast(real, kind.real), kl.cast(imag, kind.real))
        constant = kl.cast(source[0], kind)
        return kl.splat(constant, lanes) if lanes > 1 else constant
    value = values[source[0]]
    return value if source[1] is None else kl.cast(value, source[1])


@function
def evaluated(arrays: Any, outer: Any, j: Any, lanes: Any, HOW: Any, STEPS: Any) -> Any:
    """All values: the inputs' elements, or `lanes` of them, and the results of the steps."""
    values = ()
    for n in kl.static_range(len(HOW)):
        values = (*values, taken(arrays[n], HOW[n], None, outer, j, lanes))  # type: ignore[assignment]
    for n in kl.static_range(len(STEPS)):
        does, sources, kind = STEPS[n]
        a = operand(values, sources[0], lanes)
        if len(sources) == 1:
            done = does(a)
        elif len(sources) == 2:
            done = does(a, operand(values, sources[1], lanes))
        else:
            b = operand(values, sources[1], lanes)
            done = does(a, b, operand(values, sources[2], lanes))
        values = (*values, wrapped(done, kind))  # type: ignore[assignment]
    return values


@kernel
def fused(
    in0: Any,
    in1: Any,
    in2: Any,
    in3: Any,
    in4: Any,
    in5: Any,
    in6: Any,
    in7: Any,
    in8: Any,
    in9: Any,
    in10: Any,
    in11: Any,
    out0: Any,
    out1: Any,
    out2: Any,
    out3: Any,
    *,
    HOW: Any,
    STEPS: Any,
    RESULTS: Any,
    LANES: int,
    CHUNK: int,
    ROWS: int,
    STREAMING: bool,
) -> None:
    """Does `STEPS` for each element and keeps the values numbered `RESULTS`.

    Work is shared as in `portable.primitives.maps.elementwise_kernel.elementwise`. Inputs and
    outputs beyond those in use are None.
    """
    arrays = (in0, in1, in2, in3, in4, in5, in6, in7, in8, in9, in10, in11)
    results = (out0, out1, out2, out3)
    inner = out0.shape[out0.ndim - 1]
    lead = out0.shape[: out0.ndim - 1]
    rows = product_of(lead)
    start = kl.global_id(0) * CHUNK
    first = kl.global_id(1) * ROWS
    if start < inner:
        stop = kl.minimum(start + CHUNK, inner)
        whole = start + (stop - start) // LANES * LANES
        copies = 1 if CHUNK == LANES else 0
        for row in kl.range(first, kl.minimum(first + ROWS, rows), unroll=copies):
            outer = unravelled(row, lead)
            if LANES > 1:
                for j in kl.range(start, whole, LANES, unroll=copies):
                    values = evaluated(arrays, outer, j, LANES, HOW, STEPS)
                    for k in kl.static_range(len(RESULTS)):
                        kl.vstore(results[k], *outer, j, values[RESULTS[k]], streaming=STREAMING)
            for j in kl.range(whole if LANES > 1 else start, stop, unroll=copies):
                values = evaluated(arrays, outer, j, 1, HOW, STEPS)
                for k in kl.static_range(len(RESULTS)):
                    results[k][*outer, j] = values[RESULTS[k]]
