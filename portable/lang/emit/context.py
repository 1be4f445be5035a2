"""What every printer of one kernel shares."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from portable.backend import Argument, Box, Capabilities
from portable.dtypes import DType, int32, int64
from portable.lang.emit.dialect import Dialect
from portable.lang.ir import expressions as e
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array, ValueType

_KEYWORDS: Final = """
alignas alignof and and_eq asm atomic auto bitand bitor bool break case catch char class compl
const constant constexpr continue decltype default delete do double dynamic_cast else enum
event_t explicit export extern false float for friend generic global goto half if image inline
int kernel local long mutable namespace new noexcept not not_eq nullptr operator or or_eq pipe
private protected read_only write_only read_write uniform intptr_t ptrdiff_t public register
reinterpret_cast restrict return sampler_t short signed size_t sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename
uchar uint uintptr_t ulong union unsigned ushort using virtual void volatile wchar_t while xor
xor_eq main printf NULL NAN INFINITY CHAR_BIT warpSize threadIdx blockIdx blockDim gridDim half2
vec_step as_type dot cross length distance normalize step mix sign clamp select smoothstep
degrees radians any all mad mad24 mul24 isequal isless isgreater isnormal isordered bitselect
shuffle prefetch barrier fence min max abs abs_diff add_sat sub_sat hadd rhadd rotate upsample
popcount clz ctz nan modf frexp ldexp ilogb logb lgamma tgamma remquo remainder fdim fmax fmin
fract maxmag minmag sincos erf erfc expf logf sinf cosf tanf powf sqrtf acosh asinh atanh y0 y1
yn j0 j1 jn gamma local_memory linux unix i386 assert signbit isnan isinf isfinite round norm rnorm
norm3d rnorm3d norm4d rnorm4d normcdf normcdfinv cospi sinpi sincospi erfinv erfcinv erfcx rcbrt
rhypot nearbyint lrint llrint lround llround scalbn scalbln exp10 cyl_bessel_i0 cyl_bessel_i1 dim3
free malloc
"""
"""What C++ and OpenCL C take for themselves, and functions that kernels' helpers call."""

_VECTOR = re.compile(r"^(u?(char|short|int|long)|float|double|half|bool)\d*$")


class Names:
    """Gives every name of a kernel one C identifier, distinct and free of the dialect's own words.

    Parameters
    ----------
    words : iterable of str
        Identifiers that the dialect may print, which are not to be shadowed.
    """

    def __init__(self, words: Iterable[str] = ()) -> None:
        keywords = _KEYWORDS.split()
        self._taken = {*keywords, *(f"{x}f" for x in keywords), *words}
        self._given: dict[object, str] = {}

    def of(self, name: str, kind: str = "value") -> str:
        """The identifier for a name of the kernel; always the same for the same name and kind."""
        key = (kind, name)
        if key not in self._given:
            self._given[key] = self.fresh(name)
        return self._given[key]

    def fresh(self, name: str) -> str:
        """A new identifier close to `name`."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
        if base[0].isdigit() or base.startswith(("pt_", "__", "CLK_", "M_", "cl_")):
            base = "v_" + base.lstrip("_")
        if _VECTOR.match(base):
            base += "_"
        chosen, count = base, 1
        while chosen in self._taken:
            count += 1
            chosen = f"{base}_" if count == 2 else f"{base}_{count - 1}"
        self._taken.add(chosen)
        return chosen


# Pieces of C text that know how tightly they bind, and the writer of indented lines.


class Level(IntEnum):
    """How tightly an expression's outermost operator binds, C's order."""

    CONDITIONAL = 3
    LOGICAL_OR = 4
    LOGICAL_AND = 5
    BIT_OR = 6
    BIT_XOR = 7
    BIT_AND = 8
    EQUALITY = 9
    RELATION = 10
    SHIFT = 11
    SUM = 12
    PRODUCT = 13
    UNARY = 15
    POSTFIX = 16


class Code(NamedTuple):
    """An expression's text and the level of its outermost operator."""

    text: str
    level: Level = Level.POSTFIX

    def __str__(self) -> str:
        return self.text


OPERATORS: Final[dict[str, tuple[str, Level]]] = {
    "add": ("+", Level.SUM),
    "sub": ("-", Level.SUM),
    "mul": ("*", Level.PRODUCT),
    "div": ("/", Level.PRODUCT),
    "quot": ("/", Level.PRODUCT),
    "rem": ("%", Level.PRODUCT),
    "and": ("&", Level.BIT_AND),
    "or": ("|", Level.BIT_OR),
    "xor": ("^", Level.BIT_XOR),
    "shl": ("<<", Level.SHIFT),
    "shr": (">>", Level.SHIFT),
    "eq": ("==", Level.EQUALITY),
    "ne": ("!=", Level.EQUALITY),
    "lt": ("<", Level.RELATION),
    "le": ("<=", Level.RELATION),
    "gt": (">", Level.RELATION),
    "ge": (">=", Level.RELATION),
}
"""How C spells operations on numbers, and comparisons."""

_BITWISE = (Level.BIT_OR, Level.BIT_XOR, Level.BIT_AND, Level.SHIFT)


def wrapped(code: Code, level: Level) -> str:
    """The text, in parentheses where it binds less tightly than `level`."""
    return code.text if code.level >= level else f"({code.text})"


def infix(operator: str, level: Level, x: Code, y: Code) -> Code:
    """``x operator y``, left-associative; the less familiar precedences are spelled out.

    Parameters
    ----------
    operator : str
    level : Level
        How tightly it binds.
    x, y : Code
    """
    if level in _BITWISE:
        left, right = wrapped(x, Level.UNARY), wrapped(y, Level.UNARY)
    elif level in (Level.LOGICAL_OR, Level.LOGICAL_AND):
        inner = Level.EQUALITY
        left = x.text if x.level == level else wrapped(x, inner)
        right = wrapped(y, inner)
    else:
        left, right = wrapped(x, level), wrapped(y, Level(_next(level)))
    return Code(f"{left} {operator} {right}", level)


def negated(inner: str) -> Code:
    """The negative; two minus signs side by side would decrement."""
    return Code(f"-({inner})" if inner.startswith("-") else f"-{inner}", Level.UNARY)


def _next(level: Level) -> int:
    return Level.UNARY if level == Level.PRODUCT else level + 1


class Writer:
    """Collects lines at the current indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Adds one line."""
        self.lines.append("    " * self._depth + text if text else "")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Adds ``head {``, what the context adds one step deeper, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Adds what the context adds one step deeper."""
        self._depth += 1
        yield
        self._depth -= 1


# Exact literals.


def literal(value: float, kind: DType, dialect: Dialect) -> Code:
    """A constant of a register type, the same value to the last bit.

    Parameters
    ----------
    value : float
    kind : DType
    dialect : Dialect
        The language that it is printed in.
    """
    if kind.kind == "b":
        return Code("true" if value else "false")
    if kind.is_integer:
        return _integer(int(value), kind, dialect)
    return _floating(float(value), kind, dialect)


def _integer(value: int, kind: DType, dialect: Dialect) -> Code:
    suffix = dialect.suffixes[kind.short]
    if kind.kind == "i" and value == -(2 ** (kind.bits - 1)):
        return Code(f"-{-value - 1}{suffix} - 1", Level.SUM)
    return Code(f"{value}{suffix}", Level.POSTFIX if value >= 0 else Level.UNARY)


def _floating(value: float, kind: DType, dialect: Dialect) -> Code:
    with np.errstate(over="ignore"):
        rounded = kind.numpy.type(value)
    if np.isnan(rounded):
        return Code(dialect.specials[f"nan.{kind.short}"])
    negative = math.copysign(1.0, float(rounded)) < 0
    magnitude = abs(rounded)
    if np.isinf(magnitude):
        text = dialect.specials[f"inf.{kind.short}"]
    else:
        text = _decimal(magnitude) + dialect.suffixes[kind.short]
        if kind.short == "f16" and "literal.f16" in dialect.specials:
            text = dialect.specials["literal.f16"].format(_decimal(magnitude))
    return Code(f"-{text}", Level.UNARY) if negative else Code(text)


def _decimal(magnitude: np.floating[Any]) -> str:
    """The shortest decimal that reads back as the same number of its type."""
    text = str(magnitude)
    return text if "." in text or "e" in text or "n" in text else f"{text}.0"


# -- context ---------------------------------------------------------------------------------------


class Prelude:
    """The definitions that a kernel's text needs before it, in the order of first use."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._texts: dict[str, str] = {}
        self.features: set[str] = set()

    def define(self, name: str, make: Callable[[], str]) -> str:
        """Makes sure that `name` is defined, by the text that `make` gives; returns the name."""
        if name not in self._texts:
            text = make()
            self._texts[name] = text
        return name

    def helper(self, word: str, kind: DType) -> str:
        """The name of a helper for a scalar type, which is added where it is new."""
        name = f"pt_{word}_{kind.short}"
        return self.define(name, lambda: self._helper_text(name, word, kind))

    def _helper_text(self, name: str, word: str, kind: DType) -> str:
        values = {
            "name": name,
            "T": self._dialect.types[kind.short],
            "U": self._dialect.types.get(f"u{kind.bits}", ""),
            "bits": str(kind.bits),
            "asm": self._dialect.asm,
            "r": "l" if kind.bits == 64 else "r",
        }
        return f"{self._dialect.function} {self._dialect.helpers[word].text.format(**values)}"

    def text(self) -> list[str]:
        """All definitions, a blank line after each."""
        lines: list[str] = []
        for text in self._texts.values():
            lines += [*text.splitlines(), ""]
        return lines


@dataclass(slots=True)
class Context:
    """One kernel on its way to one dialect's text.

    Attributes
    ----------
    kernel, capabilities, dialect
        What is printed, for what, how.
    names, facts, prelude
        Identifiers, proofs and definitions of this kernel.
    used : dict
        Sizes, extents, strides and boxes that the text mentions, with their identifiers.
    """

    kernel: Kernel
    capabilities: Capabilities
    dialect: Dialect
    names: Names
    facts: Facts
    prelude: Prelude
    used: dict[Argument, str] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel, capabilities: Capabilities, dialect: Dialect) -> Context:
        """A fresh context; parameters and arrays get their names first."""
        names = Names(dialect.words())
        for parameter in kernel.parameters:
            kind = "array" if isinstance(parameter, Array) else "value"
            names.of(parameter.name, kind)
        for array in kernel.arrays:
            names.of(array.name, "array")
        return Context(kernel, capabilities, dialect, names, Facts(kernel), Prelude(dialect))

    def array_name(self, array: Array) -> str:
        """The C identifier of an array."""
        return self.names.of(array.name, "array")

    def size_argument(self, kind: str, array: Array, dim: int) -> str:
        """The identifier of an extent, stride or offset, which becomes an argument of the entry."""
        word = {"extent": "shape", "stride": "stride"}.get(kind)
        index = self.kernel.parameters.index(array)
        if word is None:
            key = Argument("offset", index, 0, int64)
            return self.used.setdefault(key, self.names.of(f"{array.name}_offset", "offset"))
        index_type = self.kernel.index_type
        assert index_type in (int32, int64)
        key = Argument("extent" if kind == "extent" else "stride", index, dim, index_type)
        return self.used.setdefault(key, self.names.of(f"{array.name}_{word}{dim}", "size"))

    def range_argument(self, dim: int) -> str:
        """The identifier of the ndrange's size, where it ends within a workgroup."""
        key = Argument("size", -1, dim, self.kernel.index_type)
        return self.used.setdefault(key, self.names.of(f"global_size{dim}", "size"))

    def box_argument(self, array: Array, box: Box) -> str:
        """The identifier of an array's description for copies of a box of it."""
        key = Argument("box", self.kernel.parameters.index(array), 0, array.dtype, box)
        argument = self.used.get(key)
        return argument or self.used.setdefault(key, self.names.fresh(f"{array.name}_boxes"))


# What printers of parts of a kernel ask of the one that prints its expressions.


@dataclass(frozen=True, slots=True)
class Text(e.Expression):
    """A piece of postfix C text in the place of an expression."""

    text: str
    type: ValueType


class Printer(Protocol):
    """Prints expressions of one kernel."""

    context: Context
    dialect: Dialect

    def text(self, x: e.Expression) -> str:
        """The text of an expression, to stand where any may."""

    def operand(self, x: e.Expression) -> str:
        """The text of an expression, to stand beside a unary operator or in a cast."""

    def code(self, x: e.Expression) -> Code:
        """The text and level of an expression."""

    def template(self, function: str, kind: DType) -> str:
        """How a function is spelled for operands of a type."""

    def hides_negatives(self, x: e.Unary) -> bool:
        """Whether a compiler must not find out that this is a negative."""


def conditional(printer: Printer, x: e.Select) -> Code:
    """A choice by C's operator."""
    parts = [wrapped(printer.code(p), Level.LOGICAL_OR) for p in (x.condition, x.x, x.y)]
    return Code(f"{parts[0]} ? {parts[1]} : {parts[2]}", Level.CONDITIONAL)


def operation(
    x: e.Binary, a: Code, b: Code, operators: Mapping[str, tuple[str, Level]] = OPERATORS
) -> Code:
    """An operation by C's operator, or by the function that C calls as the IR does.

    Parameters
    ----------
    x : Binary
    a, b : Code
        Its operands.
    operators : mapping
        How each operation is spelled that has an operator, and how tightly it binds.
    """
    if x.op in operators:
        return infix(*operators[x.op], a, b)
    assert x.op in ("min", "max"), f"no language has {x.op} of {x.type}"
    return Code(f"{x.op}({a}, {b})")
