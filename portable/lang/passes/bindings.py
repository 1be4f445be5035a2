"""Binds values to names; lowers ragged ndranges, places of work-items, loops, joins, shuffles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from math import prod
from typing import Final

from portable.dtypes import DType, bool_, int32, uint32
from portable.errors import Location
from portable.lang.ir import expressions as e
from portable.lang.ir import nodes, walks
from portable.lang.ir import statements as s
from portable.lang.ir.facts import Facts, whole
from portable.lang.ir.kernel import Kernel, linear_id, sub_group_id, sub_group_local_id
from portable.lang.ir.types import ValueType, scalar_of
from portable.lang.passes.semantics import Semantics

# Places of work-items, from the indices that every language has.
#
# The sub-group of a work-item follows from its linear local index. Where a device forms sub-groups
# in another order, a workgroup of several dimensions is launched along one, and the local indices
# are worked out.


def launched_flat(kernel: Kernel, semantics: Semantics) -> Kernel:
    """The kernel, launched along one dimension where its sub-groups would not be right else."""
    return replace(kernel, flat=semantics.flat_sub_groups and _needs_flat(kernel))


def _needs_flat(kernel: Kernel) -> bool:
    """Whether sub-groups are used in a workgroup whose rows they do not divide."""
    size, (x, y, z) = kernel.sub_group_size, kernel.workgroup
    used = any(isinstance(statement, s.SubGroup) for statement in walks.all_statements(kernel.body))
    return used and size > 1 and y * z > 1 and x % size != 0


def placed(x: e.WorkItem, kernel: Kernel) -> e.Expression:
    """A word in terms of those that every language has; itself where it is one."""
    match x.word:
        case "sub_group_local_id":
            return sub_group_local_id(kernel, x.type)
        case "sub_group_id":
            return sub_group_id(kernel, x.type)
        case "local_id" if kernel.workgroup[x.dim] == 1:
            return e.Const(0, x.type)
        case "local_id" | "global_id" | "global_size" if kernel.flat:
            return _unfolded(x, kernel)
        case _:
            return x


def _unfolded(x: e.WorkItem, kernel: Kernel) -> e.Expression:
    """An index of a workgroup that is launched along one dimension."""
    extent = e.Const(kernel.workgroup[x.dim], x.type)
    if x.word == "local_id":
        before = e.Const(prod(kernel.workgroup[: x.dim]), x.type)
        row = e.Binary("floordiv", linear_id(kernel, x.type), before, nonnegative=True)
        return e.Binary("mod", row, extent, nonnegative=True)
    word: e.WorkItemWord = "group_id" if x.word == "global_id" else "num_groups"
    total = e.Binary("mul", e.WorkItem(word, x.dim, x.type), extent)
    if x.word == "global_size":
        return total
    return e.Binary("add", total, placed(e.WorkItem("local_id", x.dim, x.type), kernel))


# Lets a workgroup meet again where branches and loops with barriers end, and at a round's end.
#
# PoCL (3.0 and 3.1) runs the work-items of a workgroup in loops from one barrier to the next. Where
# one of two ways to a place leads through a barrier, as after an ``if`` that holds one, the code
# from that place to the next barrier belongs to two such loops, and variables assigned beyond the
# barrier were seen to have the values there that they had before the branch. A barrier at that
# place parts the loops. All work-items reach it, since all reach those within.
#
# PoCL itself ends each round of a loop with barriers in one, but puts it before the last branch
# where nothing follows what that branch skips: all work-items then go where the first one goes. A
# barrier of ours at a round's end follows it. The step of a loop that counts stands there too, but
# not where there is one round at most, as of ``range(0, min(n, 8), 8)``, which LLVM sees. The same
# was seen of a branch with barriers that ends in a branch without one, so that its sides end in
# one, and of loops without any in kernels with barriers, to which PoCL adds its own where all
# work-items go round as often: there a fence, which work-items may reach apart, is enough.


def meet_after_barriers(kernel: Kernel) -> Kernel:
    """The kernel with a barrier after each branch and loop in which there is one.

    The sides of such a branch end in one too, and so do the rounds of such a loop.
    """
    if kernel.workgroup == (1, 1, 1) or not _meets(kernel.body):
        return kernel
    return replace(kernel, body=walks.map_block(kernel.body, _joined))


def _meets(block: s.Block) -> bool:
    """Whether work-items meet anywhere in a block."""
    return any(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in walks.all_statements(block))


def _joined(statement: s.Statement) -> s.Block:
    if not isinstance(statement, s.If | s.For | s.Loop):
        return (statement,)
    if not any(_meets(block) for block in statement.blocks()):
        if isinstance(statement, s.Loop):
            fence = s.Fence("acq_rel", "workgroup", statement.loc)
            return (replace(statement, body=_round(statement.body, fence)),)
        return (statement,)
    meeting = s.Barrier(statement.loc)
    if isinstance(statement, s.If):
        then, orelse = _ended(statement.then, meeting), _ended(statement.orelse, meeting)
        return replace(statement, then=then, orelse=orelse), meeting
    return replace(statement, body=_round(statement.body, meeting)), meeting


def _round(body: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    """A loop's body with `end` where it ends, and where it is left early for the next round.

    With a barrier that is right where the loop holds barriers: all work-items continue, or none.
    """
    return _ended(_before_continuing(body, end), end)


def _ended(block: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    """A block with `end` where its end is reached."""
    if not block or isinstance(block[-1], s.Barrier | s.Break | s.Continue | s.Return):
        return block
    return *block, end


def _before_continuing(block: s.Block, end: s.Barrier | s.Fence) -> s.Block:
    out: list[s.Statement] = []
    for x in block:
        if isinstance(x, s.Continue):
            out.append(end)
        is_loop = isinstance(x, s.For | s.Loop)
        out.append(
            x if is_loop else walks.map_blocks(x, lambda inner: _before_continuing(inner, end))
        )
    return tuple(out)


# Names for values that a pass needs more than once.


class Bindings:
    """Binds values just before the statement at hand.

    Expressions are pure, so that a value may be worked out earlier in the same block, and whether
    or not a `Select` around it takes it.

    Parameters
    ----------
    facts : Facts
        Of the kernel; they take in what is bound.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._made: list[s.Statement] = []
        self._count = 0
        self.loc = Location("", 0)

    def variable(self, hint: str, kind: ValueType) -> e.Variable:
        """A new name, near to `hint`."""
        self._count += 1
        return e.Variable(f"{hint}@{self._count}", kind)

    def bind(self, x: e.Expression, hint: str) -> e.Variable:
        """A new name for a value."""
        var = self.variable(hint, x.type)
        self.facts.learn(var, x)
        self._made.append(s.Let(var, x, self.loc))
        return var

    def name(self, x: e.Expression, hint: str) -> e.Expression:
        """What stands for a value wherever it is needed: itself where that costs nothing."""
        return x if _is_simple(x) else self.bind(x, hint)

    def add(self, x: s.Statement) -> None:
        """A statement that binds a new name in another way."""
        self._made.append(x)

    def taken(self) -> list[s.Statement]:
        """The bindings since the last call, to stand before the statement that uses them."""
        made, self._made = self._made, []
        return made

    def changed(self, block: s.Block, change: Callable[[e.Expression], e.Expression]) -> s.Block:
        """A block with its expressions changed, and what they need bound before each statement."""
        out: list[s.Statement] = []
        for x in block:
            self.loc = x.loc
            made = walks.map_operands(x, change)
            out += self.taken()
            out.append(walks.map_blocks(made, partial(self.changed, change=change)))
        return tuple(out)


def _is_simple(x: e.Expression) -> bool:
    match x:
        case e.Lane() | e.Splat() | e.AssumeUniform():
            return _is_simple(x.x)
        case _:
            return isinstance(x, e.Const | e.Variable | e.Extent | e.WorkItem)


# Ends ndranges where the user said, within the last workgroup, by a guard at the beginning.


def end_ranges(kernel: Kernel) -> Kernel:
    """The kernel, whose work-items return at once where they are beyond the ndrange."""
    if not kernel.ragged:
        return kernel
    kind = kernel.index_type
    beyond: list[e.Expression] = [
        e.Compare("ge", e.WorkItem("global_id", dim, kind), e.WorkItem("global_size", dim, kind))
        for dim in kernel.ragged
    ]
    anywhere = reduce(lambda x, y: e.Binary("or", x, y), beyond)
    guard = s.If(anywhere, (s.Return(kernel.loc),), (), kernel.loc)
    return replace(kernel, body=(guard, *kernel.body))


# Loops whose variable simply runs up or down to a bound that stays what it is.


def lower_loops(kernel: Kernel, bindings: Bindings) -> Kernel:
    """The kernel with loops that compare with a fixed bound after adding a constant.

    A loop whose step is not a constant, or might carry its variable past the end of its type,
    counts its rounds instead.
    """
    loops = _Loops(kernel, bindings)
    return replace(kernel, body=walks.map_block(kernel.body, loops.statement))


class _Loops:
    def __init__(self, kernel: Kernel, bindings: Bindings) -> None:
        self._mutable = frozenset(kernel.variables)
        self._facts = bindings.facts
        self._bindings = bindings

    def statement(self, x: s.Statement) -> s.Block:
        """A statement and what it needs before it."""
        if not isinstance(x, s.For):
            return (x,)
        self._bindings.loc = x.loc
        if isinstance(x.step, e.Const) and self._ends(x, int(x.step.value)):
            made = replace(x, stop=self._fixed(x.stop, f"{x.var.name}_stop"))
        else:
            made = self._counted(x)
        return (*self._bindings.taken(), made)

    def _ends(self, x: s.For, step: int) -> bool:
        """Whether stepping past `stop` stays in the type's range."""
        if abs(step) == 1:
            return True
        ends, stop = whole(scalar_of(x.var.type)), self._facts.bounds(x.stop)
        return stop.high - 1 + step <= ends.high if step > 0 else stop.low + 1 + step >= ends.low

    def _fixed(self, x: e.Expression, name: str) -> e.Expression:
        """A bound as it was before the first round; the body may change variables in it."""
        if not any(part in self._mutable for part in walks.subexpressions(x)):
            return x
        return self._bindings.bind(x, name)

    def _counted(self, x: s.For) -> s.For:
        kind_of, kind = x.var.type, nodes.unsigned(x.var.type)
        assert isinstance(kind, DType)
        name = x.var.name
        start, stop, step = (
            self._bound(value, f"{name}_{word}")
            for value, word in ((x.start, "start"), (x.stop, "stop"), (x.step, "step"))
        )
        trips = self._bound(self._trips(start, stop, step), f"{name}_trips")
        trip = self._bindings.variable(f"{name}_trip", kind)
        by = e.Binary("mul", trip, nodes.reinterpret(step, kind))
        value = nodes.reinterpret(e.Binary("add", nodes.reinterpret(start, kind), by), kind_of)
        body = (s.Let(x.var, value, x.loc), *x.body)
        zero, one = nodes.constant(0, kind), nodes.constant(1, kind)
        return s.For(trip, zero, trips, one, body, x.loc, x.unroll)

    def _bound(self, x: e.Expression, name: str) -> e.Expression:
        """A value as it is now, to be used in every round."""
        return self._bindings.bind(x, name) if x in self._mutable else self._bindings.name(x, name)

    def _trips(self, start: e.Expression, stop: e.Expression, step: e.Expression) -> e.Expression:
        """How many rounds there are; none for a step of 0."""
        kind = nodes.unsigned(start.type)
        low, high, by = (nodes.reinterpret(x, kind) for x in (start, stop, step))
        bounds = self._facts.bounds(step)
        up, down = e.Compare("lt", start, stop), e.Compare("gt", start, stop)
        if bounds.low > 0:
            return _rounds(up, e.Binary("sub", high, low), by)
        negative = e.Unary("neg", by)
        if bounds.high < 0:
            return _rounds(down, e.Binary("sub", low, high), negative)
        rising = nodes.compare("gt", step, 0)
        some = e.Select(rising, up, e.Binary("and", down, nodes.compare("lt", step, 0)))
        gap = e.Select(rising, e.Binary("sub", high, low), e.Binary("sub", low, high))
        stride = e.Binary("max", e.Select(rising, by, negative), nodes.constant(1, kind))
        return _rounds(some, gap, stride)


def _rounds(some: e.Expression, gap: e.Expression, stride: e.Expression) -> e.Expression:
    """The strides that cover a gap, if there is one."""
    one = nodes.constant(1, gap.type)
    full = e.Binary("quot", e.Binary("sub", gap, one), stride)
    return e.Select(some, e.Binary("add", full, one), nodes.constant(0, gap.type))


# Sub-group operations by shuffles, whose source is always a work-item of the sub-group.
#
# Reductions go by halves: in whole sub-groups across (every work-item then has the result), in a
# workgroup's last, smaller one downwards to its first work-item, which hands the result round.


_REDUCTIONS: Final[dict[str, e.BinaryOp]] = {
    "reduce_add": "add",
    "reduce_min": "min",
    "reduce_max": "max",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
    "any": "or",
    "all": "and",
}
_SOURCES: Final[dict[str, e.BinaryOp]] = {
    "shuffle_xor": "xor",
    "shuffle_up": "sub",
    "shuffle_down": "add",
}


def lower_sub_groups(kernel: Kernel, bindings: Bindings) -> Kernel:
    """The kernel with no sub-group operation but ``shuffle``, of numbers, from inside."""
    if not any(isinstance(x, s.SubGroup) for x in walks.all_statements(kernel.body)):
        return kernel
    lowering = _SubGroups(kernel, bindings)
    return replace(kernel, body=walks.map_block(kernel.body, lowering.statement))


def active_items(kernel: Kernel) -> e.Expression:
    """How many work-items this one's sub-group has; the workgroup's last may have fewer."""
    size, items = kernel.sub_group_size, prod(kernel.workgroup)
    if items % size == 0:
        return e.Const(size, uint32)
    before = e.Binary("mul", sub_group_id(kernel, uint32), e.Const(size, uint32))
    left = e.Binary("sub", e.Const(items, uint32), before)
    return e.Binary("min", left, e.Const(size, uint32))


class _SubGroups:
    def __init__(self, kernel: Kernel, bindings: Bindings) -> None:
        self._size = kernel.sub_group_size
        self._full = prod(kernel.workgroup) % self._size == 0
        self._own = sub_group_local_id(kernel, uint32)
        self._active = active_items(kernel)
        self._bindings = bindings

    def statement(self, x: s.Statement) -> s.Block:
        """What a statement becomes."""
        if not isinstance(x, s.SubGroup):
            return (x,)
        if self._size == 1:
            return (s.Let(x.var, x.value, x.loc),)
        self._bindings.loc = x.loc
        if x.op not in _REDUCTIONS and x.op != "scan_add" and x.var.type is not bool_:
            shuffle = replace(x, op="shuffle", argument=self._source(x))
            return (*self._bindings.taken(), shuffle)
        kind = x.var.type
        value = nodes.cast(x.value, int32) if kind is bool_ else x.value
        result = self._result(x, value)
        outcome = nodes.compare("ne", result, 0) if kind is bool_ else result
        return (*self._bindings.taken(), s.Let(x.var, outcome, x.loc))

    def _result(self, x: s.SubGroup, value: e.Expression) -> e.Expression:
        if x.op in _REDUCTIONS:
            return self._reduced(_REDUCTIONS[x.op], value)
        if x.op == "scan_add":
            return self._scanned(value)
        return self._shuffled(value, self._source(x))

    def _source(self, x: s.SubGroup) -> e.Expression:
        """From whom a shuffle takes its value: this work-item, where the other is outside."""
        assert x.argument is not None
        source = nodes.cast(x.argument, uint32)
        if isinstance(source, e.Const) and x.op not in _SOURCES and self._full:
            return source if source.value < self._size else self._own
        if x.op in _SOURCES:
            source = e.Binary(_SOURCES[x.op], self._own, source)
        source = self._bindings.name(source, "source")
        return e.Select(e.Compare("lt", source, self._active), source, self._own)

    def _shuffled(self, value: e.Expression, source: e.Expression) -> e.Variable:
        var = self._bindings.variable("shuffled", value.type)
        self._bindings.add(s.SubGroup(var, "shuffle", value, source, self._bindings.loc))
        return var

    def _reduced(self, op: e.BinaryOp, value: e.Expression) -> e.Expression:
        total, step = self._bindings.name(value, "value"), self._size // 2
        while step:
            total = self._across(op, total, step) if self._full else self._down(op, total, step)
            step //= 2
        return total if self._full else self._shuffled(total, e.Const(0, uint32))

    def _across(self, op: e.BinaryOp, value: e.Expression, step: int) -> e.Expression:
        other = self._shuffled(value, e.Binary("xor", self._own, e.Const(step, uint32)))
        return self._bindings.bind(e.Binary(op, value, other), "value")

    def _down(self, op: e.BinaryOp, value: e.Expression, step: int) -> e.Expression:
        source = self._bindings.bind(e.Binary("add", self._own, e.Const(step, uint32)), "source")
        inside = self._bindings.bind(e.Compare("lt", source, self._active), "inside")
        return self._taken_in(op, value, source, inside)

    def _scanned(self, value: e.Expression) -> e.Expression:
        total, step = self._bindings.name(value, "value"), 1
        while step < self._size:
            by = e.Const(step, uint32)
            inside = self._bindings.bind(e.Compare("ge", self._own, by), "inside")
            total = self._taken_in("add", total, e.Binary("sub", self._own, by), inside)
            step *= 2
        return total

    def _taken_in(
        self, op: e.BinaryOp, value: e.Expression, source: e.Expression, inside: e.Expression
    ) -> e.Expression:
        """A value combined with that of another work-item, or alone where there is no such one."""
        other = self._shuffled(value, e.Select(inside, source, self._own))
        return self._bindings.bind(e.Select(inside, e.Binary(op, value, other), value), "value")
