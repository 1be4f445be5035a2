"""AVX-512's instructions for masks, as Clang has them in OpenCL C.

PoCL compiles for the processor itself, so that Clang's built-in functions are there. Intel's
runtime compiles for an abstract machine (SPIR) first, where they are not: there a function is
declared under the name of LLVM's intrinsic, which the second compiler makes an instruction of. Its
mask is a vector of single bits. OpenCL C has none, but takes vectors of an enumeration of `bool`.
"""

from __future__ import annotations

from typing import Final

from portable.dtypes import DType, bool_
from portable.lang.emit.context import Code, Printer, literal
from portable.lang.emit.vectors import by_helper, lane, made, vector_name
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Vector

_LANES: Final = (4, 8, 16)
"""Of masks that have an instruction, in lanes of 32 bits."""
_WIDTHS: Final = (128, 256, 512)


def has_count(lanes: int) -> bool:
    """Whether `count_definition` has so many lanes."""
    return lanes in _LANES


def has_compress(kind: Vector, most: int) -> bool:
    """Whether vectors of this type are compressed by an instruction, `most` bytes being widest."""
    bits = kind.lanes * _bits(kind.dtype)
    return kind.lanes in _LANES and bits in _WIDTHS and bits <= 8 * most


def count_definition(name: str, lanes: int) -> str:
    """A function of a mask, a vector of ``int`` of 0 and -1: how many lanes hold."""
    mask = f"int{lanes}"
    return (
        f"#if __has_builtin({_mask_bits(lanes)})\n"
        f"{_head('int', name)}({mask} a)\n"
        f"{{\n    return (int)popcount((uint){_mask_bits(lanes)}(a));\n}}\n"
        f"#else\n"
        f'int {name}_sum({mask}) __asm__("llvm.vector.reduce.add.v{lanes}i32");\n'
        f"{_head('int', name)}({mask} a)\n{{\n    return -{name}_sum(a);\n}}\n"
        f"#endif"
    )


def compress_definition(name: str, vector: str, kind: Vector) -> str:
    """A function of a vector and a mask: the lanes for which it holds in front, then zeros.

    Parameters
    ----------
    name, vector : str
        What the function is called, and the vector's type in C.
    kind : Vector
        The vector.
    """
    bits, lanes = _bits(kind.dtype), kind.lanes
    letter = "f" if kind.dtype.kind == "f" else "i"
    word = f"__builtin_ia32_compress{'s' if bits == 32 else 'd'}{letter}{lanes * bits}_mask"
    signed = vector if letter == "f" else f"{'int' if bits == 32 else 'long'}{lanes}"
    intrinsic = f"llvm.x86.avx512.mask.compress.v{lanes}{letter}{bits}"
    head = f"{_head(vector, name)}({vector} a, int{lanes} b)"
    given = f"as_{signed}(a), ({signed})(0), {_mask_bits(lanes)}(b)"
    return (
        f"#if __has_builtin({word})\n"
        f"{head}\n{{\n    return as_{vector}({word}({given}));\n}}\n"
        f"#else\n"
        f"typedef enum : bool {{ {name}_no, {name}_yes }} {name}_bit;\n"
        f"typedef {name}_bit {name}_bits __attribute__((ext_vector_type({lanes})));\n"
        f'{vector} {name}_masked({vector}, {vector}, {name}_bits) __asm__("{intrinsic}");\n'
        f"{head}\n{{\n"
        f"    return {name}_masked(a, ({vector})(0), __builtin_convertvector(b, {name}_bits));\n"
        f"}}\n#endif"
    )


def _head(result: str, name: str) -> str:
    return f"static inline __attribute__((always_inline)) {result} {name}"


def _mask_bits(lanes: int) -> str:
    """The built-in function from a mask to its bits."""
    return f"__builtin_ia32_cvtd2mask{32 * lanes}"


def _bits(dtype: DType) -> int:
    """Of a lane in a register."""
    return 32 if dtype.kind == "b" else dtype.bits


# Prints what the masks of vectors choose: their lanes in front, and how many these are.


def compressed(printer: Printer, x: e.Compress) -> Code:
    """The chosen lanes in front: by one instruction where the device has it, else in turn."""
    kind = x.type
    assert isinstance(kind, Vector)
    if not has_compress(kind, printer.context.capabilities.compressed_bytes):
        return by_helper(printer, x, lambda: _in_turn(printer, kind))
    name = f"pt_compress_{kind!r}"
    vector = vector_name(printer, kind)
    printer.context.prelude.define(name, lambda: compress_definition(name, vector, kind))
    return Code(f"{name}({printer.text(x.x)}, {printer.text(x.mask)})")


def _in_turn(printer: Printer, kind: Vector) -> list[str]:
    scalar = printer.dialect.types[kind.dtype.short]
    zero = literal(False if kind.dtype.kind == "b" else 0, kind.dtype, printer.dialect).text
    lines = [f"{scalar} lanes[{kind.lanes}];", "int count = 0;"]
    lines += [f"for (int i = 0; i < {kind.lanes}; i++) lanes[i] = {zero};"]
    for i in range(kind.lanes):
        held = lane(printer, "b", i, Vector(bool_, kind.lanes))
        lines += [f"if ({held}) lanes[count++] = {lane(printer, 'a', i, kind)};"]
    made_of = [f"lanes[{i}]" for i in range(kind.lanes)]
    return [*lines, f"return {made(printer, made_of, kind)};"]


def counted(printer: Printer, x: e.Count) -> Code:
    """For how many lanes a mask holds."""
    kind = x.mask.type
    assert isinstance(kind, Vector)
    if printer.context.capabilities.compressed_bytes and has_count(kind.lanes):
        name = f"pt_count_{kind!r}"
        printer.context.prelude.define(name, lambda: count_definition(name, kind.lanes))
        return Code(f"{name}({printer.text(x.mask)})")
    each = [f"(int){lane(printer, 'a', i, kind)}" for i in range(kind.lanes)]
    return by_helper(printer, x, lambda: [f"return {' + '.join(each)};"])
