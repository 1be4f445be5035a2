"""Prints what the masks of vectors choose: their lanes in front, and how many these are.

LLVM 22's function for the former is used where it becomes one instruction: elsewhere it stops at
vectors of two floats, and the instructions that it makes of it for 32 lanes end the process.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable.dtypes import int32, uint32, uint64
from portable.lang.emit.avx512 import has_compress
from portable.lang.emit.llvm.builder import Printer, of_lanes, suffix, value_type
from portable.lang.ir import expressions as e
from portable.lang.ir.types import Vector, lanes_of


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A vector of integers, and the mask of the same lanes."""

    value: str
    mask: str
    kind: Vector

    @property
    def typed(self) -> str:
        """The vector's type."""
        return value_type(self.kind)

    @property
    def lane(self) -> str:
        """The type of one lane."""
        return value_type(self.kind.dtype)

    @property
    def mask_type(self) -> str:
        """The mask's type."""
        return of_lanes("i1", self.kind.lanes)


def compressed(printer: Printer, x: e.Compress) -> str:
    """The chosen lanes in front, as integers of their width."""
    kind = x.type
    assert isinstance(kind, Vector)
    builder, typed = printer.builder, value_type(kind)
    value, mask = printer.value(x.x), printer.value(x.mask)
    if kind.dtype.kind == "b":
        chosen = _Chosen("", mask, Vector(int32, kind.lanes))
        wide = builder.op(f"zext {typed} {value} to {chosen.typed}")
        packed = _front(printer, _Chosen(wide, mask, chosen.kind))
        return builder.op(f"trunc {chosen.typed} {packed} to {typed}")
    if kind.dtype.bits == 16:
        return _in_turn(printer, _Chosen(value, mask, kind))
    bits = Vector(uint64 if kind.dtype.bits == 64 else uint32, kind.lanes)
    if value_type(bits) == typed:
        return _front(printer, _Chosen(value, mask, bits))
    cast = builder.op(f"bitcast {typed} {value} to {value_type(bits)}")
    packed = _front(printer, _Chosen(cast, mask, bits))
    return builder.op(f"bitcast {value_type(bits)} {packed} to {typed}")


def _front(printer: Printer, x: _Chosen) -> str:
    """By an instruction, or lane by lane."""
    most = printer.context.capabilities.compressed_bytes
    if has_compress(x.kind, most):
        name = f"experimental.vector.compress.{suffix(x.typed)}"
        given = (f"{x.typed} {x.value}", f"{x.mask_type} {x.mask}", f"{x.typed} zeroinitializer")
        return printer.builder.intrinsic(name, x.typed, *given)
    return _in_turn(printer, x)


def _in_turn(printer: Printer, x: _Chosen) -> str:
    """Each lane is stored behind the chosen ones before it; one that is not chosen, as a zero."""
    builder, slot, count = printer.builder, _slot(printer, x), "0"
    builder.do(f"store {x.typed} zeroinitializer, ptr {slot}, align 64")
    for lane in range(x.kind.lanes):
        value = builder.op(f"extractelement {x.typed} {x.value}, i64 {lane}")
        held = builder.op(f"extractelement {x.mask_type} {x.mask}, i64 {lane}")
        zero = "0" if x.kind.dtype.is_integer else "0xH0000"
        kept = builder.op(f"select i1 {held}, {x.lane} {value}, {x.lane} {zero}")
        there = builder.op(f"getelementptr inbounds {x.lane}, ptr {slot}, i64 {count}")
        builder.do(f"store {x.lane} {kept}, ptr {there}")
        more = builder.op(f"zext i1 {held} to i64")
        count = builder.op(f"add nuw nsw i64 {count}, {more}")
    return builder.op(f"load {x.typed}, ptr {slot}, align 64")


def _slot(printer: Printer, x: _Chosen) -> str:
    text = f"alloca {x.typed}, align 64"
    return printer.builder.argument(f"compressed {x.typed}", text)


def counted(printer: Printer, x: e.Count) -> str:
    """For how many lanes a mask holds."""
    return _count(printer, printer.value(x.mask), lanes_of(x.mask.type))


def _count(printer: Printer, mask: str, lanes: int) -> str:
    count = printer.builder.op(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
    if lanes < 32:
        count = printer.builder.op(f"zext i{lanes} {count} to i32")
    return printer.builder.intrinsic("ctpop.i32", "i32", f"i32 {count}")
