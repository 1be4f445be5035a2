"""Short ways to write nodes that passes make often; operands may be vectors."""

from __future__ import annotations

from portable.dtypes import DType, uint32, uint64
from portable.lang.ir import expressions as e
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import ValueType, Vector, scalar_of

# Where a work-item stands, in terms of the words that every device has.


def linear_local_id(workgroup: tuple[int, int, int], kind: DType) -> e.Expression:
    """The linear local index of a work-item as an expression; dimension 0 varies fastest."""
    total: e.Expression | None = None
    for dim in (2, 1, 0):
        if workgroup[dim] == 1:
            continue
        number = e.WorkItem("local_id", dim, kind)
        if total is None:
            total = number
        else:
            scaled = e.Binary("mul", total, e.Const(workgroup[dim], kind))
            total = e.Binary("add", scaled, number)
    return e.Const(0, kind) if total is None else total


def linear_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The same, of a kernel that may be launched along one dimension."""
    if kernel.flat:
        return e.WorkItem("local_linear_id", 0, kind)
    return linear_local_id(kernel.workgroup, kind)


def sub_group_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item's sub-group; their size is a power of two."""
    exponent = kernel.sub_group_size.bit_length() - 1
    return e.Binary("shr", linear_id(kernel, kind), e.Const(exponent, kind))


def sub_group_local_id(kernel: Kernel, kind: DType) -> e.Expression:
    """The number of a work-item in its sub-group."""
    if kernel.sub_group_size == 1:
        return e.Const(0, kind)
    return e.Binary("and", linear_id(kernel, kind), e.Const(kernel.sub_group_size - 1, kind))


# Short ways to write nodes that passes make often; operands may be vectors.


def constant(value: float, kind: ValueType) -> e.Expression:
    """A number of a type, in every lane."""
    scalar = e.Const(value, scalar_of(kind))
    return e.Splat(scalar, kind) if isinstance(kind, Vector) else scalar


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
