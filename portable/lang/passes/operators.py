"""Lowers operators that no target language has to those that all have.

Floor division, shifts by any count, minima that hand NaN on, absolute values that wrap and
conversions that saturate are the language's; below this pass there are only operators that a
language for devices spells in one symbol or call (see `semantics`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from portable.backend import Capabilities
from portable.dtypes import DType, float16, float32
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts, Interval, whole
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import ValueType, Vector, scalar_of
from portable.lang.passes.bindings import Bindings, lower_loops, placed
from portable.lang.passes.semantics import Semantics

# Floor division and its remainder, from what every language has.
#
# Of integers that is division truncated toward zero, which must never meet a divisor of 0, nor -1
# beneath the most negative value: the divisor is made harmless first, so that nothing depends on
# whether a language works out the side of a choice that is not taken. Divisors that are powers of
# two become shifts and masks, which are right for negative dividends too.

Name = Callable[[e.Expression, str], e.Expression]
"""Gives what stands for a value that is used more than once."""


@dataclass(frozen=True, slots=True)
class Known:
    """Between what bounds the operands of a division of integers lie."""

    dividend: Interval
    divisor: Interval

    @property
    def constant(self) -> int | None:
        """The divisor, where it is one number."""
        return self.divisor.low if self.divisor.low == self.divisor.high else None

    @property
    def power(self) -> int | None:
        """The exponent of a divisor that is a power of two."""
        number = self.constant
        positive = number is not None and number > 0 and number & (number - 1) == 0
        return number.bit_length() - 1 if positive and number is not None else None

    @property
    def plain(self) -> bool:
        """Whether neither operand is negative, so that truncating is flooring."""
        return self.dividend.low >= 0 and self.divisor.low >= 0

    def may_be(self, number: int) -> bool:
        """Whether the divisor may be this number."""
        return self.divisor.low <= number <= self.divisor.high


# -- integers ---------------------------------------------------------------------------------


def floordiv(x: e.Expression, y: e.Expression, known: Known, name: Name) -> e.Expression:
    """``x // y`` of integers; 0 where `y` is 0.

    Parameters
    ----------
    x, y : Expression
    known : Known
    name : callable
        Gives what stands for a value that is used more than once.
    """
    if known.constant == 0:
        return nodes.constant(0, x.type)
    if known.constant == -1:
        return e.Unary("neg", x)
    if known.power is not None:
        return nodes.binary("shr", x, known.power) if known.power else x
    if known.plain and known.divisor.low > 0:
        return e.Binary("quot", x, y)
    x, y = name(x, "dividend"), name(y, "divisor")
    safe, bounds = _harmless(y, known, name)
    floor: e.Expression = e.Binary("quot", x, safe)
    if not known.plain:
        quotient = name(floor, "quotient")
        up = _rounded_up(x, safe, e.Binary("mul", quotient, safe), bounds)
        floor = e.Binary("sub", quotient, nodes.cast(up, scalar_of(x.type)))
        if known.may_be(-1):
            floor = e.Select(nodes.compare("eq", y, -1), e.Unary("neg", x), floor)
    if known.may_be(0):
        floor = e.Select(nodes.compare("eq", y, 0), nodes.constant(0, x.type), floor)
    return floor


def mod(x: e.Expression, y: e.Expression, known: Known, name: Name) -> e.Expression:
    """``x % y`` of integers, with the divisor's sign; 0 where `y` is 0.

    Parameters
    ----------
    x, y, known, name
        As of `floordiv`.
    """
    if known.constant in (0, -1):
        return nodes.constant(0, x.type)
    if known.power is not None:
        return nodes.binary("and", x, 2**known.power - 1)
    safe, bounds = _harmless(y, known, name)
    remainder: e.Expression = e.Binary("rem", x, safe)
    if known.plain:
        return remainder
    safe, remainder = name(safe, "divisor"), name(remainder, "remainder")
    up = _has_other_sign(remainder, safe, bounds)
    return e.Binary("add", remainder, e.Select(up, safe, nodes.constant(0, x.type)))


def _harmless(y: e.Expression, known: Known, name: Name) -> tuple[e.Expression, Interval]:
    """A divisor with 1 in the place of 0 and -1, and its bounds then."""
    low, high = known.divisor.low, known.divisor.high
    numbers = [n for n in (0, -1) if known.may_be(n) and (n == 0 or not known.plain)]
    if not numbers:
        return y, known.divisor
    y = name(y, "divisor")
    special: e.Expression = nodes.compare("eq", y, numbers[0])
    for number in numbers[1:]:
        special = e.Binary("or", special, nodes.compare("eq", y, number))
    safe = name(e.Select(special, nodes.constant(1, y.type), y), "divisor")
    return safe, Interval(1 if low >= -1 else low, max(high, 1))


def _rounded_up(
    x: e.Expression, y: e.Expression, product: e.Expression, bounds: Interval
) -> e.Expression:
    """Whether truncating rounded up, `product` being that of the quotient and the divisor."""
    if bounds.low > 0:
        return e.Compare("gt", product, x)
    if bounds.high < 0:
        return e.Compare("lt", product, x)
    signs = nodes.compare("lt", e.Binary("xor", x, y), 0)
    return e.Binary("and", signs, e.Compare("ne", product, x))


def _has_other_sign(remainder: e.Expression, y: e.Expression, bounds: Interval) -> e.Expression:
    """Whether a remainder is not 0 and has not the divisor's sign."""
    if bounds.low > 0:
        return nodes.compare("lt", remainder, 0)
    if bounds.high < 0:
        return nodes.compare("gt", remainder, 0)
    signs = nodes.compare("lt", e.Binary("xor", remainder, y), 0)
    return e.Binary("and", nodes.compare("ne", remainder, 0), signs)


# -- floats -----------------------------------------------------------------------------------


def float_mod(x: e.Expression, y: e.Expression, name: Name) -> e.Expression:
    """``x % y`` of floats: the exact remainder, moved to the divisor's sign.

    Parameters
    ----------
    x, y, name
        As of `floordiv`.
    """
    x, y = name(x, "dividend"), name(y, "divisor")
    remainder = name(_call("fmod", x, y), "remainder")
    moved = e.Select(_differ(remainder, y), e.Binary("add", remainder, y), remainder)
    return e.Select(nodes.compare("eq", remainder, 0), _call("copysign", remainder, y), moved)


def float_floordiv(x: e.Expression, y: e.Expression, name: Name) -> e.Expression:
    """``x // y`` of floats, as Python and NumPy work it out.

    What the exact remainder leaves is divided and rounded to the nearest integer.

    Parameters
    ----------
    x, y, name
        As of `floordiv`.
    """
    x, y = name(x, "dividend"), name(y, "divisor")
    remainder = name(_call("fmod", x, y), "remainder")
    whole = e.Binary("div", e.Binary("sub", x, remainder), y)
    below = e.Binary("and", nodes.compare("ne", remainder, 0), _differ(remainder, y))
    step = e.Select(below, nodes.constant(1.0, x.type), nodes.constant(0.0, x.type))
    quotient = name(e.Binary("sub", whole, step), "quotient")
    floor = name(_call("floor", quotient), "floor")
    up = nodes.compare("gt", e.Binary("sub", quotient, floor), 0.5)
    nearest = e.Select(up, e.Binary("add", floor, nodes.constant(1.0, x.type)), floor)
    plain = name(e.Binary("div", x, y), "ratio")
    result = e.Select(nodes.compare("eq", quotient, 0), _call("copysign", quotient, plain), nearest)
    return e.Select(nodes.compare("eq", y, 0), plain, result)


def _call(function: str, *operands: e.Expression) -> e.Expression:
    return e.Call(function, operands, operands[0].type)


def _differ(x: e.Expression, y: e.Expression) -> e.Expression:
    """Whether one of two numbers is negative."""
    return e.Binary("xor", nodes.compare("lt", x, 0), nodes.compare("lt", y, 0))


# -- operators -------------------------------------------------------------------------------------


def lower_operators(kernel: Kernel, semantics: Semantics, bindings: Bindings) -> Kernel:
    """The kernel in operators, and words for places, that every language has.

    Parameters
    ----------
    kernel : Kernel
    semantics : Semantics
        What the language's operators mean.
    bindings : Bindings
        The kernel's names and what they are bound to.
    """
    operators = _Operators(kernel, semantics, bindings)
    return replace(kernel, body=bindings.changed(kernel.body, operators.expression))


class _Operators:
    def __init__(self, kernel: Kernel, semantics: Semantics, bindings: Bindings) -> None:
        self._kernel = kernel
        self._semantics = semantics
        self._facts = bindings.facts
        self._bindings = bindings

    def expression(self, x: e.Expression) -> e.Expression:
        """An expression; what is known is known of the operands as they were."""
        made = walks.map_children(x, self.expression)
        match made:
            case e.Binary(op="floordiv" | "mod"):
                assert isinstance(x, e.Binary)
                return self._division(x, made)
            case e.Binary(op="shl" | "shr"):
                assert isinstance(x, e.Binary)
                return replace(made, y=self._count(x.y, made.y))
            case e.Binary(op="min" | "max" as op) if scalar_of(made.type).is_float:
                return float_extreme(op, made.x, made.y, self._name)
            case e.Call(function="abs") if scalar_of(made.type).is_integer:
                return self._absolute(made.arguments[0])
            case e.Cast():
                return self._cast(made)
            case e.WorkItem():
                expression = placed(made, self._kernel)
                return made if expression is made else self.expression(expression)
            case _:
                return made

    def _name(self, x: e.Expression, hint: str) -> e.Expression:
        return self._bindings.name(x, hint)

    def _division(self, x: e.Binary, made: e.Binary) -> e.Expression:
        if scalar_of(x.type).is_float:
            worked_out = float_mod if x.op == "mod" else float_floordiv
            return worked_out(made.x, made.y, self._name)
        known = Known(self._bounds(x.x), self._bounds(x.y))
        if x.nonnegative:
            known = Known(_natural(known.dividend), _natural(known.divisor))
        lowered = mod if x.op == "mod" else floordiv
        return lowered(made.x, made.y, known, self._name)

    def _bounds(self, x: e.Expression) -> Interval:
        number = nodes.constant_of(x)
        if number is not None:
            return Interval(int(number), int(number))
        return whole(x.type.dtype) if isinstance(x.type, Vector) else self._facts.bounds(x)

    def _count(self, x: e.Expression, made: e.Expression) -> e.Expression:
        """A shift's count, modulo the width."""
        most, number = scalar_of(x.type).bits - 1, nodes.constant_of(x)
        if number is not None:
            return nodes.constant(int(number) & most, x.type)
        if self._bounds(x).inside(Interval(0, most)):
            return made
        return e.Binary("and", made, nodes.constant(most, x.type))

    def _absolute(self, x: e.Expression) -> e.Expression:
        """The absolute value, which of the most negative number is itself.

        Not ``-x if x < 0``: that becomes PTX's ``abs``, and ptxas takes ``abs(x) < 0`` to be false.
        """
        if scalar_of(x.type).kind == "u":
            return x
        x = self._name(x, "number")
        negative = self._name(e.Unary("neg", x), "negative")
        return e.Select(e.Compare("gt", x, negative), x, negative)

    def _cast(self, x: e.Cast) -> e.Expression:
        source, target = scalar_of(x.x.type), scalar_of(x.type)
        if not source.is_float or not target.is_integer or x.in_range:
            return x
        if f"{source.short}.{target.short}" in self._semantics.saturating:
            return x
        number = self._name(x.x, "number")
        result = _saturated(number, x.type, target)
        return result if x.storage is None else e.Cast(result, x.type, x.storage)


def _natural(x: Interval) -> Interval:
    """What is left of an interval of numbers that are not negative."""
    return Interval(max(x.low, 0), max(x.high, 0))


def _saturated(x: e.Expression, kind: ValueType, target: DType) -> e.Expression:
    """Truncated, the ends of the range beyond it, and 0 for NaN."""
    ends = whole(target)
    truncated = e.Cast(x, kind, in_range=True)
    top = nodes.compare("ge", x, float(ends.high + 1))
    capped = e.Select(top, nodes.constant(ends.high, kind), truncated)
    low = float(ends.low)
    beneath = nodes.constant(0, kind)
    if ends.low:
        beneath = e.Select(nodes.compare("le", x, low), nodes.constant(ends.low, kind), beneath)
    return e.Select(nodes.compare("gt", x, low), capped, beneath)


def float_extreme(op: e.BinaryOp, x: e.Expression, y: e.Expression, name: Name) -> e.Expression:
    """The lesser or greater of two floats; a NaN is handed on.

    Parameters
    ----------
    op : {"min", "max"}
    x, y : Expression
    name : callable
        Gives what stands for a value that is used more than once.
    """
    x, y = name(x, "first"), name(y, "second")
    beyond = e.Compare("lt" if op == "min" else "gt", x, y)
    return e.Select(e.Binary("or", beyond, e.Compare("ne", x, x)), x, y)


# Elementary functions, where a language has none of its own.
#
# `portable.lang.library.elementary` writes each once, in the language. Here its text, translated
# for the type at hand, takes the place of the call: for vectors lane by lane, without a branch but
# where few arguments need much more work than others do, so that work-items and lanes stay side by
# side. All its sums and products are `exact`: no device may round them otherwise, whatever the
# kernel allows.

INSTRUCTIONS: Final = frozenset({
    "abs", "ceil", "clz", "copysign", "floor", "fma", "isfinite", "isinf", "isnan", "mulhi",
    "popcount", "rint", "signbit", "sqrt", "trunc",
})  # fmt: skip
"""The functions that processors have instructions for; the others are made of these."""

_ROUNDED: Final = ("add", "sub", "mul", "div")


def lower_functions(
    kernel: Kernel, capabilities: Capabilities, semantics: Semantics, bindings: Bindings
) -> Kernel:
    """The kernel without calls of functions that the language lacks.

    Parameters
    ----------
    kernel : Kernel
        In operators of the language.
    capabilities : Capabilities
        Of the device.
    semantics : Semantics
        Says which functions the language has.
    bindings : Bindings
        The kernel's names and what they are bound to.
    """
    owned = semantics.functions
    if owned is None:
        return kernel
    called = (x.function for x in walks.all_expressions(kernel.body) if isinstance(x, e.Call))
    if owned.issuperset(called):
        return kernel
    functions = _Functions(owned, capabilities, semantics, bindings)
    body = bindings.changed(kernel.body, lambda x: walks.map_expression(x, functions.inlined))
    return replace(kernel, body=body, variables=(*kernel.variables, *functions.variables))


class _Functions:
    def __init__(
        self,
        owned: frozenset[str],
        capabilities: Capabilities,
        semantics: Semantics,
        bindings: Bindings,
    ) -> None:
        self.variables: list[e.Variable] = []
        self._owned = owned
        self._capabilities = capabilities
        self._semantics = semantics
        self._bindings = bindings

    def inlined(self, x: e.Expression) -> e.Expression:
        if not isinstance(x, e.Call) or x.function in self._owned:
            return x
        kinds = tuple(a.type for a in x.arguments)
        if scalar_of(kinds[0]) is float16:
            wide = tuple(nodes.cast(a, float32) for a in x.arguments)
            return nodes.cast(self._worked_out(x.function, wide), float16)
        return self._worked_out(x.function, x.arguments)

    def _worked_out(self, name: str, arguments: tuple[e.Expression, ...]) -> e.Expression:
        kinds = tuple(x.type for x in arguments)
        template = _template(name, kinds, self._semantics, self._capabilities)
        given = (self._bindings.name(x, name) for x in arguments)
        new: dict[e.Expression, e.Expression] = dict(zip(template.parameters, given, strict=True))
        for var in (*template.variables, *template.bound):
            new[var] = self._bindings.variable(var.name.partition("@")[0], var.type)
        self.variables += [_variable(new[x]) for x in template.variables]
        for x in _renamed(template.body, new, self._bindings):
            self._bindings.add(x)
        return new[template.result]


@dataclass(frozen=True, slots=True)
class _Template:
    """The text of a function for arguments of some types.

    Attributes
    ----------
    parameters : tuple of Variable
    variables : tuple of Variable
        Those that change.
    bound : tuple of Variable
        Names that are bound once.
    body : Block
    result : Variable
        Which of the names is bound to what the function returns.
    """

    parameters: tuple[e.Variable, ...]
    variables: tuple[e.Variable, ...]
    bound: tuple[e.Variable, ...]
    body: s.Block
    result: e.Variable


@lru_cache(maxsize=1024)
def _template(
    name: str, kinds: tuple[ValueType, ...], semantics: Semantics, capabilities: Capabilities
) -> _Template:
    """A function's text, in operators of the language, and all of it exact."""
    from portable.lang.frontend.compile import translate_function
    from portable.lang.library.elementary import ELEMENTARY

    kernel = translate_function(ELEMENTARY[name], kinds, capabilities)
    bindings = Bindings(Facts(kernel))
    kernel = lower_loops(kernel, bindings)
    kernel = lower_operators(kernel, semantics, bindings)
    body = walks.map_values(kernel.body, partial(walks.map_expression, change=_exact))
    last = body[-1]
    assert isinstance(last, s.Let)
    bound = tuple(var for x in walks.all_statements(body) for var in x.binds())
    parameters = tuple(_variable(x) for x in kernel.parameters)
    return _Template(parameters, kernel.variables, bound, body, last.var)


def _variable(x: object) -> e.Variable:
    assert isinstance(x, e.Variable)
    return x


def _exact(x: e.Expression) -> e.Expression:
    rounded = isinstance(x, e.Binary) and x.op in _ROUNDED and scalar_of(x.type).is_float
    return replace(x, exact=True) if rounded else x  # type: ignore[call-arg]


def _renamed(block: s.Block, new: dict[e.Expression, e.Expression], bindings: Bindings) -> s.Block:
    """A template's statements with other names, as of the statement at hand."""

    def change(x: e.Expression) -> e.Expression:
        return new.get(x, x) if isinstance(x, e.Variable) else x

    def statement(x: s.Statement) -> s.Block:
        made = walks.map_operands(x, lambda y: walks.map_expression(y, change))
        return (replace(made, loc=bindings.loc),)  # type: ignore[type-var]

    return walks.map_block(block, statement)
