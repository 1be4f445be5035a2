"""bfloat16 in memory as what it is: the upper halves of single-precision numbers.

OpenCL C does not have the type, and arithmetic on it is in single precision anyway. Arrays of it
become arrays of 16-bit words; a load shifts the bits up, a store rounds them to nearest even. What
moves words without looking at them (copies, matrix units) stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from portable.dtypes import DType, bfloat16, float32, uint16, uint32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, ValueType, Vector
from portable.lang.ir.walk import all_expressions, map_block, map_expression, map_operands
from portable.lang.tiles.substitute import substitute

__all__ = ["lower_bfloat16"]


def lower_bfloat16(kernel: Kernel) -> Kernel:
    """The kernel without the type, if it has it."""
    parameters = [x for x in kernel.parameters if isinstance(x, Array)]
    words = {x: _as_words(x) for x in (*parameters, *kernel.arrays) if x.dtype is bfloat16}
    rounds = any(_rounds(x) for x in all_expressions(kernel.body))
    if not words and not rounds:
        return kernel

    def change(x: e.Expression) -> e.Expression:
        if isinstance(x, e.Extent | e.Stride) and x.array in words:
            return replace(x, array=words[x.array])
        return _rounded(x)

    body = map_block(kernel.body, lambda x: _lowered(x, change))
    return replace(
        kernel,
        parameters=tuple(words.get(x, x) if isinstance(x, Array) else x for x in kernel.parameters),
        arrays=tuple(words.get(x, x) for x in kernel.arrays),
        body=substitute(body, words),
    )


def _as_words(x: Array) -> Array:
    return replace(x, dtype=uint16)


def _rounds(x: e.Expression) -> bool:
    return isinstance(x, e.Cast) and x.storage is bfloat16


def _lowered(x: s.Statement, change: Callable[[e.Expression], e.Expression]) -> s.Block:
    x = map_operands(x, lambda y: map_expression(y, change))
    match x:
        case s.Load() if x.array.dtype is bfloat16:
            raw = e.Variable(f"{x.var.name}_bits", _like(x.var.type, uint32))
            widened = s.Let(x.var, _number(raw), x.loc)
            return replace(x, var=raw), widened
        case s.Store() if x.array.dtype is bfloat16:
            return (replace(x, value=_bits(x.value)),)
        case _:
            return (x,)


def _rounded(x: e.Expression) -> e.Expression:
    """A cast that rounds to the type, as arithmetic."""
    if not isinstance(x, e.Cast) or x.storage is not bfloat16:
        return x
    return _number(_bits(replace(x, storage=None)))


def _number(bits: e.Expression) -> e.Expression:
    return e.Bitcast(e.Binary("shl", bits, _const(16, bits.type)), _like(bits.type, float32))


def _bits(x: e.Expression) -> e.Expression:
    """The upper half of a number rounded to it, to nearest even; NaN stays NaN."""
    if x.type != _like(x.type, float32):
        x = e.Cast(x, _like(x.type, float32))
    bits = e.Bitcast(x, _like(x.type, uint32))
    kind = bits.type
    upper = e.Binary("shr", bits, _const(16, kind))
    odd = e.Binary("and", upper, _const(1, kind))
    half = e.Binary("add", odd, _const(0x7FFF, kind))
    nearest = e.Binary("shr", e.Binary("add", bits, half), _const(16, kind))
    quiet = e.Binary("or", upper, _const(0x40, kind))
    return e.Select(e.Compare("ne", x, x), quiet, nearest)


def _like(kind: ValueType, dtype: DType) -> ValueType:
    return Vector(dtype, kind.lanes) if isinstance(kind, Vector) else dtype


def _const(value: int, kind: ValueType) -> e.Expression:
    const = e.Const(value, uint32)
    return e.Splat(const, kind) if isinstance(kind, Vector) else const
