"""A whole kernel in the IR."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import is_
from typing import Any, Final

from portable.dtypes import DType, bool_, uint32, uint64
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.expressions import FieldsOf, Role, Variable, fields_of
from portable.lang.ir.statements import BLOCKS, USED, Block
from portable.lang.ir.types import Array, Fragment, ValueType, Vector, lanes_of, scalar_of

# Walking and rebuilding trees of the IR, so that no pass spells out every node.

_HOLDERS: Final = ("Expression", "Variable")


_OPERANDS: Final = FieldsOf(
    lambda kind: (f.name for f in fields(kind) if any(word in str(f.type) for word in _HOLDERS))
)
_GIVEN: Final = FieldsOf(lambda kind: (f.name for f in fields(kind) if f.init))
_PARTS: Final = fields_of(*(role for role in Role if role is not Role.BLOCK))


def _outermost(x: Any, names: Iterable[str]) -> list[e.Expression]:
    """The outermost expressions in some fields of a node."""
    expressions: list[e.Expression] = []
    for name in names:
        held = getattr(x, name)
        if isinstance(held, e.Expression):
            expressions.append(held)
        else:
            expressions += _inside(held)
    return expressions


def _inside(x: Any) -> Iterator[e.Expression]:
    """The outermost expressions in a field's value."""
    if isinstance(x, e.Expression):
        yield x
    elif isinstance(x, e.Region):
        yield from x.starts
    elif isinstance(x, tuple):
        for item in x:
            yield from _inside(item)


def children(x: e.Expression) -> list[e.Expression]:
    """The direct operands of an expression."""
    return _outermost(x, _OPERANDS[type(x)])


def subexpressions(x: e.Expression) -> Iterator[e.Expression]:
    """The expression itself and everything below it, from left to right."""
    waiting = [x]
    while waiting:
        expression = waiting.pop()
        yield expression
        if names := _OPERANDS[type(expression)]:
            waiting += reversed(_outermost(expression, names))


def operands(statement: s.Statement) -> list[e.Expression]:
    """The outermost expressions of a statement, not of the blocks in it; variables it sets too."""
    return _outermost(statement, _PARTS[type(statement)])


def reads(statement: s.Statement) -> list[e.Expression]:
    """The outermost expressions of a statement that it evaluates, not of the blocks in it."""
    return _outermost(statement, USED[type(statement)])


def all_statements(block: s.Block) -> Iterator[s.Statement]:
    """Every statement of a block and of the blocks in it, in the order of the text."""
    waiting = [*reversed(block)]
    while waiting:
        statement = waiting.pop()
        yield statement
        if names := BLOCKS[type(statement)]:
            for name in reversed(names):
                waiting += reversed(getattr(statement, name))


def all_expressions(block: s.Block) -> Iterator[e.Expression]:
    """Every expression and sub-expression in a block and the blocks in it."""
    for statement in all_statements(block):
        for operand in operands(statement):
            yield from subexpressions(operand)


def names_in(*values: e.Expression) -> set[str]:
    """The names of the variables in expressions."""
    return {x.name for value in values for x in subexpressions(value) if isinstance(x, Variable)}


def names_read(*blocks: s.Block) -> set[str]:
    """The names of the variables that statements of blocks, and those in them, evaluate."""
    return {y for block in blocks for x in all_statements(block) for y in names_in(*reads(x))}


def written_arrays(block: s.Block) -> frozenset[Array]:
    """The global arrays that some statement of the block may write."""
    arrays = (x for statement in all_statements(block) for x in statement.written())
    return frozenset(x for x in arrays if isinstance(x, Array) and x.space == "global")


def places(block: s.Block) -> Iterator[e.WorkItem]:
    """Where the block asks for the place of its work-item or workgroup in the ndrange."""
    for x in all_expressions(block):
        if isinstance(x, e.WorkItem) and x.word in ("global_id", "group_id"):
            yield x


def _rebuild(node: Any, names: Iterable[str], transform: Callable[[Any], Any]) -> Any:
    """The node with what some of its fields hold transformed."""
    changes = {}
    for name in names:
        old = getattr(node, name)
        new = transform(old)
        if new is not old:
            changes[name] = new
    return _remade(node, changes) if changes else node


def _changed(
    node: Any, names: Iterable[str], change: Callable[[e.Expression], e.Expression]
) -> Any:
    """The node with the outermost expressions in some of its fields changed."""
    changes = {}
    for name in names:
        old = getattr(node, name)
        new = change(old) if isinstance(old, e.Expression) else _map_inside(old, change)
        if new is not old:
            changes[name] = new
    return _remade(node, changes) if changes else node


def _remade(node: Any, changes: dict[str, Any]) -> Any:
    kind = type(node)
    given = [changes[n] if n in changes else getattr(node, n) for n in _GIVEN[kind]]
    return kind(*given)


def _map_inside(x: Any, change: Callable[[e.Expression], e.Expression]) -> Any:
    if isinstance(x, e.Expression):
        return change(x)
    if isinstance(x, e.Region):
        starts = _map_inside(x.starts, change)
        return x if starts is x.starts else replace(x, starts=starts)
    if not isinstance(x, tuple):
        return x
    items = [_map_inside(i, change) for i in x]
    return x if all(map(is_, items, x)) else tuple(items)


def map_children(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression with `change` applied to its direct operands."""
    names = _OPERANDS[type(x)]
    if not names:
        return x
    return typing.cast(e.Expression, _changed(x, names, change))


def map_expression(x: e.Expression, change: Callable[[e.Expression], e.Expression]) -> e.Expression:
    """Rebuilds an expression bottom up, `change` being applied to each node after its operands."""
    return change(map_children(x, lambda child: map_expression(child, change)))


def substituted(x: e.Expression, values: Mapping[str, e.Expression]) -> e.Expression:
    """An expression with others in the place of variables, by their names."""
    return map_expression(x, lambda y: values.get(y.name, y) if isinstance(y, Variable) else y)


def resolved(x: e.Expression, values: Mapping[str, e.Expression]) -> e.Expression:
    """An expression without names that were bound to values, which may name others of them."""
    while not names_in(x).isdisjoint(values):
        x = substituted(x, values)
    return x


def map_operands(
    statement: s.Statement, change: Callable[[e.Expression], e.Expression]
) -> s.Statement:
    """Rebuilds a statement with `change` applied to its outermost expressions.

    Blocks inside it are left alone; variables that it sets are passed to `change` as well.
    """
    names = _PARTS[type(statement)]
    return typing.cast(s.Statement, _changed(statement, names, change))


def map_blocks(statement: s.Statement, change: Callable[[s.Block], s.Block]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the blocks directly inside it."""
    names = BLOCKS[type(statement)]
    if not names:
        return statement
    return typing.cast(s.Statement, _rebuild(statement, names, change))


def map_memory(statement: s.Statement, change: Callable[[Array], Array]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the arrays that it touches."""

    def moved(x: e.Region) -> e.Region:
        array = change(x.array)
        return x if array is x.array else replace(x, array=array)

    return _map_held(statement, lambda x: change(x) if isinstance(x, Array) else moved(x))


def map_regions(statement: s.Statement, change: Callable[[e.Region], e.Region]) -> s.Statement:
    """Rebuilds a statement with `change` applied to the regions of arrays that it touches."""
    return _map_held(statement, lambda x: change(x) if isinstance(x, e.Region) else x)


def _map_held(statement: s.Statement, change: Callable[[Any], Any]) -> s.Statement:
    def inside(x: Any) -> Any:
        if isinstance(x, Array | e.Region):
            return change(x)
        if isinstance(x, tuple):
            items = tuple(inside(i) for i in x)
            return x if all(new is old for new, old in zip(items, x, strict=True)) else items
        return x

    names = _PARTS[type(statement)]
    return typing.cast(s.Statement, _rebuild(statement, names, inside))


def map_block(block: s.Block, change: Callable[[s.Statement], s.Block]) -> s.Block:
    """Rebuilds a block bottom up: each statement, inner blocks done, gives any number of others."""
    out: list[s.Statement] = []
    for statement in block:
        out.extend(change(map_blocks(statement, lambda inner: map_block(inner, change))))
    return tuple(out)


def map_values(block: s.Block, change: Callable[[e.Expression], e.Expression]) -> s.Block:
    """Rebuilds a block with `change` applied to its outermost expressions, inner blocks' too.

    Variables that statements set are passed to `change` as well.
    """
    return map_block(block, lambda x: (map_operands(x, change),))


# -- kernel ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """What a kernel was declared with.

    Attributes
    ----------
    native_half : bool
        Whether ``float16`` stays ``float16`` in registers.
    contract : bool
        Whether ``a * b + c`` may become one fma.
    fastmath : bool
        Whether the device's fast, less accurate functions, division and square root are allowed.
    whole_reductions : bool
        Whether sums and extremes of floats over a workgroup are left as `WorkgroupReduce`.
    """

    native_half: bool = False
    contract: bool = True
    fastmath: bool = False
    whole_reductions: bool = False


@dataclass(frozen=True, slots=True)
class Kernel:
    """One specialisation of a kernel, checked and fully typed.

    Attributes
    ----------
    name : str
        The Python function's name, a valid C identifier.
    parameters : tuple of (Array or Variable)
        Global arrays and scalars, in the order of the launch. A complex scalar is two variables.
    variables : tuple of Variable
        Mutable variables; each is assigned before it is read on every path.
    arrays : tuple of Array
        Local and private arrays.
    fragments : tuple of Fragment
        Matrix fragments; each is filled or loaded before it is read.
    body : Block
        What a work-item does.
    workgroup : (int, int, int)
        The local size in work-items, a constant of the specialisation.
    sub_group_size : int
        1, 8, 16, 32 or 64.
    index_type : DType
        ``int32`` or ``int64``.
    options : Options
        What the kernel was declared with.
    loc : Location
        Of its ``def``.
    flat : bool
        Whether the workgroup is launched along one dimension, however it is shaped.
    ragged : tuple of int
        The dimensions along which the ndrange ends within the last workgroup. What is beyond does
        not run, and ``global_size`` there is the ndrange, a program's argument of kind "size". Only
        of kernels that are `exact`.
    """

    name: str
    parameters: tuple[Array | Variable, ...]
    variables: tuple[Variable, ...]
    arrays: tuple[Array, ...]
    fragments: tuple[Fragment, ...]
    body: Block
    workgroup: tuple[int, int, int]
    sub_group_size: int
    index_type: DType
    options: Options
    loc: Location
    flat: bool = False
    ragged: tuple[int, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether launches run the work-items asked for and no others.

        So it is where no work-item needs another one of its workgroup, by local memory or by
        meeting it; else the ndrange is padded to whole workgroups.
        """
        shared = any(array.space == "local" for array in self.arrays)
        return not shared and all(x.together() == "work_item" for x in all_statements(self.body))

    @property
    def launched(self) -> tuple[int, int, int]:
        """The workgroup as it is launched."""
        x, y, z = self.workgroup
        return (x * y * z, 1, 1) if self.flat else (x, y, z)

    @property
    def written(self) -> frozenset[Array]:
        """The global arrays that some statement may write."""
        return written_arrays(self.body)

    @property
    def dimensions(self) -> int:
        """Of the ndrange, how many it asks for its place in; at least 1."""
        return max((1 + item.dim for item in places(self.body)), default=1)


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
