"""Guards of an ndrange's padding and edges, ``if i < n``, that most workgroups pass as a whole.

A workgroup whose last work-item passes, and the first one at the other edge, needs none: loops
then have no branches and no masks, and those inside the guard may be moved out of the loop over
work-items. At the edges the guard goes into the loops, so that these are moved out as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from portable.dtypes import DType, bool_
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.joins import meets
from portable.lang.passes.work_items.parts import WHOLE, leaves, returns
from portable.lang.passes.work_items.uniform import same_for_all

_MIRRORED: Final[dict[str, e.CompareOp]] = {"gt": "lt", "ge": "le"}
_OPPOSITE: Final[dict[str, e.CompareOp]] = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def without_guards(kernel: Kernel, varying: set[str]) -> Kernel:
    """The kernel with choices between statements without guards, and as they are.

    Parameters
    ----------
    kernel : Kernel
        Each of whose bindings has a name of its own. In what comes out, some have the same.
    varying : set of str
        The names whose values differ among work-items.
    """
    kernel = replace(kernel, body=_early_ends_as_guards(kernel.body))
    return replace(kernel, body=_Choosing(kernel, varying).block(kernel.body))


class _Choosing:
    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._workgroup = kernel.workgroup
        self._varying = varying
        statements = walks.all_statements(kernel.body)
        self._values = {x.var.name: x.value for x in statements if isinstance(x, s.Let)}
        self._reads = _counted_reads(kernel.body)
        self._assigned = frozenset(v.name for v in kernel.variables)
        self._count = 0

    def block(self, block: s.Block) -> s.Block:
        """A block that all work-items go through together."""
        out: list[s.Statement] = []
        alone: list[s.Statement] = []
        for x in block:
            if not meets((x,)):
                alone.append(x)
                continue
            out += self._chosen(tuple(alone))
            alone.clear()
            out.append(walks.map_blocks(x, self.block))
        return *out, *self._chosen(tuple(alone))

    def _chosen(self, block: s.Block) -> s.Block:
        """What work-items do between two places where all meet."""
        start = next((n for n, x in enumerate(block) if not isinstance(x, s.Let)), len(block))
        guarded = block[start:]
        bare, needed = self._without(guarded)
        if not needed or leaves(guarded) or returns(guarded) or self._read_elsewhere(guarded):
            return block
        conditions = self._known_before(guarded, needed)
        if conditions is None:
            return block
        self._count += 1
        whole = e.Variable(f"{WHOLE}{self._count}", bool_)
        condition, loc = conditions[0], guarded[0].loc
        for x in conditions[1:]:
            condition = e.Binary("and", condition, x)
        rest: list[s.Statement] = []
        for y in guarded:
            inwards = self._inwards(y) if isinstance(y, s.If) else None
            rest += (y,) if inwards is None else inwards
        choice = s.If(whole, bare, tuple(rest), loc)
        return *block[:start], s.Let(whole, condition, loc), choice

    def _known_before(
        self, block: s.Block, conditions: list[e.Expression]
    ) -> list[e.Expression] | None:
        """Conditions in words that have their values before a block; None if it sets some."""
        bound = {v.name for x in walks.all_statements(block) for v in x.binds()}
        changed = {v.name for x in walks.all_statements(block) for v in x.sets()}
        values = {name: x for name, x in self._values.items() if name in bound}
        out: list[e.Expression] = []
        for x in conditions:
            x = walks.resolved(x, values)
            if not walks.names_in(x).isdisjoint(bound | changed):
                return None
            out.append(x)
        return out

    def _inwards(self, x: s.If) -> s.Block | None:
        """A guard around loops as one in each, so that these may be moved out; None if that fails.

        Bindings that work-items behind the guard alone can work out stay behind it.
        """
        condition, block, bindings = x.condition, x.then, list[s.Statement]()
        while (inner := _only_guard(block)) is not None:
            bindings += block[:-1]
            condition, block = e.Binary("and", condition, inner.condition), inner.then
        loops = [y for y in block if isinstance(y, s.For)]
        if x.orelse or not loops or self._of_all(condition) is None:
            return None
        self._count += 1
        inwards = _Inwards(e.Variable(f"guard@{self._count}", bool_), self._assigned)
        made = inwards.block(block)
        return None if made is None else (*bindings, s.Let(inwards.guard, condition, x.loc), *made)

    def _read_elsewhere(self, block: s.Block) -> bool:
        """Whether names are read behind a block that it binds."""
        inside = _counted_reads(block)
        names = (v.name for x in block for v in x.binds())
        return any(self._reads[name] > inside[name] for name in names)

    def _without(self, block: s.Block) -> tuple[s.Block, list[e.Expression]]:
        """A block without its guards, and what has to hold for that: none where it has none."""
        out: list[s.Statement] = []
        needed: list[e.Expression] = []
        for x in block:
            condition = self._of_all(x.condition) if isinstance(x, s.If) else None
            if condition is None or not isinstance(x, s.If) or not _touches(x.then):
                out.append(x)
                continue
            inner, more = self._without(x.then)
            needed += [condition, *more]
            out += inner
        return tuple(out), needed

    def _of_all(self, x: e.Expression) -> e.Expression | None:
        """What holds if and only if a condition holds for all work-items; None if unknown."""
        match x:
            case e.Binary(op="and") if x.type is bool_:
                both = self._of_all(x.x), self._of_all(x.y)
                if both[0] is None or both[1] is None:
                    return None
                return e.Binary("and", both[0], both[1])
            case e.Unary(op="not", x=e.Compare() as inner):
                other = _opposite(inner)
                return self._of_all(other) if isinstance(other, e.Compare) else None
            case e.Compare(op="gt" | "ge"):
                return self._of_all(e.Compare(_MIRRORED[x.op], x.y, x.x))
            case e.Compare(op="lt" | "le") if same_for_all((x.y,), self._varying):
                last = self._place(x.x, last=True)
                return None if last is None else e.Compare(x.op, last, x.y)
            case e.Compare(op="lt" | "le") if same_for_all((x.x,), self._varying):
                first = self._place(x.y, last=False)
                return None if first is None else e.Compare(x.op, x.x, first)
            case e.Variable() if x.name in self._varying and x.name in self._values:
                return self._of_all(self._values[x.name])
            case _:
                return None

    def _place(self, x: e.Expression, *, last: bool) -> e.Expression | None:
        """A work-item's place, as the last work-item of the workgroup has it, or the first."""
        match x:
            case e.Variable() if x.name in self._varying and x.name in self._values:
                return self._place(self._values[x.name], last=last)
            case e.Cast() if _is_wider(x.x.type, x.type):
                inner = self._place(x.x, last=last)
                return None if inner is None else e.Cast(inner, x.type)
            case e.WorkItem(word="local_id"):
                return e.Const(self._workgroup[x.dim] - 1 if last else 0, x.type)
            case e.WorkItem(word="global_id"):
                size = e.Const(self._workgroup[x.dim], x.type)
                first = e.Binary("mul", e.WorkItem("group_id", x.dim, x.type), size)
                by = e.Const(self._workgroup[x.dim] - 1, x.type)
                return e.Binary("add", first, by) if last else first
            case _:
                return None


class _Inwards:
    """Puts a guard around what stands between loops, and into the loops."""

    def __init__(self, guard: e.Variable, assigned: frozenset[str]) -> None:
        self.guard = guard
        self._behind = set(assigned)

    def block(self, block: s.Block) -> s.Block | None:
        """A block's statements; None where some need what others bind behind the guard."""
        out: list[s.Statement] = []
        guarded: list[s.Statement] = []
        segments: list[s.Block] = []

        def end_segment() -> None:
            if guarded:
                segments.append(tuple(guarded))
                out.append(s.If(self.guard, segments[-1], (), guarded[0].loc))
                guarded.clear()

        for x in block:
            if isinstance(x, s.Let) and self._is_free((x.value,)):
                out.append(x)
            elif isinstance(x, s.For) and self._is_free((x.start, x.stop, x.step)):
                end_segment()
                out.append(replace(x, body=(s.If(self.guard, x.body, (), x.loc),)))
            else:
                guarded.append(x)
                self._behind.update(v.name for v in x.binds())
        end_segment()
        every = _counted_reads(block)
        for segment in segments:
            inside = _counted_reads(segment)
            if any(every[v.name] > inside[v.name] for x in segment for v in x.binds()):
                return None
        return tuple(out)

    def _is_free(self, values: tuple[e.Expression, ...]) -> bool:
        """Whether values need nothing from behind the guard."""
        return self._behind.isdisjoint(walks.names_in(*values))


def _counted_reads(block: s.Block) -> Counter[str]:
    """How often each name is read."""
    values = (
        y
        for x in walks.all_statements(block)
        for value in walks.reads(x)
        for y in walks.subexpressions(value)
    )
    return Counter(y.name for y in values if isinstance(y, e.Variable))


def _is_wider(old: object, new: object) -> bool:
    """Whether an integer type holds all places that another one does."""
    if not isinstance(old, DType) or not isinstance(new, DType):
        return False
    return old.is_integer and new.is_integer and new.bits >= old.bits


def _touches(block: s.Block) -> bool:
    return walks.holds(block, s.Load | s.Store)


def _early_ends_as_guards(body: s.Block) -> s.Block:
    """A kernel's body in which ``if i >= n: return`` is a guard of what follows, as far as it is.

    What follows must not meet, since all have to get there.
    """
    for number, x in enumerate(body):
        if isinstance(x, s.If) and not x.orelse and x.then and isinstance(x.then[0], s.Return):
            rest = body[number + 1 :]
            if all(y.together() == "work_item" for y in walks.all_statements(rest)):
                rest = _early_ends_as_guards(rest)
                return *body[:number], s.If(_opposite(x.condition), rest, (), x.loc)
    return body


def _only_guard(block: s.Block) -> s.If | None:
    """The guard around all of a block but bindings before it, if there is one."""
    if not block or not all(isinstance(x, s.Let) for x in block[:-1]):
        return None
    last = block[-1]
    return last if isinstance(last, s.If) and not last.orelse else None


def _opposite(x: e.Expression) -> e.Expression:
    """The condition that holds where another one does not."""
    if isinstance(x, e.Compare) and x.op in _OPPOSITE:
        kind = x.x.type
        if isinstance(kind, DType) and kind.is_integer:
            return e.Compare(_OPPOSITE[x.op], x.x, x.y)
    if isinstance(x, e.Binary) and x.op == "or" and x.type is bool_:
        return e.Binary("and", _opposite(x.x), _opposite(x.y))
    return e.Unary("not", x)
