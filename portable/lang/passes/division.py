"""Floor division and its remainder, from what every language has.

Of integers that is division truncated toward zero, which must never meet a divisor of 0, nor -1
beneath the most negative value: the divisor is made harmless first, so that nothing depends on
whether a language works out the side of a choice that is not taken. Divisors that are powers of
two become shifts and masks, which are right for negative dividends too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from portable.lang.ir import expressions as e
from portable.lang.ir import nodes
from portable.lang.ir.facts import Interval
from portable.lang.ir.types import scalar_of

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
