"""Matrix fragments."""

from __future__ import annotations

from typing import Any

from portable.dtypes import bfloat16, float16
from portable.lang.frontend import memory
from portable.lang.frontend.builder import Builder, handles
from portable.lang.frontend.conversion import as_index, as_type, register_of
from portable.lang.frontend.handlers.memory import as_dtype, fragment_of
from portable.lang.frontend.values import View, describe
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Interval
from portable.lang.ir.types import Fragment


@handles("matrix")
def _matrix(
    builder: Builder, shape: Any, dtype: Any, scope: Any, use: Any, units: Any, split: Any
) -> Fragment:
    ok = isinstance(shape, tuple) and len(shape) == 2
    if not ok or not all(isinstance(n, int) and n > 0 for n in shape):
        builder.fail(f"kl.matrix takes a shape of two positive constants, not {shape!r}")
    if scope not in ("work_item", "sub_group", "workgroup"):
        builder.fail(f"the scope of kl.matrix is work_item, sub_group or workgroup, not {scope!r}")
    if use not in ("accumulator", "a", "b"):
        builder.fail(f'the use of kl.matrix is "accumulator", "a" or "b", not {use!r}')
    kind = as_dtype(builder, dtype)
    if not (isinstance(split, bool) or split in ("first", "exact", "given")):
        builder.fail(f'split of kl.matrix is a bool, "first", "exact" or "given", not {split!r}')
    narrow = kind in (float16, bfloat16) and use != "accumulator"
    held = kind if narrow else register_of(builder, kind)
    name = builder.name(builder.hint or "matrix")
    fragment = Fragment(name, (shape[0], shape[1]), held, scope, use, bool(units), split)
    builder.fragments.append(fragment)
    return fragment


def _operand(builder: Builder, x: Any, use: str) -> Fragment | e.Region:
    if isinstance(x, Fragment):
        if x.use != use:
            builder.fail(f'kl.mma takes a matrix of use "{use}" here, not "{x.use}"')
        return x
    if not isinstance(x, View) or x.array.space != "local":
        builder.fail(f"kl.mma takes matrices or parts of local arrays, not {describe(x)}")
    return memory.region(builder, x, 2, "kl.mma")


@handles("mma")
def _mma(builder: Builder, accumulator: Any, a: Any, b: Any, valid: Any) -> None:
    total = fragment_of(builder, accumulator, "kl.mma")
    if total.use != "accumulator":
        builder.fail('kl.mma adds to a matrix of use "accumulator"')
    left, right = _operand(builder, a, "a"), _operand(builder, b, "b")
    (m, k), (k2, n) = left.shape, right.shape
    if k != k2 or (m, n) != total.shape:
        builder.fail(f"kl.mma of shapes {left.shape} @ {right.shape} to {total.shape}")
    kinds = {x.dtype if isinstance(x, Fragment) else x.array.dtype for x in (left, right)}
    narrower = all(d.kind == total.dtype.kind and d.itemsize <= total.dtype.itemsize for d in kinds)
    if len(kinds) > 1 or not (narrower or kinds == {total.dtype}):
        names = " and ".join(sorted(d.short for d in kinds))
        builder.fail(f"kl.mma of {names} operands into a {total.dtype.short} matrix")
    needed = None if valid is None else _extents(builder, valid)
    builder.emit(s.Multiply(total, left, right, builder.location, needed))


def _extents(builder: Builder, valid: Any) -> tuple[e.Expression, e.Expression, e.Expression]:
    if not isinstance(valid, tuple) or len(valid) != 3:
        builder.fail(f"valid of kl.mma is a tuple (m, n, k), not {describe(valid)}")
    m, n, k = (builder.let("valid", as_index(builder, x)) for x in valid)
    return m, n, k


def _fill(builder: Builder, fragment: Fragment, value: Any) -> None:
    kind = register_of(builder, fragment.dtype)
    number = as_type(builder, value, kind)
    builder.emit(s.FragmentFill(fragment, number.expr, builder.location))


def _load(builder: Builder, fragment: Fragment, part: Any) -> None:
    source = memory.region(builder, part, 2, "load")
    _check_region(builder, fragment, source)
    builder.emit(s.FragmentLoad(fragment, source, builder.location))


def _store(builder: Builder, fragment: Fragment, part: Any) -> None:
    target = memory.region(builder, part, 2, "store", joins=True)
    if target.shape != fragment.shape:
        builder.fail(f"a {fragment.shape} matrix stored to a part of shape {target.shape}")
    builder.emit(s.FragmentStore(fragment, target, builder.location))


def _check_region(builder: Builder, fragment: Fragment, part: e.Region) -> None:
    if part.shape != fragment.shape:
        builder.fail(f"a {fragment.shape} matrix loaded from a part of shape {part.shape}")
    if part.array.dtype.register is not fragment.dtype.register:
        builder.fail(f"a {fragment.dtype.short} matrix loaded from {part.array.dtype.short}")


FRAGMENT_METHODS = {"fill": _fill, "load": _load, "store": _store}
"""Methods of a matrix that take one argument; ``map`` needs the translator and lives there."""


# Elements of matrices, for the loops and functions that go over them.


def element_variables(
    builder: Builder, fragment: Fragment
) -> tuple[e.Variable, e.Variable, e.Variable]:
    """New names for the row, the column and the value of an element."""
    row, column = (builder.bind(name, builder.index_type) for name in ("row", "column"))
    for var, extent in zip((row, column), fragment.shape, strict=True):
        builder.intervals[var] = Interval(0, extent - 1)
    return row, column, _held_value(builder, fragment)


def partner_value(builder: Builder, fragment: Fragment, other: Fragment) -> e.Variable:
    """What stands for the elements of a matrix that lies as the one that is mapped."""
    one, two = ((x.shape, x.dtype, x.scope, x.use) for x in (fragment, other))
    if other is fragment or one != two:
        builder.fail(
            f"map of a matrix of shape {fragment.shape} takes others that are like it, not "
            f"{'itself' if other is fragment else describe(other)}",
            "give them the same shape, dtype, scope and use",
        )
    return _held_value(builder, other)


def _held_value(builder: Builder, fragment: Fragment) -> e.Variable:
    """A variable for an element in registers."""
    native = builder.options.native_half
    return builder.declare("element", fragment.dtype if native else fragment.dtype.register)
