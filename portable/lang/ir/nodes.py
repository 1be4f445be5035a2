"""Short ways to write nodes of the IR that passes make often; operands may be vectors."""

from __future__ import annotations

from portable.dtypes import DType, bool_, uint32, uint64
from portable.lang.ir import expressions as e
from portable.lang.ir.types import ValueType, Vector, lanes_of, scalar_of


def scalar_type(x: e.Expression) -> DType:
    """The type of an expression that is no vector."""
    kind = x.type
    assert isinstance(kind, DType)
    return kind


def constant(value: float, kind: ValueType) -> e.Expression:
    """A number of a type, in every lane."""
    scalar = scalar_of(kind)
    held = float(value) if scalar.is_float else bool(value) if scalar is bool_ else int(value)
    return splat(e.Const(held, scalar), kind)


def splat(x: e.Expression, kind: ValueType) -> e.Expression:
    """A scalar in every lane of a vector type; what is a vector, or is to be none, as it is."""
    return e.Splat(x, kind) if isinstance(kind, Vector) and lanes_of(x.type) == 1 else x


def like(kind: ValueType, scalar: DType) -> ValueType:
    """The type with as many lanes as `kind`, each of type `scalar`."""
    return Vector(scalar, kind.lanes) if isinstance(kind, Vector) else scalar


def unsigned(kind: ValueType) -> ValueType:
    """The unsigned type of an integer type's width."""
    return like(kind, uint32 if scalar_of(kind).bits == 32 else uint64)


def cast(x: e.Expression, scalar: DType) -> e.Expression:
    """`x` in a type, lane by lane."""
    if scalar_of(x.type) is scalar:
        return x
    if isinstance(x, e.Const) and scalar.kind == "u":
        return e.Const(int(x.value) % 2**scalar.bits, scalar)
    return e.Cast(x, like(x.type, scalar))


def reinterpret(x: e.Expression, kind: ValueType) -> e.Expression:
    """The bits of an integer as the signed or unsigned type of its width."""
    if x.type == kind:
        return x
    return e.Bitcast(x, kind) if isinstance(kind, Vector) else e.Cast(x, kind)


def compare(op: e.CompareOp, x: e.Expression, value: float) -> e.Compare:
    """Whether `x` compares so with a number.

    Parameters
    ----------
    op : str
        As of `portable.lang.ir.expressions.Compare`.
    x : Expression
    value : float
    """
    return e.Compare(op, x, constant(value, x.type))


def binary(op: e.BinaryOp, x: e.Expression, value: float) -> e.Binary:
    """An operator on `x` and a number.

    Parameters
    ----------
    op : str
        As of `portable.lang.ir.expressions.Binary`.
    x : Expression
    value : float
    """
    return e.Binary(op, x, constant(value, x.type))


def both(*conditions: e.Expression | None) -> e.Expression | None:
    """All of the conditions; None for none."""
    result: e.Expression | None = None
    for condition in conditions:
        if condition is not None:
            assert condition.type is bool_
            result = condition if result is None else e.Binary("and", result, condition)
    return result


def neighbour(index: tuple[e.Expression, ...], axis: int, lane: int) -> tuple[e.Expression, ...]:
    """An index so many elements further along an axis."""
    at = axis % len(index)
    here, kind = index[at], index[at].type
    assert isinstance(kind, DType)
    if isinstance(here, e.Const):
        moved: e.Expression = e.Const(int(here.value) + lane, kind)
    else:
        moved = e.Binary("add", here, e.Const(lane, kind)) if lane else here
    return (*index[:at], moved, *index[at + 1 :])


def constant_of(x: e.Expression) -> float | None:
    """The number that an expression is, for vectors in every lane; None where it is none."""
    match x:
        case e.Const(value=value):
            return value
        case e.Splat():
            return constant_of(x.x)
        case e.MakeVector(elements=elements):
            values = {constant_of(lane) for lane in elements}
            return values.pop() if len(values) == 1 else None
        case _:
            return None
