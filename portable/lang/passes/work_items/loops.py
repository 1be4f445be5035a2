"""Puts loops over work-items around regions, and keeps what crosses from one to another."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

from portable.dtypes import bool_
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel, linear_id
from portable.lang.ir.types import Array, Layout, ValueType, Vector, lanes_of, scalar_of
from portable.lang.passes.work_items.interchange import Reach
from portable.lang.passes.work_items.needs import Needs, needs_of
from portable.lang.passes.work_items.parts import Part, Region, Together, all_parts, regions

# Values that are worked out again wherever they are needed, which costs less than keeping them.
#
# Places in the ndrange and what follows from them in a few steps are of this kind: a load of a kept
# value costs about as much as they do, and takes room in the first cache.

_MOST: Final = 24
"""The cost up to which a value is worked out again, those that it is made from included."""

_COSTS: Final = {"quot": 6, "rem": 6, "floordiv": 8, "mod": 8, "div": 6}
_FREE: Final = (e.Const, e.Variable, e.WorkItem, e.Extent, e.AssumeUniform)


def recomputed(kernel: Kernel, body: s.Block, varying: set[str]) -> dict[str, s.Let]:
    """The bindings of varying names that are worked out again, in the order of the text.

    Parameters
    ----------
    kernel : Kernel
    body : Block
        Of the kernel.
    varying : set of str
        The names whose values differ among work-items.
    """
    statements = list(walks.all_statements(body))
    bound: dict[str, int] = {}
    for x in statements:
        for var in x.binds():
            bound[var.name] = bound.get(var.name, 0) + 1
    lasting = {name for name, count in bound.items() if count == 1 and name not in varying}
    lasting |= {p.name for p in kernel.parameters if isinstance(p, e.Variable)}
    lets: dict[str, s.Let] = {}
    costs: dict[str, int] = {}
    for x in statements:
        if not isinstance(x, s.Let) or x.var.name not in varying or bound[x.var.name] > 1:
            continue
        names = walks.names_in(x.value)
        if not names <= lasting | lets.keys():
            continue
        cost = _cost(x.value) + sum(costs.get(name, 0) for name in names)
        if cost <= _MOST and not isinstance(x.var.type, Vector):
            lets[x.var.name], costs[x.var.name] = x, cost
    return lets


def _cost(x: e.Expression) -> int:
    """What it takes to work an expression out, in units of an addition."""
    total = 0
    for y in walks.subexpressions(x):
        if isinstance(y, e.Call):
            return _MOST + 1
        if isinstance(y, e.Binary):
            total += _COSTS.get(y.op, 1)
        elif not isinstance(y, _FREE):
            total += 1
    return total


def item_number(kernel: Kernel) -> e.Expression:
    """The linear local index of a work-item, by which values are kept."""
    return linear_id(kernel, kernel.index_type)


def of_first_item(x: e.Expression, kernel: Kernel) -> e.Expression:
    """An expression as the workgroup's first work-item has it."""

    def word(x: e.Expression) -> e.Expression:
        if not isinstance(x, e.WorkItem):
            return x
        match x.word:
            case "local_id" | "sub_group_id" | "sub_group_local_id":
                return e.Const(0, x.type)
            case "global_id":
                size = e.Const(kernel.workgroup[x.dim], x.type)
                return e.Binary("mul", e.WorkItem("group_id", x.dim, x.type), size)
            case _:
                return x

    return walks.map_expression(x, word)


def looped(kernel: Kernel, parts: list[Part], varying: set[str]) -> Kernel:
    """The kernel with its regions in loops.

    Parameters
    ----------
    kernel : Kernel
    parts : list of Region or Together
        Of its body.
    varying : set of str
        The names whose values differ among work-items.
    """
    loops = _Loops(kernel, parts, varying)
    body = loops.body(parts)
    return replace(
        kernel,
        body=body,
        arrays=(*loops.own_arrays, *loops.made_arrays),
        variables=(*kernel.variables, *loops.made_variables),
    )


class _Loops:
    def __init__(self, kernel: Kernel, parts: list[Part], varying: set[str]) -> None:
        self._kernel = kernel
        self._varying = varying
        self._items = prod(kernel.workgroup)
        self._item = e.Variable("item@", kernel.index_type)
        reaching = {x.value.name for x in _text(parts) if isinstance(x, Reach)}
        self._recomputed = recomputed(kernel, _text(parts), varying)
        for name in reaching:
            self._recomputed.pop(name, None)
        self._needs = needs_of(parts, varying - self._recomputed.keys())
        self._variables = {v.name: v for v in kernel.variables}
        self._types: dict[str, ValueType] = {v.name: v.type for v in kernel.variables}
        for x in walks.all_statements(kernel.body):
            self._types.update({v.name: v.type for v in x.binds()})
        order = {name: number for number, name in enumerate(self._types)}
        self._order = order.__getitem__
        self._kept_names = {name for needs in self._needs.values() for name in needs.kept}
        self._kept: dict[str, Array] = {}
        self._crossing = _crossing_arrays(kernel, parts, self._items)
        self._given: set[str] = set()
        """Names that some region up to here gives values to."""
        self._blank: set[str] = set()
        """Names whose values are kept in loops though some work-items never give them any."""
        self._returned: Array | None = None
        self._count = 0
        self.made_variables: list[e.Variable] = []

    @property
    def own_arrays(self) -> tuple[Array, ...]:
        """The kernel's arrays, those that cross with an element for each work-item."""
        return tuple(self._crossing.get(x, x) for x in self._kernel.arrays)

    @property
    def made_arrays(self) -> tuple[Array, ...]:
        """Those that keep values."""
        made = tuple(self._kept.values())
        return made if self._returned is None else (*made, self._returned)

    def body(self, parts: list[Part]) -> s.Block:
        """What one thread does for the workgroup."""
        if any(region.ends_some for region in regions(parts)):
            self._returned = self._array("returned@", bool_)
        body, loc = self._block(parts), self._kernel.loc
        names = sorted(self._blank, key=self._order)
        blank = [(self._kept_array(name), self._types[name]) for name in names]
        if self._returned is not None:
            blank.append((self._returned, bool_))
        if not blank:
            return body
        stores = [
            s.Store(array, (self._item,), nodes.constant(0, kind), loc) for array, kind in blank
        ]
        return (s.ForItems((self._numbered(loc), *stores), loc), *body)

    def _block(self, parts: list[Part]) -> s.Block:
        out: list[s.Statement] = []
        for part in parts:
            out += self._region(part) if isinstance(part, Region) else self._together(part)
        return tuple(out)

    # -- what all go through together --------------------------------------------------------

    def _together(self, part: Together) -> s.Block:
        x = part.statement
        if isinstance(x, Reach):
            return self._reach(x)
        fetched: list[s.Statement] = []
        x = walks.map_operands(x, lambda value: self._once(value, x.loc, fetched))
        match x:
            case s.WorkgroupUniform():
                return (*fetched, s.Let(x.var, x.value, x.loc))
            case s.If():
                before = set(self._given)
                then, after = self._block(part.blocks[0]), self._given
                self._given = before
                orelse = self._block(part.blocks[1])
                self._given |= after
                return (*fetched, replace(x, then=then, orelse=orelse))
            case s.For() | s.Loop():
                return (*fetched, replace(x, body=self._block(part.blocks[0])))
            case _:
                return (*fetched, x)

    def _reach(self, x: Reach) -> s.Block:
        """The least and the most of a value that is kept for each work-item, if it varies."""
        if x.value.name not in self._varying:
            return s.Let(x.least, x.value, x.loc), s.Let(x.most, x.value, x.loc)
        kept, kind = self._kept_array(x.value.name), self._kernel.index_type
        at, value = (
            e.Variable(f"{x.value.name}@at", kind),
            e.Variable(f"{x.value.name}@of", x.value.type),
        )
        zero, one = e.Const(0, kind), e.Const(1, kind)
        body: list[s.Statement] = [s.Load(value, kept, (at,), x.loc)]
        out: list[s.Statement] = []
        extremes: tuple[tuple[e.Variable, e.BinaryOp], ...] = ((x.least, "min"), (x.most, "max"))
        for var, op in extremes:
            total = e.Variable(f"{var.name}@so_far", var.type)
            self.made_variables.append(total)
            start = e.Variable(f"{var.name}@start", var.type)
            out += (s.Load(start, kept, (zero,), x.loc), s.Assign(total, start, x.loc))
            body.append(s.Assign(total, e.Binary(op, total, value), x.loc))
        out.append(s.For(at, one, e.Const(self._items, kind), one, tuple(body), x.loc))
        for var in (x.least, x.most):
            out.append(s.Let(var, e.Variable(f"{var.name}@so_far", var.type), x.loc))
        return tuple(out)

    def _once(self, x: e.Expression, loc: Location, fetched: list[s.Statement]) -> e.Expression:
        """A value that is the same for all, or that the first work-item's stands for."""

        def leaf(y: e.Expression) -> e.Expression:
            if not isinstance(y, e.Variable):
                return y
            if y.name in self._recomputed:
                return self._once(self._recomputed[y.name].value, loc, fetched)
            if y.name not in self._kept_names:
                return y
            self._count += 1
            first = e.Variable(f"{y.name}@first{self._count}", y.type)
            slot = (e.Const(0, self._kernel.index_type),)
            fetched.append(s.Load(first, self._kept_array(y.name), slot, loc))
            return first

        return of_first_item(walks.map_expression(x, leaf), self._kernel)

    # -- regions -----------------------------------------------------------------------------

    def _region(self, region: Region) -> s.Block:
        if all(x in self._recomputed.values() for x in region.statements):
            return region.before
        needs = self._needs[region]
        loc = region.statements[0].loc
        body = walks.map_block(region.statements, self._statement)
        if region.ends_some:
            body = walks.map_block(body, self._noted)
        inner = [*self._start(region, needs, loc), *body]
        if not isinstance(inner[-1], s.Return):
            inner += [self._keep(name, loc) for name in sorted(needs.kept, key=self._order)]
        if self._item.name in walks.names_read(tuple(inner)):
            inner.insert(0, self._numbered(loc))
        return (*region.before, s.ForItems(tuple(inner), loc))

    def _numbered(self, loc: Location) -> s.Statement:
        return s.Let(self._item, item_number(self._kernel), loc)

    def _start(self, region: Region, needs: Needs, loc: Location) -> s.Block:
        """What a region needs before its own statements."""
        out: list[s.Statement] = []
        if region.after_return and self._returned is not None:
            gone = e.Variable("gone@", bool_)
            out.append(s.Load(gone, self._returned, (self._item,), loc))
            out.append(s.If(gone, (s.Return(loc),), (), loc))
        out += self._again(region)
        for name in sorted(needs.fetched, key=self._order):
            if name in needs.read or name in self._given:
                out += self._fetch(name, loc)
            elif region.repeats:
                self._blank.add(name)
                out += self._fetch(name, loc)
            else:
                variable = self._variables[name]
                out.append(s.Assign(variable, nodes.constant(0, variable.type), loc))
        self._given |= needs.given
        return tuple(out)

    def _again(self, region: Region) -> list[s.Statement]:
        """The bindings that are worked out again, of what the region does not bind itself."""
        names = {v.name for x in walks.all_statements(region.statements) for v in x.binds()}
        read = walks.names_read(region.statements)
        wanted: set[str] = set()
        waiting = [name for name in read if name in self._recomputed and name not in names]
        while waiting:
            name = waiting.pop()
            if name not in wanted:
                wanted.add(name)
                inside = walks.names_in(self._recomputed[name].value)
                waiting += [x for x in inside if x in self._recomputed]
        return [x for name, x in self._recomputed.items() if name in wanted]

    def _statement(self, x: s.Statement) -> s.Block:
        """A statement, private arrays that cross being this work-item's part of them."""
        moved = walks.map_memory(x, lambda array: self._crossing.get(array, array))
        if moved is x or not isinstance(moved, s.Load | s.Store):
            return (x,)
        axis = moved.axis if moved.axis < 0 else moved.axis + 1
        return (replace(moved, index=(self._item, *moved.index), axis=axis),)

    def _noted(self, x: s.Statement) -> s.Block:
        """An end of a work-item that later regions know of."""
        if not isinstance(x, s.Return):
            return (x,)
        assert self._returned is not None
        return s.Store(self._returned, (self._item,), e.Const(True, bool_), x.loc), x

    # -- values that cross -------------------------------------------------------------------

    def _array(self, name: str, kind: ValueType) -> Array:
        shape = (self._items,)
        layout = Layout.row_major(shape)
        return Array(name, scalar_of(kind), "private", 1, shape, layout, lanes=lanes_of(kind))

    def _kept_array(self, name: str) -> Array:
        array = self._kept.get(name)
        if array is None:
            array = self._kept[name] = self._array(f"{name}@items", self._types[name])
        return array

    def _keep(self, name: str, loc: Location) -> s.Statement:
        value = e.Variable(name, self._types[name])
        return s.Store(self._kept_array(name), (self._item,), value, loc)

    def _fetch(self, name: str, loc: Location) -> s.Block:
        variable = self._variables.get(name)
        if variable is None:
            kept = e.Variable(name, self._types[name])
            return (s.Load(kept, self._kept_array(name), (self._item,), loc),)
        kept = e.Variable(f"{name}@kept", variable.type)
        fetch = s.Load(kept, self._kept_array(name), (self._item,), loc)
        return fetch, s.Assign(variable, kept, loc)


def _text(parts: list[Part]) -> s.Block:
    """Every statement of the parts that is in no block of another one of them."""
    statements: list[s.Statement] = []
    for part in all_parts(parts):
        if isinstance(part, Region):
            statements += (*part.before, *part.statements)
        else:
            statements.append(_bare(part.statement))
    return tuple(statements)


def _bare(x: s.Statement) -> s.Statement:
    """A statement without the blocks in it."""
    match x:
        case s.If():
            return replace(x, then=(), orelse=())
        case s.For() | s.Loop():
            return replace(x, body=())
        case _:
            return x


def _crossing_arrays(kernel: Kernel, parts: list[Part], items: int) -> dict[Array, Array]:
    """The private arrays whose elements outlive a region, with an element for each work-item."""
    users: dict[object, int] = {}
    for region in regions(parts):
        for array in {a for x in walks.all_statements(region.statements) for a in x.touched()}:
            users[array] = users.get(array, 0) + (2 if region.repeats else 1)
    private = (x for x in kernel.arrays if x.space == "private")
    wide = _read_in_vectors(kernel.body)
    return {x: _of_items(x, items, x in wide) for x in private if users.get(x, 0) > 1}


def _read_in_vectors(body: s.Block) -> set[Array]:
    """The arrays of which several elements are read or written at once."""
    arrays: set[Array] = set()
    for x in walks.all_statements(body):
        if isinstance(x, s.Load) and lanes_of(x.var.type) > x.array.lanes:
            arrays.add(x.array)
        if isinstance(x, s.Store) and lanes_of(x.value.type) > x.array.lanes:
            arrays.add(x.array)
    return arrays


def _of_items(array: Array, items: int, wide: bool) -> Array:
    """An array with an element for each work-item.

    The elements of neighbouring work-items are neighbours in memory, for loops over work-items to
    take many at once, unless each work-item takes vectors of its own.
    """
    assert array.layout is not None
    old = array.layout
    if wide or old.swizzle:
        layout = Layout((old.size, *old.strides), old.size * items, old.swizzle)
    else:
        layout = Layout((1, *(items * n for n in old.strides)), old.size * items)
    shape = (items, *array.shape)
    return replace(array, ndim=array.ndim + 1, shape=shape, layout=layout)
