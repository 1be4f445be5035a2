"""What a value's adjoint gives to those of its operands: the rules of differentiation.

A rule is given the operands' names in the adjoint's precision and the adjoint of the result, and
gives each operand's share. Where a derivative may be infinite, nothing times it is nothing: what is
not used (the branch not taken of a ``where``) does not spoil what is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from portable.gradients.adjoint.names import adjoint_type, is_float, zero
from portable.lang.ir import expressions as e
from portable.lang.ir.nodes import cast, compare, constant
from portable.lang.ir.types import Vector, scalar_of

X = e.Expression
Share = tuple[X, X]
"""An operand and what is added to its adjoint."""


def mul(a: X, b: X) -> X:
    """The product."""
    return e.Binary("mul", a, b)


def add(a: X, b: X) -> X:
    """The sum."""
    return e.Binary("add", a, b)


def sub(a: X, b: X) -> X:
    """The difference."""
    return e.Binary("sub", a, b)


def div(a: X, b: X) -> X:
    """The quotient."""
    return e.Binary("div", a, b)


def neg(a: X) -> X:
    """The negative."""
    return e.Unary("neg", a)


def number(value: float, like: X) -> X:
    """A number of the type of `like`."""
    return constant(value, like.type)


def call(name: str, *arguments: X) -> X:
    """A function of numbers."""
    return e.Call(name, arguments, arguments[0].type)


def guarded(adjoint: X, derivative: X) -> X:
    """Their product, nothing where the adjoint is nothing, be the derivative infinite or NaN."""
    nothing = e.Compare("eq", adjoint, zero(adjoint.type))
    return e.Select(nothing, zero(adjoint.type), mul(adjoint, derivative))


def _sign(x: X) -> X:
    one = call("copysign", number(1.0, x), x)
    return e.Select(compare("eq", x, 0.0), zero(x.type), one)


_Rule = Callable[[X, X], X]
"""From the operand and the result of a function to its derivative."""

_SMOOTH: Final[dict[str, _Rule]] = {
    "sin": lambda x, _: call("cos", x),
    "cos": lambda x, _: neg(call("sin", x)),
    "exp": lambda _, y: y,
    "exp2": lambda _, y: mul(y, number(math.log(2), y)),
    "expm1": lambda _, y: add(y, number(1.0, y)),
    "sinh": lambda x, _: call("cosh", x),
    "cosh": lambda x, _: call("sinh", x),
    "tanh": lambda _, y: sub(number(1.0, y), mul(y, y)),
    "tan": lambda _, y: add(number(1.0, y), mul(y, y)),
    "atan": lambda x, _: div(number(1.0, x), add(number(1.0, x), mul(x, x))),
    "asinh": lambda x, _: div(number(1.0, x), call("hypot", x, number(1.0, x))),
    "abs": lambda x, _: _sign(x),
}

_SINGULAR: Final[dict[str, _Rule]] = {
    "log": lambda x, _: div(number(1.0, x), x),
    "log2": lambda x, _: div(number(1 / math.log(2), x), x),
    "log10": lambda x, _: div(number(1 / math.log(10), x), x),
    "log1p": lambda x, _: div(number(1.0, x), add(number(1.0, x), x)),
    "sqrt": lambda _, y: div(number(0.5, y), y),
    "rsqrt": lambda x, y: div(mul(number(-0.5, y), y), x),
    "cbrt": lambda _, y: div(number(1 / 3, y), mul(y, y)),
    "asin": lambda x, _: call("rsqrt", _apart(x)),
    "acos": lambda x, _: neg(call("rsqrt", _apart(x))),
    "acosh": lambda x, _: call("rsqrt", mul(sub(x, number(1.0, x)), add(x, number(1.0, x)))),
    "atanh": lambda x, _: div(number(1.0, x), _apart(x)),
}

_CONSTANT: Final = frozenset({"ceil", "floor", "rint", "trunc"})
"""Functions whose derivative is nothing wherever there is one."""


def _apart(x: X) -> X:
    """``1 - x ** 2``, without cancellation."""
    return mul(sub(number(1.0, x), x), add(number(1.0, x), x))


def _wide(x: X) -> X:
    """An operand in the precision of adjoints."""
    return cast(x, scalar_of(adjoint_type(x.type)))


def shares(value: X, result: X, adjoint: X) -> Iterator[Share] | None:
    """What a step gives to the adjoints of its operands; None where it has no derivative here.

    Parameters
    ----------
    value : Expression
        The step, on names and numbers.
    result : Expression
        The name that it is bound to.
    adjoint : Expression
        That of the result.
    """
    match value:
        case e.Variable() | e.AssumeUniform():
            return iter([(value.x if isinstance(value, e.AssumeUniform) else value, adjoint)])
        case e.Const():
            return iter([])
        case e.Unary(op="neg"):
            return iter([(value.x, neg(adjoint))])
        case e.Binary():
            return _binary(value, _wide(result), adjoint)
        case e.Select():
            return _select(value, adjoint)
        case e.Cast():
            return _cast(value, adjoint)
        case e.Call():
            return _call(value, _wide(result), adjoint)
        case e.Splat() | e.MakeVector() | e.Lane():
            return _vector(value, adjoint)
        case _:
            return None


def _select(value: e.Select, adjoint: X) -> Iterator[Share]:
    nothing = zero(adjoint.type)
    yield value.x, e.Select(value.condition, adjoint, nothing)
    yield value.y, e.Select(value.condition, nothing, adjoint)


def _cast(value: e.Cast, adjoint: X) -> Iterator[Share]:
    if is_float(value.x.type):
        yield value.x, cast(adjoint, scalar_of(adjoint_type(value.x.type)))


def _binary(value: e.Binary, y: X, adjoint: X) -> Iterator[Share] | None:
    a, b = _wide(value.x), _wide(value.y)
    match value.op:
        case "add":
            given = (adjoint, adjoint)
        case "sub":
            given = (adjoint, neg(adjoint))
        case "mul":
            given = (mul(adjoint, b), mul(adjoint, a))
        case "div":
            quotient = div(number(1.0, b), b)
            given = (guarded(adjoint, quotient), guarded(adjoint, neg(mul(y, quotient))))
        case "min" | "max":
            first = e.Compare("lt" if value.op == "min" else "gt", a, b)
            nothing = zero(adjoint.type)
            given = (e.Select(first, adjoint, nothing), e.Select(first, nothing, adjoint))
        case "mod":
            given = (adjoint, neg(guarded(adjoint, call("floor", div(a, b)))))
        case "floordiv":
            return iter([])
        case _:
            return None
    return iter([(value.x, given[0]), (value.y, given[1])])


def _call(value: e.Call, y: X, adjoint: X) -> Iterator[Share] | None:
    name, arguments = value.function, tuple(_wide(x) for x in value.arguments)
    x = arguments[0]
    if name in _SMOOTH:
        return iter([(value.arguments[0], mul(adjoint, _SMOOTH[name](x, y)))])
    if name in _SINGULAR:
        return iter([(value.arguments[0], guarded(adjoint, _SINGULAR[name](x, y)))])
    if name in _CONSTANT:
        return iter([])
    rule = _SEVERAL.get(name)
    if rule is None:
        return None
    return iter(zip(value.arguments, rule(arguments, y, adjoint), strict=True))


def _fma(x: tuple[X, ...], _: X, adjoint: X) -> list[X]:
    return [mul(adjoint, x[1]), mul(adjoint, x[0]), adjoint]


def _hypot(x: tuple[X, ...], y: X, adjoint: X) -> list[X]:
    at_zero = compare("eq", y, 0.0)
    return [e.Select(at_zero, zero(y.type), mul(adjoint, div(part, y))) for part in x]


def _atan2(x: tuple[X, ...], _: X, adjoint: X) -> list[X]:
    length = add(mul(x[0], x[0]), mul(x[1], x[1]))
    return [guarded(adjoint, div(x[1], length)), guarded(adjoint, neg(div(x[0], length)))]


def _pow(x: tuple[X, ...], y: X, adjoint: X) -> list[X]:
    base, exponent = x
    lower = mul(exponent, call("pow", base, sub(exponent, number(1.0, base))))
    slope = e.Select(compare("eq", exponent, 0.0), zero(base.type), lower)
    growth = e.Select(compare("eq", base, 0.0), zero(y.type), mul(y, call("log", base)))
    return [guarded(adjoint, slope), guarded(adjoint, growth)]


def _fmod(x: tuple[X, ...], _: X, adjoint: X) -> list[X]:
    return [adjoint, neg(guarded(adjoint, call("trunc", div(x[0], x[1]))))]


def _copysign(x: tuple[X, ...], _: X, adjoint: X) -> list[X]:
    same = mul(_sign(x[0]), call("copysign", number(1.0, x[1]), x[1]))
    return [mul(adjoint, same), zero(adjoint.type)]


def _nextafter(x: tuple[X, ...], _: X, adjoint: X) -> list[X]:
    return [adjoint, zero(adjoint.type)]


_SEVERAL: Final[dict[str, Callable[[tuple[X, ...], X, X], list[X]]]] = {
    "fma": _fma,
    "hypot": _hypot,
    "atan2": _atan2,
    "pow": _pow,
    "fmod": _fmod,
    "copysign": _copysign,
    "nextafter": _nextafter,
}


def _vector(value: X, adjoint: X) -> Iterator[Share]:
    match value:
        case e.Splat():
            total: X = e.Lane(adjoint, 0)
            for lane in range(1, value.type.lanes):
                total = add(total, e.Lane(adjoint, lane))
            yield value.x, total
        case e.MakeVector():
            for lane, element in enumerate(value.elements):
                yield element, e.Lane(adjoint, lane)
        case e.Lane():
            kind = value.x.type
            assert isinstance(kind, Vector)
            wide = adjoint_type(kind)
            assert isinstance(wide, Vector)
            nothing = zero(wide.dtype)
            lanes = tuple(adjoint if i == value.lane else nothing for i in range(wide.lanes))
            yield value.x, e.MakeVector(lanes, wide)
