"""Prints value trees, masks, conversions and functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from portable.dtypes import DType, int32, int64, uint32, uint64
from portable.errors import UnsupportedError
from portable.lang.emit.avx512 import has_compress
from portable.lang.emit.llvm.builder import (
    Builder,
    Context,
    Held,
    literal,
    of_lanes,
    splat,
    suffix,
    value_type,
)
from portable.lang.emit.llvm.places import Places
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import ValueType, Vector, lanes_of, scalar_of

# Prints element-wise functions: those that processors have as instructions, or nearly so.
#
# The others are made of these before, by `portable.lang.passes.functions`.

_INTRINSICS: Final = {
    "abs": "fabs",
    "ceil": "ceil",
    "copysign": "copysign",
    "floor": "floor",
    "fma": "fma",
    "rint": "rint",
    "sqrt": "sqrt",
    "trunc": "trunc",
    "popcount": "ctpop",
}

_Printed = Callable[["Expressions", ValueType, list[str]], str]


def call(printer: Expressions, x: e.Call) -> str:
    """The value of a call."""
    kind = x.arguments[0].type
    values = [printer.value(argument) for argument in x.arguments]
    if x.function in _INTRINSICS:
        typed = value_type(kind)
        name = f"{_INTRINSICS[x.function]}.{suffix(typed)}"
        return printer.builder.intrinsic(name, typed, *(f"{typed} {value}" for value in values))
    if x.function in _WORKED_OUT:
        return _WORKED_OUT[x.function](printer, kind, values)
    raise UnsupportedError(f"{x.function} of {kind} has no spelling in LLVM's text")


def _clz(printer: Expressions, kind: ValueType, values: list[str]) -> str:
    typed = value_type(kind)
    name = f"ctlz.{suffix(typed)}"
    return printer.builder.intrinsic(name, typed, f"{typed} {values[0]}", "i1 false")


def _mulhi(printer: Expressions, kind: ValueType, values: list[str]) -> str:
    builder, scalar, lanes = printer.builder, scalar_of(kind), lanes_of(kind)
    typed, wide = value_type(kind), of_lanes(f"i{2 * scalar.bits}", lanes)
    extend = "sext" if scalar.kind == "i" else "zext"
    a, b = (builder.op(f"{extend} {typed} {value} to {wide}") for value in values)
    product = builder.op(f"mul {wide} {a}, {b}")
    by = str(scalar.bits)
    by = by if lanes == 1 else f"splat (i{2 * scalar.bits} {by})"
    return builder.op(f"trunc {wide} {builder.op(f'lshr {wide} {product}, {by}')} to {typed}")


def _isnan(printer: Expressions, kind: ValueType, values: list[str]) -> str:
    return printer.builder.op(f"fcmp uno {value_type(kind)} {values[0]}, zeroinitializer")


def _beside_infinity(test: str) -> _Printed:
    def printed(printer: Expressions, kind: ValueType, values: list[str]) -> str:
        typed = value_type(kind)
        size = printer.builder.intrinsic(f"fabs.{suffix(typed)}", typed, f"{typed} {values[0]}")
        infinity = splat(literal(float("inf"), scalar_of(kind)), kind)
        return printer.builder.op(f"fcmp {test} {typed} {size}, {infinity}")

    return printed


def _signbit(printer: Expressions, kind: ValueType, values: list[str]) -> str:
    bits = of_lanes(f"i{scalar_of(kind).bits}", lanes_of(kind))
    bits_of = printer.builder.op(f"bitcast {value_type(kind)} {values[0]} to {bits}")
    return printer.builder.op(f"icmp slt {bits} {bits_of}, zeroinitializer")


def _rsqrt(printer: Expressions, kind: ValueType, values: list[str]) -> str:
    builder, typed = printer.builder, value_type(kind)
    root = builder.intrinsic(f"sqrt.{suffix(typed)}", typed, f"{typed} {values[0]}")
    one = splat(literal(1.0, scalar_of(kind)), kind)
    return builder.op(f"fdiv {typed} {one}, {root}")


_WORKED_OUT: Final[dict[str, _Printed]] = {
    "clz": _clz,
    "isfinite": _beside_infinity("olt"),
    "isinf": _beside_infinity("oeq"),
    "isnan": _isnan,
    "mulhi": _mulhi,
    "rsqrt": _rsqrt,
    "signbit": _signbit,
}

NATIVE: Final = frozenset(_INTRINSICS) | frozenset(_WORKED_OUT)
"""The functions that it prints."""


# Prints conversions between types of values and of memory.


def cast(printer: Expressions, x: e.Cast) -> str:
    """The value of a conversion, narrowed as by memory where that is asked for."""
    source, target, lanes = scalar_of(x.x.type), scalar_of(x.type), lanes_of(x.type)
    builder = printer.builder
    value = printer.value(x.x)
    if x.in_range and source.is_float and target.is_integer:
        value = _in_range(builder, value, source, target, lanes)
    else:
        value = converted(builder, value, source, target, lanes)
    if x.storage is None or x.storage is target:
        return value
    narrow = converted(builder, value, target, x.storage, lanes)
    return converted(builder, narrow, x.storage, target, lanes)


def converted(builder: Builder, value: str, source: DType, target: DType, lanes: int) -> str:
    """A value of one scalar type in every lane as one of another; floats saturate in integers.

    Parameters
    ----------
    builder : Builder
    value : str
    source, target : DType
        Of registers or of memory; not complex.
    lanes : int
    """
    old, new = of_lanes(value_type(source), lanes), of_lanes(value_type(target), lanes)
    if old == new:
        return value
    if target.kind == "b":
        test = "fcmp une" if source.is_float else "icmp ne"
        return builder.op(f"{test} {old} {value}, zeroinitializer")
    if source.is_float and target.is_integer:
        name = f"fpto{'s' if target.kind == 'i' else 'u'}i.sat.{suffix(new)}.{suffix(old)}"
        return builder.intrinsic(name, new, f"{old} {value}")
    if source.kind != "f" and target.kind != "f" and value.lstrip("-").isdigit():
        return _number(int(value), source, target)
    return builder.op(f"{_word(source, target)} {old} {value} to {new}")


def _word(source: DType, target: DType) -> str:
    """The instruction for a conversion."""
    if target.is_float:
        if source.is_float:
            return "fpext" if target.bits > source.bits else "fptrunc"
        return "sitofp" if source.kind == "i" else "uitofp"
    if source.kind == "b":
        return "zext"
    if target.bits < source.bits:
        return "trunc"
    return "sext" if source.kind == "i" else "zext"


def _number(value: int, source: DType, target: DType) -> str:
    """A literal in another integer type; literals may be written with either sign."""
    value %= 2**source.bits
    if source.kind == "i" and value >= 2 ** (source.bits - 1):
        value -= 2**source.bits
    value %= 2**target.bits
    signed = target.kind == "i" and value >= 2 ** (target.bits - 1)
    return str(value - 2**target.bits if signed else value)


def _in_range(builder: Builder, value: str, source: DType, target: DType, lanes: int) -> str:
    """Truncated where the integer has it; elsewhere any number, but always the same one."""
    old, new = of_lanes(value_type(source), lanes), of_lanes(value_type(target), lanes)
    word = "fptosi" if target.kind == "i" else "fptoui"
    result = builder.op(f"{word} {old} {value} to {new}")
    return builder.op(f"freeze {new} {result}")


# Prints what the masks of vectors choose: their lanes in front, and how many these are.
#
# LLVM 22's function for the former is used where it becomes one instruction: elsewhere it stops at
# vectors of two floats, and the instructions that it makes of it for 32 lanes end the process.


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


def compressed(printer: Expressions, x: e.Compress) -> str:
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


def _front(printer: Expressions, x: _Chosen) -> str:
    """By an instruction, or lane by lane."""
    most = printer.context.capabilities.compressed_bytes
    if has_compress(x.kind, most):
        name = f"experimental.vector.compress.{suffix(x.typed)}"
        given = (f"{x.typed} {x.value}", f"{x.mask_type} {x.mask}", f"{x.typed} zeroinitializer")
        return printer.builder.intrinsic(name, x.typed, *given)
    return _in_turn(printer, x)


def _in_turn(printer: Expressions, x: _Chosen) -> str:
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


def _slot(printer: Expressions, x: _Chosen) -> str:
    text = f"alloca {x.typed}, align 64"
    return printer.builder.argument(f"compressed {x.typed}", text)


def counted(printer: Expressions, x: e.Count) -> str:
    """For how many lanes a mask holds."""
    return _count(printer, printer.value(x.mask), lanes_of(x.mask.type))


def _count(printer: Expressions, mask: str, lanes: int) -> str:
    count = printer.builder.op(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
    if lanes < 32:
        count = printer.builder.op(f"zext i{lanes} {count} to i32")
    return printer.builder.intrinsic("ctpop.i32", "i32", f"i32 {count}")


# Prints value trees.

_INTEGERS: Final = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "shl": "shl",
}
_SIGNED: Final = {"quot": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED: Final = {"quot": "udiv", "rem": "urem", "shr": "lshr"}
_FLOATS: Final = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_WRAPPING: Final = ("add", "sub", "mul", "shl")
_FLOAT_COMPARISONS: Final = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}


class Expressions:
    """Turns expressions of one kernel into instructions.

    Parameters
    ----------
    context : Context
        The kernel and its text.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.builder = context.builder
        self.places = Places(context)
        self.slots: dict[str, str] = {}
        self._bound: dict[str, str] = {}
        self._log: list[tuple[str, str | None]] = []

    # -- names ------------------------------------------------------------------------------

    def bind(self, var: e.Variable, value: str) -> None:
        """Gives a name a value until the block ends."""
        self._log.append((var.name, self._bound.get(var.name)))
        self._bound[var.name] = value

    def mark(self) -> int:
        """Where a block begins."""
        return len(self._log)

    def forget(self, mark: int) -> None:
        """Takes back what was bound since a mark."""
        while len(self._log) > mark:
            name, before = self._log.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before

    def _variable(self, x: e.Variable) -> str:
        value = self._bound.get(x.name)
        if value is not None:
            return value
        return self.builder.op(f"load {value_type(x.type)}, ptr {self.slots[x.name]}")

    # -- values -----------------------------------------------------------------------------

    def typed(self, x: e.Expression) -> str:
        """The value of an expression after its type."""
        return f"{value_type(x.type)} {self.value(x)}"

    def value(self, x: e.Expression) -> str:
        """The value of an expression: a name or a literal.

        Raises
        ------
        UnsupportedError
            For a node without a meaning here, by its name.
        """
        match x:
            case Held(text=text):
                return text
            case e.Const(value=number, type=kind):
                return literal(number, kind)
            case e.Variable():
                return self._variable(x)
            case e.Binary():
                return self._binary(x)
            case e.Compare():
                return self._compare(x)
            case e.Select():
                parts = ", ".join(self.typed(part) for part in (x.condition, x.x, x.y))
                return self.builder.op(f"select {parts}")
            case e.Unary():
                return self._unary(x)
            case e.Cast():
                return cast(self, x)
            case e.Bitcast():
                return self._bitcast(x)
            case e.Call():
                return call(self, x)
            case e.AssumeUniform():
                return self.value(x.x)
            case _:
                return self._leaf(x)

    def _leaf(self, x: e.Expression) -> str:
        """Places, sizes, and what is of vectors alone."""
        match x:
            case e.Extent():
                return self.context.size("extent", x.array, x.dim)
            case e.WorkItem():
                return self.places.value(x)
            case e.Lane():
                return self.builder.op(f"extractelement {self.typed(x.x)}, i64 {x.lane}")
            case e.Splat():
                return self._splat(x)
            case e.MakeVector():
                return self._made(x)
            case e.Compress():
                return compressed(self, x)
            case e.Count():
                return counted(self, x)
            case _:
                raise UnsupportedError(f"{type(x).__name__} has no spelling in LLVM's text")

    # -- operators --------------------------------------------------------------------------

    def _unary(self, x: e.Unary) -> str:
        operand, kind = self.typed(x.x), scalar_of(x.type)
        if x.op == "neg" and kind.is_float:
            return self.builder.op(f"fneg {operand}")
        if x.op == "neg":
            wraps = self._wraps(x)
            typed = value_type(x.type)
            zero = splat("0", x.type)
            value = operand[len(typed) + 1 :]
            return self.builder.op(f"sub {wraps}{typed} {zero}, {value}")
        ones = splat("true" if kind.kind == "b" else "-1", x.type)
        return self.builder.op(f"xor {operand}, {ones}")

    def _binary(self, x: e.Binary) -> str:
        kind, typed = scalar_of(x.type), value_type(x.type)
        a, b = self.value(x.x), self.value(x.y)
        if kind.is_float:
            return self._float(x, typed, a, b)
        word = _INTEGERS.get(x.op) or (_SIGNED if kind.kind == "i" else _UNSIGNED).get(x.op)
        if word is not None:
            return self.builder.op(f"{word} {self._wraps(x)}{typed} {a}, {b}")
        assert x.op in ("min", "max"), f"no language has {x.op} of {x.type}"
        name = f"{'s' if kind.kind == 'i' else 'u'}{x.op}.{suffix(typed)}"
        return self.builder.intrinsic(name, typed, f"{typed} {a}", f"{typed} {b}")

    def _float(self, x: e.Binary, typed: str, a: str, b: str) -> str:
        assert x.op in _FLOATS, f"no language has {x.op} of {x.type}"
        flags = "" if x.exact else self.context.float_flags
        return self.builder.op(f"{_FLOATS[x.op]} {flags}{typed} {a}, {b}")

    def _wraps(self, x: e.Binary | e.Unary) -> str:
        """Says that the result is exact where that is proved, with a blank.

        Only then does LLVM know that a sum of 32 bits goes on as one of 64 does, which it needs to
        find neighbours in memory.
        """
        kind = x.type
        if isinstance(kind, Vector) or kind.kind == "b" or x.op not in (*_WRAPPING, "neg"):
            return ""
        if not self.context.facts.fits(x):
            return ""
        return "nsw " if kind.kind == "i" else "nuw "

    def _compare(self, x: e.Compare) -> str:
        kind = scalar_of(x.x.type)
        a, b = self.typed(x.x), self.value(x.y)
        if kind.is_float:
            return self.builder.op(f"fcmp {_FLOAT_COMPARISONS[x.op]} {a}, {b}")
        sign = "" if x.op in ("eq", "ne") else ("s" if kind.kind == "i" else "u")
        return self.builder.op(f"icmp {sign}{x.op} {a}, {b}")

    def _bitcast(self, x: e.Bitcast) -> str:
        source, target = value_type(x.x.type), value_type(x.type)
        value = self.value(x.x)
        return (
            value if source == target else self.builder.op(f"bitcast {source} {value} to {target}")
        )

    # -- vectors ----------------------------------------------------------------------------

    def _splat(self, x: e.Splat) -> str:
        if isinstance(x.x, e.Const):
            return splat(literal(x.x.value, x.x.type), x.type)
        return self.broadcast(self.value(x.x), x.type)

    def broadcast(self, value: str, kind: Vector) -> str:
        """A scalar in every lane."""
        return self.spread(value, value_type(kind.dtype), kind.lanes)

    def spread(self, value: str, scalar: str, lanes: int) -> str:
        """A scalar of a type in so many lanes."""
        typed, zeros = of_lanes(scalar, lanes), f"{of_lanes('i32', lanes)} zeroinitializer"
        first = self.builder.op(f"insertelement {typed} poison, {scalar} {value}, i64 0")
        return self.builder.op(f"shufflevector {typed} {first}, {typed} poison, {zeros}")

    def _made(self, x: e.MakeVector) -> str:
        if all(isinstance(lane, e.Const) for lane in x.elements):
            return f"<{', '.join(self.typed(lane) for lane in x.elements)}>"
        shuffled = self._shuffled(x)
        if shuffled is not None:
            return shuffled
        return self.gathered([self.value(lane) for lane in x.elements], x.type)

    def gathered(self, lanes: list[str], kind: Vector) -> str:
        """A vector of scalars."""
        typed, scalar, vector = value_type(kind), value_type(kind.dtype), "poison"
        for number, lane in enumerate(lanes):
            vector = self.builder.op(
                f"insertelement {typed} {vector}, {scalar} {lane}, i64 {number}"
            )
        return vector

    def _shuffled(self, x: e.MakeVector) -> str | None:
        """A vector of lanes of one other or of two alike."""
        lanes = [lane for lane in x.elements if isinstance(lane, e.Lane)]
        if len(lanes) < len(x.elements):
            return None
        sources = list(dict.fromkeys(lane.x for lane in lanes))
        if len(sources) > 2 or len({source.type for source in sources}) > 1:
            return None
        width = lanes_of(sources[0].type)
        places = [lane.lane + width * sources.index(lane.x) for lane in lanes]
        values = [self.value(source) for source in sources]
        return self.shuffle(value_type(sources[0].type), values, places)

    def shuffle(self, typed: str, values: list[str], places: list[int]) -> str:
        """Lanes of one vector or two, by their numbers."""
        first, second = [*values, "poison"][:2]
        mask = ", ".join(f"i32 {lane}" for lane in places)
        return self.builder.op(
            f"shufflevector {typed} {first}, {typed} {second}, <{len(places)} x i32> <{mask}>"
        )

    # -- indices ----------------------------------------------------------------------------

    def wide(self, x: e.Expression) -> str:
        """An integer scalar as 64 bits."""
        kind = scalar_type(x)
        return converted(self.builder, self.value(x), kind, int64, 1)
