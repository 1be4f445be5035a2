"""Uniform values, worked out once for a workgroup instead of once for each work-item.

This is stricter than `portable.lang.checks`, which believes what a kernel's author says:
a name counts as uniform here where all that gives it a value is worked out from uniform names only,
under no condition that varies. Loads count, of memory that nobody writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.passes.work_items.parts import Part, Region, regions, returns

_OWN_WORDS = frozenset(("global_id", "local_id", "sub_group_id", "sub_group_local_id"))


def is_own_word(x: e.Expression) -> bool:
    """Whether this is a word whose value differs among a workgroup's work-items."""
    return isinstance(x, e.WorkItem) and x.word in _OWN_WORDS


def same_for_all(values: Iterable[e.Expression], varying: set[str]) -> bool:
    """Whether values are the same for all work-items, given the names that vary."""
    for value in values:
        for x in walks.subexpressions(value):
            if is_own_word(x) or (isinstance(x, e.Variable) and x.name in varying):
                return False
    return True


def _given(x: s.Statement) -> set[str]:
    """The names that a statement, or one inside it, gives values to."""
    return {v.name for y in walks.all_statements((x,)) for v in (*y.binds(), *y.sets())}


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is not written while the work-items run through a region.

    Attributes
    ----------
    written : frozenset of Array
        Arrays that the region writes.
    constant : frozenset of Array
        Global arrays that nobody writes.
    readable : bool
        Whether memory may be read for work-items some of which may have ended.
    """

    written: frozenset[object]
    constant: frozenset[Array]
    readable: bool

    def stays(self, array: Array) -> bool:
        """Whether an array holds the same all through the region, and may be read before it."""
        if not self.readable or array.space == "private":
            return False
        return array in self.constant if array.space == "global" else array not in self.written


def _constant_arrays(kernel: Kernel) -> frozenset[Array]:
    written = kernel.written
    arrays = (x for x in kernel.parameters if isinstance(x, Array))
    return frozenset(x for x in arrays if x not in written and (x.restrict or not written))


class _Uniformity:
    """Which statements are the same for all, given the names that vary."""

    def __init__(self, kernel: Kernel, varying: set[str]) -> None:
        self._constant = _constant_arrays(kernel)
        self.varying = varying

    def memory(self, region: Region) -> _Memory:
        """What the region leaves as it is."""
        written = {x for y in walks.all_statements(region.statements) for x in y.written()}
        return _Memory(frozenset(written), self._constant, not region.after_return)

    def statement(self, x: s.Statement, memory: _Memory) -> bool:
        """Whether a statement is the same for all, and whether once is enough."""
        match x:
            case s.Let() | s.Assign() | s.If() | s.For() | s.Loop():
                pass
            case s.Load():
                if not memory.stays(x.array):
                    return False
            case s.Break() | s.Continue():
                return True
            case _:
                return False
        if not same_for_all(walks.operands(x), self.varying) or any(
            v.name in self.varying for v in x.binds()
        ):
            return False
        return all(self.statement(y, memory) for block in x.blocks() for y in block)


def varying_names(kernel: Kernel, parts: list[Part]) -> set[str]:
    """The names whose values may differ among the work-items."""
    varying: set[str] = set()
    uniformity, before = _Uniformity(kernel, varying), -1
    alike = [pair for region in regions(parts) for pair in _in_memory(uniformity, region)]
    while len(varying) > before:
        before, left = len(varying), []
        for x, memory in alike:
            if uniformity.statement(x, memory):
                left.append((x, memory))
            else:  # and it stays so: names are only added
                varying |= _given(x)
        alike = left
    return varying


def _in_memory(uniformity: _Uniformity, region: Region) -> list[tuple[s.Statement, _Memory]]:
    """A region's statements, each with the memory that it may read for all."""
    memory = uniformity.memory(region)
    pairs = []
    for x in region.statements:
        pairs.append((x, memory))
        if memory.readable and returns((x,)):
            memory = _Memory(memory.written, memory.constant, readable=False)
    return pairs


def take_out_uniform(kernel: Kernel, parts: list[Part], varying: set[str]) -> None:
    """Moves what is the same for all work-items out of the regions, before them.

    Where a variable changes between the statements of a region, these see names for the values
    that it had where they stood.
    """
    uniformity = _Uniformity(kernel, varying)
    taking = _TakingOut(kernel)
    for region in regions(parts):
        in_memory = _in_memory(uniformity, region)
        taking.region(region, [(x, uniformity.statement(x, y)) for x, y in in_memory])


class _TakingOut:
    def __init__(self, kernel: Kernel) -> None:
        self._variables = {v.name: v for v in kernel.variables}
        self._order = list(self._variables).index
        self._count = 0

    def region(self, region: Region, statements: list[tuple[s.Statement, bool]]) -> None:
        """Parts a region's statements, each given with whether it is the same for all."""
        before: list[s.Statement] = []
        alone: list[s.Statement] = []
        held: dict[str, e.Variable] = {}
        last = {
            n: number for number, (y, same) in enumerate(statements) if same for n in _changed(y)
        }
        for number, (x, alike) in enumerate(statements):
            if alike:
                before.append(x)
                for name in _given(x):
                    held.pop(name, None)
                continue
            later = (
                {n for n in walks.names_read((x,)) if last.get(n, -1) > number} if last else set()
            )
            for name in sorted(later - held.keys(), key=self._order):
                variable = self._variables[name]
                self._count += 1
                held[name] = e.Variable(f"{name}@was{self._count}", variable.type)
                before.append(s.Let(held[name], variable, x.loc))
            alone += (
                walks.map_values((x,), partial(walks.substituted, values=held)) if held else (x,)
            )
        region.before, region.statements = tuple(before), tuple(alone)


def _changed(x: s.Statement) -> set[str]:
    """The variables that a statement, or one in it, assigns to."""
    return {v.name for y in walks.all_statements((x,)) for v in y.sets()}
