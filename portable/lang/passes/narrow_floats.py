"""Lowers loads and stores of 8- and 16-bit floats that few languages have to integer words.

bfloat16 is the upper half of a single-precision number, float8_e5m2 that of a half-precision one;
float8_e4m3fn has no infinities (P. Micikevicius et al., "FP8 formats for deep learning",
arXiv 2209.05433). Arithmetic on them is in single precision anyway. Arrays of them become arrays of
words; a load works out the number, a store rounds it to the nearest, ties to even, and what is too
large becomes infinite, or NaN. What moves words without looking at them (copies, matrix units)
stays as it is. Doubles, which become halves too, go by single precision rounded to odd.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from portable import dtypes
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, scalar_of
from portable.lang.passes.bindings import Bindings

_FRACTION: Final = 23
_BIAS: Final = 127
_INFINITY: Final = 0x7F800000
_MAGNITUDE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class _Format:
    """A sign, an exponent of so many bits, and a fraction.

    Attributes
    ----------
    words : DType
        Integers of as many bits.
    fraction : int
        Its bits.
    bias : int
        Of the exponent.
    overflow, nan : int
        What magnitudes too large become, and what is stored for NaN.
    """

    words: dtypes.DType
    fraction: int
    bias: int
    overflow: int
    nan: int

    @property
    def shift(self) -> int:
        """Bits of the fraction that single precision has beyond it."""
        return _FRACTION - self.fraction

    @property
    def sign(self) -> int:
        """The sign's bit."""
        return 1 << self.words.bits - 1

    @property
    def rebias(self) -> int:
        """From its magnitudes, shifted, to those of single precision."""
        return _BIAS - self.bias << _FRACTION

    @property
    def single_range(self) -> bool:
        """Whether its exponents are those of single precision."""
        return self.bias == _BIAS

    @property
    def tick(self) -> float:
        """The least number above 0."""
        return 2.0 ** (1 - self.bias - self.fraction)


_FORMATS: Final = {
    dtypes.bfloat16: _Format(dtypes.uint16, 7, _BIAS, 0x7F80, 0x7FC0),
    dtypes.float8_e4m3fn: _Format(dtypes.uint8, 3, 7, 0x7F, 0x7F),
    dtypes.float8_e5m2: _Format(dtypes.uint8, 2, 15, 0x7C, 0x7E),
}
_NARROW: Final = frozenset({dtypes.float16, *_FORMATS})


def lower_narrow_floats(kernel: Kernel) -> Kernel:
    """The kernel without these types, if it has them."""
    arrays = [*(x for x in kernel.parameters if isinstance(x, Array)), *kernel.arrays]
    narrow = any(x.dtype in _NARROW for x in arrays)
    if not narrow and not any(map(_narrows, walks.all_expressions(kernel.body))):
        return kernel
    kernel = _by_single_precision(kernel)
    words = {x: replace(x, dtype=_FORMATS[x.dtype].words) for x in arrays if x.dtype in _FORMATS}
    return replace(
        kernel,
        parameters=tuple(words.get(x, x) if isinstance(x, Array) else x for x in kernel.parameters),
        arrays=tuple(words.get(x, x) for x in kernel.arrays),
        body=walks.with_arrays(walks.map_block(kernel.body, _lowered), words),
    )


def _narrows(x: e.Expression) -> bool:
    """Whether an expression rounds to a half or a narrower float."""
    return isinstance(x, e.Cast) and (x.storage in _NARROW or scalar_of(x.type) in _NARROW)


def _lowered(x: s.Statement) -> s.Block:
    x = walks.map_operands(x, lambda y: walks.map_expression(y, _rounded))
    match x:
        case s.Load() if x.array.dtype in _FORMATS:
            raw = e.Variable(f"{x.var.name}_bits", nodes.like(x.var.type, dtypes.uint32))
            widened = s.Let(x.var, _number(raw, _FORMATS[x.array.dtype]), x.loc)
            return replace(x, var=raw), widened
        case s.Store() if x.array.dtype in _FORMATS:
            return (replace(x, value=_bits(x.value, _FORMATS[x.array.dtype])),)
        case _:
            return (x,)


def _rounded(x: e.Expression) -> e.Expression:
    """A cast that rounds to such a type, as arithmetic."""
    if not isinstance(x, e.Cast) or x.storage not in _FORMATS:
        return x
    kind = _FORMATS[x.storage]
    return _number(_bits(replace(x, storage=None), kind), kind)


# -- from words to numbers ------------------------------------------------------------------------


def _number(bits: e.Expression, kind: _Format) -> e.Expression:
    """The number that a word stands for."""
    if kind.single_range:
        return _bitcast(nodes.binary("shl", bits, kind.shift), dtypes.float32)
    magnitude = nodes.binary("and", bits, kind.sign - 1)
    small = nodes.binary("mul", nodes.cast(magnitude, dtypes.float32), kind.tick)
    moved = nodes.binary("shl", magnitude, kind.shift)
    normal = nodes.binary("add", moved, kind.rebias)
    is_normal = nodes.compare("ge", magnitude, 1 << kind.fraction)
    value = e.Select(is_normal, normal, _bitcast(small, dtypes.uint32))
    quiet = nodes.constant(_INFINITY | 1 << _FRACTION - 1, bits.type)
    if kind.overflow != kind.nan:
        at_infinity = nodes.compare("eq", magnitude, kind.overflow)
        quiet = e.Select(at_infinity, nodes.constant(_INFINITY, bits.type), quiet)
    value = e.Select(nodes.compare("lt", magnitude, kind.overflow), value, quiet)
    sign = nodes.binary("shl", nodes.binary("and", bits, kind.sign), 32 - kind.words.bits)
    return _bitcast(e.Binary("or", value, sign), dtypes.float32)


# -- from numbers to words ------------------------------------------------------------------------


def _bits(x: e.Expression, kind: _Format) -> e.Expression:
    """The word of the nearest number, to even; NaN stays NaN."""
    bits = _bitcast(nodes.cast(x, dtypes.float32), dtypes.uint32)
    magnitude = nodes.binary("and", bits, _MAGNITUDE)
    odd = nodes.binary("and", nodes.binary("shr", magnitude, kind.shift), 1)
    half = nodes.binary("add", odd, (1 << kind.shift - 1) - 1)
    nearest = nodes.binary("shr", e.Binary("add", magnitude, half), kind.shift)
    bits_so_far: e.Expression = nearest
    if not kind.single_range:
        nearest = nodes.binary("sub", nearest, kind.rebias >> kind.shift)
        least = kind.rebias + (1 << _FRACTION)
        small = e.Select(nodes.compare("lt", magnitude, least), _ticks(magnitude, kind), nearest)
        bits_so_far = nodes.binary("min", small, kind.overflow)
    if kind.overflow != kind.nan:
        is_number = nodes.compare("le", magnitude, _INFINITY)
        bits_so_far = e.Select(is_number, bits_so_far, nodes.constant(kind.nan, bits.type))
    sign = nodes.binary("and", nodes.binary("shr", bits, 32 - kind.words.bits), kind.sign)
    return e.Binary("or", bits_so_far, sign)


def _ticks(magnitude: e.Expression, kind: _Format) -> e.Expression:
    """How often the least number above 0 fits; an adder rounds, where that is the last bit."""
    beyond = kind.tick * 2.0**_FRACTION
    total = nodes.binary("add", _bitcast(magnitude, dtypes.float32), beyond)
    return nodes.binary("sub", _bitcast(total, dtypes.uint32), _float_bits(beyond))


def _float_bits(power: float) -> int:
    return (_BIAS + round(power).bit_length() - 1) << _FRACTION


# -- from doubles to numbers ----------------------------------------------------------------------
#
# Rounded to odd first (towards 0, and the last bit set if anything is lost), a number is rounded to
# fewer bits as if at once (S. Boldo, G. Melquiond, "When double rounding is odd", 2005). Of 13 bits
# of fraction it is exact in single precision down to ``2**-136``, as rounding to bfloat16 needs.

_LOST: Final = 2**39 - 1


def _by_single_precision(kernel: Kernel) -> Kernel:
    """The kernel whose doubles become singles of few bits before they become halves or narrower."""
    body = walks.map_block(kernel.body, _with_rounding)
    if not any(_of_double(x) for x in walks.all_expressions(body)):
        return kernel
    bindings = Bindings(Facts(kernel))

    def single(x: e.Expression) -> e.Expression:
        if not isinstance(x, e.Cast) or not _of_double(x):
            return x
        near = nodes.cast(_odd(bindings.name(x.x, "double")), dtypes.float32)
        return nodes.cast(
            replace(x, x=near, type=near.type) if x.storage else near, scalar_of(x.type)
        )

    body = bindings.changed(body, lambda x: walks.map_expression(x, single))
    return replace(kernel, body=walks.map_block(body, _without_rounding))


def _of_double(x: e.Expression) -> bool:
    if not isinstance(x, e.Cast) or scalar_of(x.x.type) is not dtypes.float64:
        return False
    return any(y is dtypes.float16 or y in _FORMATS for y in (x.storage, scalar_of(x.type)))


def _odd(x: e.Expression) -> e.Expression:
    bits = _bitcast(x, dtypes.uint64)
    carried = nodes.binary("add", nodes.binary("and", bits, _LOST), _LOST)
    kept = nodes.binary("and", e.Binary("or", bits, carried), 2**64 - 1 - _LOST)
    return _bitcast(kept, dtypes.float64)


def _with_rounding(x: s.Statement) -> s.Block:
    """A store, of doubles that are rounded to what is stored."""
    if isinstance(x, s.Store) and scalar_of(x.value.type) is dtypes.float64:
        single = nodes.like(x.value.type, dtypes.float32)
        if x.array.dtype.register is dtypes.float32:
            return (replace(x, value=e.Cast(x.value, single, x.array.dtype)),)
    return (x,)


def _without_rounding(x: s.Statement) -> s.Block:
    """A store, which rounds by itself."""
    if isinstance(x, s.Store) and isinstance(x.value, e.Cast) and x.value.storage is x.array.dtype:
        return (replace(x, value=replace(x.value, storage=None)),)
    return (x,)


# -- expressions ----------------------------------------------------------------------------------


def _bitcast(x: e.Expression, dtype: dtypes.DType) -> e.Expression:
    return e.Bitcast(x, nodes.like(x.type, dtype))
