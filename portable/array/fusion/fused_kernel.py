"""The one kernel behind every fused function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import Body, taken

MOST_INPUTS = 12
MOST_OUTPUTS = 4


@function
def wrapped(x: kl.Scalar, kind: Any) -> Any:
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
def operand(values: tuple[kl.Scalar, ...], source: Any, lanes: int) -> Any:
    """A value converted, or a constant."""
    if len(source) == 3:
        kind = source[1]
        if kind.is_complex:
            real, imag = source[0]
            return kl.complex(kl.cast(real, kind.real), kl.cast(imag, kind.real))
        return kl.splat(kl.cast(source[0], kind), lanes)
    value = values[source[0]]
    return value if source[1] is None else kl.cast(value, source[1])


@dataclass(frozen=True)
class Steps:
    """What a fused function does to each element; a constant of kernels.

    Attributes
    ----------
    how : tuple of str
        Of each input how it is to be read, as in `portable.primitives.maps.elementwise_kernel`.
    steps : tuple
        Of each step the operation, its operands, as `operand` takes them, and the integer that the
        result would be in memory, or None. Inputs and results of steps are numbered in this order.
    """

    how: Any
    steps: Any

    def values(self, arrays: Any, outer: tuple[kl.Scalar, ...], j: kl.Scalar, lanes: int) -> Any:
        """All values: the inputs' elements, or `lanes` of them, and the results of the steps."""
        values = [
            taken(x, how, None, outer, j, lanes) for x, how in zip(arrays, self.how, strict=True)
        ]
        for does, sources, kind in self.steps:
            done = does(*[operand(values, source, lanes) for source in sources])
            values = (*values, wrapped(done, kind))  # type: ignore[assignment]
        return values


@dataclass(frozen=True)
class _Elements(Body):
    """What a sweep does to one element of each array, or to a vector of them."""

    steps: Steps
    numbers: Any
    inputs: Any
    outs: Any
    streaming: bool

    def do(self, outer: tuple[kl.Scalar, ...], row: Any, j: kl.Scalar, lanes: int) -> None:
        """Works out all values and keeps those of the `numbers`."""
        values = self.steps.values(self.inputs, outer, j, lanes)
        for k in kl.static_range(len(self.numbers)):
            kept = values[self.numbers[k]]
            kl.vstore(self.outs[k], *outer, j, kept, streaming=self.streaming)


@kernel
def fused(
    inputs: Any, outs: tuple[kl.Array, ...], *, STEPS: Steps, RESULTS: Any, SHARE: Any
) -> None:
    """Does `STEPS` for each element and keeps the values numbered `RESULTS`."""
    SHARE.sweep(outs[0].shape, _Elements(STEPS, RESULTS, inputs, outs, SHARE.streaming))
