"""Prints value trees; vectors are the business of `vectors`, their masks of `avx512`."""

from __future__ import annotations

from portable.dtypes import DType, float16, float32
from portable.errors import UnsupportedError
from portable.lang.emit import avx512, vectors
from portable.lang.emit.context import (
    OPERATORS,
    Code,
    Context,
    Level,
    Text,
    conditional,
    infix,
    literal,
    negated,
    operation,
    wrapped,
)
from portable.lang.ir import expressions as e
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.nodes import scalar_type
from portable.lang.ir.types import Vector, scalar_of

_LOGIC = {
    "and": ("&&", Level.LOGICAL_AND),
    "or": ("||", Level.LOGICAL_OR),
    "xor": ("!=", Level.EQUALITY),
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
        match x:
            case Text(text=text):
                return Code(text)
            case e.Const(value=value, type=kind):
                return literal(value, kind, self.dialect)
            case e.Variable(name=name):
                return Code(self.context.names.of(name))
            case e.Extent(array=array, dim=dim):
                return Code(self.context.size_argument("extent", array, dim))
            case e.WorkItem():
                return self._work_item(x)
            case e.AssumeUniform():
                return self.code(x.x)
            case e.Lane() | e.Splat() | e.MakeVector():
                return vectors.structural(self, x)
            case e.Compress():
                return avx512.compressed(self, x)
            case e.Count():
                return avx512.counted(self, x)
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
                return infix(*OPERATORS[op], self.code(x.x), self.code(x.y))
            case e.Select():
                return conditional(self, x)
            case e.Cast():
                return self._cast(x)
            case e.Bitcast():
                return self._bitcast(x)
            case e.Call():
                return self._call(x)
            case _:
                raise UnsupportedError(f"{type(x).__name__} has no spelling in {self.dialect.name}")

    # -- leaves -----------------------------------------------------------------------------

    def _work_item(self, x: e.WorkItem) -> Code:
        if x.word == "global_size" and x.dim in self.context.kernel.ragged:
            return Code(self.context.range_argument(x.dim))
        text = self.dialect.work_items[x.word].format(
            d=x.dim,
            x="xyz"[x.dim],
            size=literal(self.context.kernel.workgroup[x.dim], x.type, self.dialect),
            T=self.dialect.types[x.type.short],
        )
        return Code(text, Level.SUM if x.word in self.dialect.sums else Level.UNARY)

    # -- operators --------------------------------------------------------------------------

    def _unary(self, x: e.Unary) -> Code:
        kind = scalar_type(x.x)
        if self.hides_negatives(x):
            return self._helper("minus", kind, self.code(x.x))
        operator = {"neg": "-", "not": "!", "invert": "~"}[x.op]
        inner = self.operand(x.x)
        return negated(inner) if x.op == "neg" else Code(f"{operator}{inner}", Level.UNARY)

    def hides_negatives(self, x: e.Unary) -> bool:
        """Whether a compiler must not find out that this is a negative."""
        kind = scalar_of(x.type)
        return x.op == "neg" and f"neg.{kind.kind}" in self.dialect.functions

    def _binary(self, x: e.Binary) -> Code:
        a, b = self.code(x.x), self.code(x.y)
        if x.op in ("shl", "shr") and isinstance(x.y, e.Const):
            b = Code(str(x.y.value))
        return operation(x, a, b, _LOGIC if scalar_of(x.type).kind == "b" else OPERATORS)

    def _helper(self, word: str, kind: DType, *arguments: Code) -> Code:
        name = self.context.prelude.helper(word, kind)
        return Code(f"{name}({', '.join(a.text for a in arguments)})")

    # -- conversions ------------------------------------------------------------------------

    def _cast(self, x: e.Cast) -> Code:
        source, target = scalar_type(x.x), scalar_type(x)
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
        return self._convert_code(inner, target)

    def _bitcast(self, x: e.Bitcast) -> Code:
        source, target = scalar_type(x.x), scalar_type(x)
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
        kind = scalar_type(x.arguments[0])
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


def _takes_vectors(x: e.Expression) -> bool:
    operands = x.arguments if isinstance(x, e.Call) else (getattr(x, "x", None),)
    return any(isinstance(getattr(o, "type", None), Vector) for o in operands)
