"""Prints value trees; functions, conversions and masks have modules of their own."""

from __future__ import annotations

from typing import Final

from portable.dtypes import int64
from portable.errors import UnsupportedError
from portable.lang.emit.llvm.builder import (
    Context,
    Held,
    literal,
    of_lanes,
    splat,
    suffix,
    value_type,
)
from portable.lang.emit.llvm.conversions import cast, converted
from portable.lang.emit.llvm.division import divided
from portable.lang.emit.llvm.functions import call
from portable.lang.emit.llvm.masks import compressed, counted
from portable.lang.emit.llvm.places import Places
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Vector, lanes_of, scalar_of

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
        if x.op in ("quot", "rem") and isinstance(x.type, Vector):
            result = divided(self.builder, x.op, x.type, a, b)
            if result is not None:
                return result
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
