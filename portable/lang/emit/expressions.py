"""Prints value trees; vectors are the business of `vectors`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from portable.dtypes import DType, float16, float32
from portable.errors import UnsupportedError
from portable.lang.emit import vectors
from portable.lang.emit.code import Code, Level, infix, wrapped
from portable.lang.emit.context import Context
from portable.lang.emit.literals import literal, unsigned_literal
from portable.lang.functions import FUNCTIONS
from portable.lang.ir import expressions as e
from portable.lang.ir.places import linear_local_id
from portable.lang.ir.types import ValueType, Vector, scalar_of

__all__ = ["Expressions", "placeholder"]


@dataclass(frozen=True, slots=True)
class _Placeholder:
    text: str
    type: ValueType


def placeholder(text: str, kind: ValueType) -> e.Expression:
    """A piece of postfix C text in the place of an expression."""
    return cast(e.Expression, _Placeholder(text, kind))


_SUMS = {"add": ("+", Level.SUM), "sub": ("-", Level.SUM), "mul": ("*", Level.PRODUCT)}
_BITS = {"and": ("&", Level.BIT_AND), "or": ("|", Level.BIT_OR), "xor": ("^", Level.BIT_XOR)}
_LOGIC = {
    "and": ("&&", Level.LOGICAL_AND),
    "or": ("||", Level.LOGICAL_OR),
    "xor": ("!=", Level.EQUALITY),
}
_COMPARE = {
    "eq": ("==", Level.EQUALITY),
    "ne": ("!=", Level.EQUALITY),
    "lt": ("<", Level.RELATION),
    "le": ("<=", Level.RELATION),
    "gt": (">", Level.RELATION),
    "ge": (">=", Level.RELATION),
}


class Expressions:
    """Turns expressions of one kernel into C text.

    Parameters
    ----------
    context : Context
        The kernel and its dialect.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.dialect = context.dialect

    def text(self, x: e.Expression) -> str:
        """The text of an expression, to stand where any may."""
        return self.code(x).text

    def operand(self, x: e.Expression) -> str:
        """The text of an expression, to stand beside a unary operator or in a cast."""
        return wrapped(self.code(x), Level.UNARY)

    def code(self, x: e.Expression) -> Code:
        """The text and level of an expression."""
        if isinstance(cast(object, x), _Placeholder):
            return Code(cast(_Placeholder, x).text)
        match x:
            case e.Const(value=value, type=kind):
                return literal(value, kind, self.dialect)
            case e.Variable(name=name):
                return Code(self.context.names.of(name))
            case e.Extent(array=array, dim=dim):
                return Code(self.context.size_argument("extent", array, dim))
            case e.Stride(array=array, dim=dim):
                return self._stride(x)
            case e.WorkItem():
                return self._work_item(x)
            case e.AssumeUniform():
                return self.code(x.x)
            case e.Lane() | e.Splat() | e.MakeVector():
                return vectors.structural(self, x)
            case _ if isinstance(x.type, Vector) or _takes_vectors(x):
                return vectors.elementwise(self, x)
            case _:
                return self._scalar(x)

    def _scalar(self, x: e.Expression) -> Code:
        match x:
            case e.Unary():
                return self._unary(x)
            case e.Binary():
                return self._binary(x)
            case e.Compare(op=op):
                operator, level = _COMPARE[op]
                return infix(operator, level, self.code(x.x), self.code(x.y))
            case e.Select():
                parts = [wrapped(self.code(p), Level.LOGICAL_OR) for p in (x.condition, x.x, x.y)]
                return Code(f"{parts[0]} ? {parts[1]} : {parts[2]}", Level.CONDITIONAL)
            case e.Cast():
                return self._cast(x)
            case e.Bitcast():
                return self._bitcast(x)
            case e.Call():
                return self._call(x)
            case _:
                raise TypeError(f"no expression of the kernel language: {x!r}")

    # -- leaves -----------------------------------------------------------------------------

    def _stride(self, x: e.Stride) -> Code:
        known = {"unit": 1, "zero": 0}.get(x.array.strides[x.dim])
        if known is not None:
            return literal(known, x.type, self.dialect)
        return Code(self.context.size_argument("stride", x.array, x.dim))

    def _work_item(self, x: e.WorkItem) -> Code:
        kernel = self.context.kernel
        alone = x.word == "local_id" and kernel.workgroup[x.dim] == 1
        single = x.word == "sub_group_local_id" and kernel.sub_group_size == 1
        if alone or single:
            return literal(0, x.type, self.dialect)
        if x.word.endswith(("sub_group_id", "sub_groups", "sub_group_local_id")):
            return self._sub_group_word(x)
        if self.context.flat and x.word in ("local_id", "global_id", "global_size"):
            return self._flat_word(x)
        text = self.dialect.work_items[x.word].format(
            d=x.dim,
            x="xyz"[x.dim],
            size=literal(kernel.workgroup[x.dim], x.type, self.dialect),
            T=self.dialect.types[x.type.short],
        )
        return Code(text, Level.SUM if x.word in self.dialect.sums else Level.UNARY)

    def _sub_group_word(self, x: e.WorkItem) -> Code:
        """Worked out from the linear local index, as the language defines it."""
        kernel = self.context.kernel
        size = kernel.sub_group_size
        if x.word == "num_sub_groups":
            items = kernel.workgroup[0] * kernel.workgroup[1] * kernel.workgroup[2]
            return literal(-(-items // size), x.type, self.dialect)
        op: e.BinaryOp = "mod" if x.word == "sub_group_local_id" else "floordiv"
        divisor = e.Const(size, x.type)
        return self.code(e.Binary(op, self.linear_id(x.type), divisor, nonnegative=True))

    def _flat_word(self, x: e.WorkItem) -> Code:
        """Indices of a workgroup that is launched along one dimension."""
        own = e.Const(self.context.kernel.workgroup[x.dim], x.type)
        if x.word == "local_id":
            before = math.prod(self.context.kernel.workgroup[: x.dim])
            row = self.linear_id(x.type)
            if before > 1:
                row = e.Binary("floordiv", row, e.Const(before, x.type), nonnegative=True)
            return self.code(e.Binary("mod", row, own, nonnegative=True))
        word: e.WorkItemWord = "group_id" if x.word == "global_id" else "num_groups"
        total = e.Binary("mul", e.WorkItem(word, x.dim, x.type), own)
        if x.word == "global_size":
            return self.code(total)
        return self.code(e.Binary("add", total, e.WorkItem("local_id", x.dim, x.type)))

    def linear_id(self, kind: DType) -> e.Expression:
        """The linear local index of this work-item."""
        if self.context.flat:
            text = self.dialect.work_items["local_id"].format(
                d=0, x="x", T=self.dialect.types[kind.short]
            )
            return placeholder(f"({text})", kind)
        return linear_local_id(self.context.kernel.workgroup, kind)

    # -- operators --------------------------------------------------------------------------

    def _unary(self, x: e.Unary) -> Code:
        kind = x.x.type
        assert isinstance(kind, DType)
        if self.hides_negatives(x):
            return self._helper("minus", kind, self.code(x.x))
        if x.op == "neg" and kind.kind == "i" and not self.context.facts.fits(x):
            return self._signed(self._wrapping(x), kind)
        operator = {"neg": "-", "not": "!", "invert": "~"}[x.op]
        inner = self.operand(x.x)
        return _negated(inner) if x.op == "neg" else Code(f"{operator}{inner}", Level.UNARY)

    def hides_negatives(self, x: e.Unary) -> bool:
        """Whether a compiler must not find out that this is a negative."""
        kind = scalar_of(x.type)
        return x.op == "neg" and f"neg.{kind.kind}" in self.dialect.functions

    def _binary(self, x: e.Binary) -> Code:
        kind = x.type
        assert isinstance(kind, DType)
        if kind.kind == "b":
            operator, level = _LOGIC[x.op]
            return infix(operator, level, self.code(x.x), self.code(x.y))
        if x.op in _SUMS:
            return self._sum(x, kind)
        if x.op in _BITS:
            operator, level = _BITS[x.op]
            return infix(operator, level, self.code(x.x), self.code(x.y))
        match x.op:
            case "div":
                return infix("/", Level.PRODUCT, self.code(x.x), self.code(x.y))
            case "floordiv" | "mod":
                return self._floor(x, kind)
            case "shl" | "shr":
                return self._shift(x, kind)
            case "min" | "max":
                return self._extreme(x, kind)
            case _:
                raise TypeError(f"no operation {x.op} of {kind}")

    def _sum(self, x: e.Binary, kind: DType) -> Code:
        if kind.kind == "i" and not self.context.facts.fits(x):
            return self._signed(self._wrapping(x), kind)
        operator, level = _SUMS[x.op]
        return infix(operator, level, self.code(x.x), self.code(x.y))

    def _signed(self, code: Code, kind: DType) -> Code:
        return Code(f"({self.dialect.types[kind.short]}){wrapped(code, Level.UNARY)}", Level.UNARY)

    def _wrapping(self, x: e.Expression) -> Code:
        """A signed expression's bits in unsigned arithmetic, which wraps in every dialect."""
        kind = x.type
        assert isinstance(kind, DType)
        match x:
            case e.Const():
                return unsigned_literal(int(x.value), kind, self.dialect)
            case e.Binary(op=op) if op in _SUMS:
                operator, level = _SUMS[op]
                return infix(operator, level, self._wrapping(x.x), self._wrapping(x.y))
            case e.Unary(op="neg") if not self.hides_negatives(x):
                return _negated(wrapped(self._wrapping(x.x), Level.UNARY))
            case _:
                unsigned = self.dialect.types[f"u{kind.bits}"]
                return Code(f"({unsigned}){self.operand(x)}", Level.UNARY)

    def _floor(self, x: e.Binary, kind: DType) -> Code:
        a, b = self.code(x.x), self.code(x.y)
        if kind.is_float:
            word = "floordiv_floor" if x.op == "floordiv" else "fmod_floor"
            return self._helper(word, kind, a, b)
        facts = self.context.facts
        divisor = facts.bounds(x.y)
        plain = kind.kind == "u" or x.nonnegative
        plain = plain or (facts.bounds(x.x).low >= 0 and divisor.low >= 0)
        if not plain:
            return self._helper(x.op, kind, a, b)
        if divisor.low > 0 or divisor.high < 0:
            return infix("/" if x.op == "floordiv" else "%", Level.PRODUCT, a, b)
        return self._helper("div" if x.op == "floordiv" else "rem", kind, a, b)

    def _shift(self, x: e.Binary, kind: DType) -> Code:
        mask = kind.bits - 1
        if isinstance(x.y, e.Const):
            count = Code(str(int(x.y.value) & mask))
        else:
            count = infix("&", Level.BIT_AND, self.code(x.y), Code(str(mask)))
        if x.op == "shl" and kind.kind == "i":
            unsigned = self.dialect.types[f"u{kind.bits}"]
            bits = Code(f"({unsigned}){self.operand(x.x)}", Level.UNARY)
            return self._signed(infix("<<", Level.SHIFT, bits, count), kind)
        return infix("<<" if x.op == "shl" else ">>", Level.SHIFT, self.code(x.x), count)

    def _extreme(self, x: e.Binary, kind: DType) -> Code:
        a, b = self.code(x.x), self.code(x.y)
        template = self.dialect.functions.get(f"{x.op}.{kind.short}")
        if template is not None:
            return Code(template.format(a, b))
        if kind.is_float:
            return self._helper(f"f{x.op}_nan", kind, a, b)
        return Code(f"{x.op}({a}, {b})")

    def _helper(self, word: str, kind: DType, *arguments: Code) -> Code:
        name = self.context.prelude.helper(word, kind)
        return Code(f"{name}({', '.join(a.text for a in arguments)})")

    # -- conversions ------------------------------------------------------------------------

    def _cast(self, x: e.Cast) -> Code:
        source, target = x.x.type, x.type
        assert isinstance(source, DType)
        assert isinstance(target, DType)
        code = self.code(x.x) if source is target else self._convert(x, source, target)
        if x.storage is None or x.storage is target:
            return code
        if x.storage is float16:
            return self._helper("round_half", float32, code)
        if x.storage.kind == "b":
            return self._convert_code(infix("!=", Level.EQUALITY, code, Code("0")), target)
        memory = self.dialect.memory_type(x.storage)
        narrow = Code(f"({memory}){wrapped(code, Level.UNARY)}", Level.UNARY)
        return self._convert_code(narrow, target)

    def _convert_code(self, code: Code, target: DType) -> Code:
        return Code(
            f"({self.dialect.types[target.short]}){wrapped(code, Level.UNARY)}", Level.UNARY
        )

    def _convert(self, x: e.Cast, source: DType, target: DType) -> Code:
        inner = self.code(x.x)
        if isinstance(x.x, e.Const) and target.is_integer and source.is_integer:
            limit = 2**target.bits
            value = int(x.x.value) % limit
            signed = target.kind == "i" and value >= limit // 2
            return literal(value - limit if signed else value, target, self.dialect)
        if target.kind == "b":
            zero = literal(0, source, self.dialect)
            return infix("!=", Level.EQUALITY, inner, zero)
        template = self.dialect.casts.get(f"{source.short}.{target.short}")
        if template is not None:
            return Code(template.format(inner))
        if source.is_float and target.is_integer:
            return Code(f"{self._truncation(source, target)}({inner})")
        return self._convert_code(inner, target)

    def _truncation(self, source: DType, target: DType) -> str:
        """The helper that truncates to an integer, saturating, NaN giving 0."""
        name = f"pt_{target.short}_from_{source.short}"
        types, function = self.dialect.types, self.dialect.function
        low = -(2 ** (target.bits - 1)) if target.kind == "i" else 0
        high = 2 ** (target.bits - (target.kind == "i"))
        bottom, top = (literal(float(v), source, self.dialect) for v in (low, high))
        least, most = (literal(v, target, self.dialect) for v in (low, high - 1))

        def make() -> str:
            return (
                f"{function} {types[target.short]} {name}({types[source.short]} x)\n{{\n"
                f"    if (!(x > {bottom}))\n        return x <= {bottom} ? {least} : 0;\n"
                f"    return x >= {top} ? {most} : ({types[target.short]})x;\n}}"
            )

        return self.context.prelude.define(name, make)

    def _bitcast(self, x: e.Bitcast) -> Code:
        source, target = x.x.type, x.type
        assert isinstance(source, DType)
        assert isinstance(target, DType)
        if source is target:
            return self.code(x.x)
        template = self.dialect.bitcasts.get(f"{source.short}.{target.short}")
        if template is None:
            return self._convert_code(self.code(x.x), target)
        return Code(template.format(self.text(x.x)))

    # -- functions --------------------------------------------------------------------------

    def template(self, function: str, kind: DType) -> str:
        """How a function of `FUNCTIONS` is spelled for operands of a type."""
        keys = (f"{function}.{kind.short}", f"{function}.{kind.kind}", function)
        if self.context.kernel.options.fastmath:
            for key in keys:
                if key in self.dialect.fast_functions:
                    return self.dialect.fast_functions[key]
        for key in keys:
            if key in self.dialect.functions:
                return self.dialect.functions[key]
        raise UnsupportedError(f"{function} of {kind} does not exist in {self.dialect.name}")

    def _call(self, x: e.Call) -> Code:
        kind = x.arguments[0].type
        assert isinstance(kind, DType)
        assert x.function in FUNCTIONS
        template = self.template(x.function, kind)
        arguments = [self.code(a) for a in x.arguments]
        if template.startswith("@"):
            return self._helper(template[1:], kind, *arguments)
        types = self.dialect.types
        return Code(
            template.format(*arguments, T=types[kind.short]),
            Level.UNARY if template.startswith("(") else Level.POSTFIX,
        )


def _negated(inner: str) -> Code:
    """The negative; two minus signs side by side would decrement."""
    return Code(f"-({inner})" if inner.startswith("-") else f"-{inner}", Level.UNARY)


def _takes_vectors(x: e.Expression) -> bool:
    operands = x.arguments if isinstance(x, e.Call) else (getattr(x, "x", None),)
    return any(isinstance(getattr(o, "type", None), Vector) for o in operands)
