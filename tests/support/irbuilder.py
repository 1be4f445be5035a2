"""Builds IR by hand for tests of what comes after the front end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes as dt
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, Options
from portable.lang.ir.types import Array, Layout, StrideClass, ValueType

LOC = Location("/somewhere/example.py", 7)


def var(name: str, kind: ValueType = dt.int32) -> e.Variable:
    """A variable."""
    return e.Variable(name, kind)


def const(value: float, kind: dt.DType = dt.int32) -> e.Const:
    """A constant."""
    return e.Const(value, kind)


def gid(dim: int = 0, kind: dt.DType = dt.int32) -> e.WorkItem:
    """A global index."""
    return e.WorkItem("global_id", dim, kind)


def lid(dim: int = 0, kind: dt.DType = dt.int32) -> e.WorkItem:
    """A local index."""
    return e.WorkItem("local_id", dim, kind)


def binary(op: Any, x: e.Expression, y: e.Expression | int, **options: Any) -> e.Binary:
    """An operation; an int becomes a constant of the other operand's type."""
    if isinstance(y, int):
        assert isinstance(x.type, dt.DType)
        y = e.Const(y, x.type)
    return e.Binary(op, x, y, **options)


def add(x: e.Expression, y: e.Expression | int) -> e.Binary:
    """A sum."""
    return binary("add", x, y)


def mul(x: e.Expression, y: e.Expression | int) -> e.Binary:
    """A product."""
    return binary("mul", x, y)


def load(
    name: str, source: Array, *index: e.Expression, kind: Any = None, axis: int = -1
) -> s.Load:
    """A load into a new name."""
    target = var(name, kind or source.dtype.register)
    return s.Load(target, source, index, LOC, axis)


def array(
    name: str,
    dtype: dt.DType = dt.float32,
    strides: Sequence[StrideClass] = ("unit",),
    **options: Any,
) -> Array:
    """A global array."""
    return Array(name, dtype, "global", len(strides), strides=tuple(strides), **options)


def local(
    name: str, dtype: dt.DType, shape: tuple[int, ...], layout: Layout | None = None
) -> Array:
    """A local array."""
    layout = layout or Layout.row_major(shape)
    return Array(name, dtype, "local", len(shape), shape, layout)


def private(name: str, dtype: dt.DType, shape: tuple[int, ...], lanes: int = 1) -> Array:
    """A private array."""
    return Array(name, dtype, "private", len(shape), shape, Layout.row_major(shape), lanes=lanes)


def kernel(
    parameters: Sequence[Array | e.Variable],
    body: Sequence[s.Statement],
    *,
    name: str = "example",
    variables: Sequence[e.Variable] = (),
    arrays: Sequence[Array] = (),
    workgroup: tuple[int, int, int] = (1, 1, 1),
    sub_group_size: int = 1,
    index_type: dt.DType = dt.int32,
    options: Options | None = None,
) -> Kernel:
    """A kernel."""
    return Kernel(
        name,
        tuple(parameters),
        tuple(variables),
        tuple(arrays),
        (),
        tuple(body),
        workgroup,
        sub_group_size,
        index_type,
        options or Options(),
        LOC,
    )
