"""Uniform values, worked out once for a workgroup instead of once for each work-item.

This is stricter than `portable.lang.checks`, which believes what a kernel's author says:
a name counts as uniform here where all that gives it a value is worked out from uniform names only,
under no condition that varies. Loads count, of memory that nobody writes meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array

# A kernel's body in parts: what each work-item does by itself, and what all go through together.
#
# Work-items go through a statement *together* where they meet in it, where it leaves a loop that
# they go through together, or where it ends the kernel and they would meet later: all of that is
# proven uniform (`portable.lang.checks`). All that stands between such statements is a `Region`,
# which the work-items may run through one after the other.


# Gives every binding a name of its own, so that a name says where a value comes from.


def own_names(kernel: Kernel) -> Kernel:
    """The kernel with different names wherever the same one is bound several times."""
    bound: set[str] = set()
    for x in walks.all_statements(kernel.body):
        for var in x.binds():
            if var.name in bound:
                return replace(kernel, body=_Renaming().block(kernel.body, {}))
            bound.add(var.name)
    return kernel


class _Renaming:
    def __init__(self) -> None:
        self._bound: set[str] = set()
        self._count = 0

    def block(self, block: s.Block, names: Mapping[str, e.Variable]) -> s.Block:
        """A block in which names stand for variables of other names."""
        here = dict(names)
        out: list[s.Statement] = []
        for x in block:
            inner = dict(here)
            for var in x.binds():
                inner[var.name] = e.Variable(self._name(var.name), var.type)
            renamed = walks.map_operands(x, partial(walks.substituted, values=inner))
            out.append(walks.map_blocks(renamed, partial(self.block, names=inner)))
            if not x.blocks():
                here = inner
        return tuple(out)

    def _name(self, name: str) -> str:
        if name in self._bound:
            self._count += 1
            return f"{name}@bound{self._count}"
        self._bound.add(name)
        return name


# -- parts -----------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Region:
    """What each work-item does by itself between two places where all meet.

    Attributes
    ----------
    statements : tuple of Statement
        What each work-item does.
    before : tuple of Statement
        What is the same for all of them and is done once, before.
    repeats : bool
        Whether it stands in a loop that all go through together.
    after_return : bool
        Whether work-items may have ended in an earlier region.
    ends_some : bool
        Whether work-items may end in it, and a later region has to know.
    """

    statements: s.Block
    before: s.Block = ()
    repeats: bool = False
    after_return: bool = False
    ends_some: bool = False


@dataclass(eq=False, slots=True)
class Together:
    """A statement that all go through together; `blocks` are the parts of the blocks in it."""

    statement: s.Statement
    blocks: list[list[Part]] = field(default_factory=list)


Part = Region | Together


WHOLE: Final = "whole@"
"""What the names of conditions begin with by which a workgroup chooses (`interchange`)."""


def is_choice(x: s.If) -> bool:
    """Whether a workgroup chooses here between what it does without guards and with them."""
    return isinstance(x.condition, e.Variable) and x.condition.name.startswith(WHOLE)


def meets(block: s.Block) -> bool:
    """Whether all work-items meet anywhere in a block."""
    return any(isinstance(x, s.Barrier | s.WorkgroupUniform) for x in walks.all_statements(block))


def leaves(block: s.Block) -> bool:
    """Whether a block may leave the loop that it stands in, or start its next round."""
    for x in block:
        if isinstance(x, s.Break | s.Continue):
            return True
        if not isinstance(x, s.For | s.Loop) and any(map(leaves, x.blocks())):
            return True
    return False


def returns(block: s.Block) -> bool:
    """Whether a block may end a work-item."""
    return any(isinstance(x, s.Return) for x in walks.all_statements(block))


def _is_quiet(x: s.Statement) -> bool:
    """Whether no other work-item can tell when a statement is done: it may wait for a barrier."""
    for y in walks.all_statements((x,)):
        if not isinstance(y, s.Let | s.Assign | s.If | s.For | s.Load | s.Store):
            return False
        if isinstance(y, s.Load | s.Store) and y.array.space != "private":
            return False
    return True


def parts_of(body: s.Block, moved: frozenset[str] = frozenset()) -> list[Part]:
    """The parts of a kernel's body.

    Parameters
    ----------
    body : Block
    moved : frozenset of str
        The variables of loops that all shall go through together though nobody meets in them.
    """
    made = _Parts(moved).block(body, in_loop=False, later=False)
    _follow_returns(made)
    return made


class _Parts:
    def __init__(self, moved: frozenset[str]) -> None:
        self._moved = moved

    def block(self, block: s.Block, *, in_loop: bool, later: bool) -> list[Part]:
        """The parts of a block.

        `in_loop`: it stands in a loop that all go through together. `later`: all meet after it.
        """
        parts_found: list[Part] = []
        alone: list[s.Statement] = []

        def end_region() -> None:
            if alone:
                parts_found.append(Region(tuple(alone), repeats=in_loop))
                alone.clear()

        # Each is looked through once: blocks of large kernels have thousands of statements.
        meeting = [meets((x,)) for x in block]
        last = max((number for number, here in enumerate(meeting) if here), default=-1)
        for number, x in enumerate(block):
            meets_later = later or number < last
            if not (meeting[number] or self._is_together(x, in_loop, meets_later)):
                alone.append(x)
                continue
            if isinstance(x, s.Barrier):
                if not all(map(_is_quiet, alone)):
                    end_region()
            else:
                end_region()
                parts_found.append(self._together(x, in_loop, meets_later))
        end_region()
        return parts_found

    def _is_together(self, x: s.Statement, in_loop: bool, later: bool) -> bool:
        """Whether all go through a statement together in which nobody meets."""
        one = (x,)
        if (in_loop and leaves(one)) or (later and returns(one)):
            return True
        if isinstance(x, s.If):
            return is_choice(x)
        return x.together() == "workgroup" or (isinstance(x, s.For) and x.var.name in self._moved)

    def _together(self, x: s.Statement, in_loop: bool, later: bool) -> Together:
        if isinstance(x, s.For | s.Loop):
            # its next round may meet
            inner = self.block(x.body, in_loop=True, later=later or meets(x.body))
            return Together(x, [inner])
        blocks = [self.block(block, in_loop=in_loop, later=later) for block in x.blocks()]
        return Together(x, blocks)


def all_parts(parts: list[Part]) -> Iterator[Part]:
    """Parts and the parts in them, in the order of the text."""
    for part in parts:
        yield part
        if isinstance(part, Together):
            for block in part.blocks:
                yield from all_parts(block)


def regions(parts: list[Part]) -> list[Region]:
    """The regions among parts and in them, in the order of the text."""
    return [part for part in all_parts(parts) if isinstance(part, Region)]


def _follow_returns(parts: list[Part]) -> None:
    """Marks regions that some may end in, and those that then follow."""
    all_regions = regions(parts)
    ended = False
    for number, region in enumerate(all_regions):
        region.after_return = ended
        if returns(region.statements):
            ended = region.ends_some = number + 1 < len(all_regions)


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
    regions_found = [part for part in all_parts(parts) if isinstance(part, Region)]
    alike = [pair for region in regions_found for pair in _in_memory(uniformity, region)]
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
    arrays = []
    for x in region.statements:
        arrays.append((x, memory))
        if memory.readable and returns((x,)):
            memory = _Memory(memory.written, memory.constant, readable=False)
    return arrays


def take_out_uniform(kernel: Kernel, parts: list[Part], varying: set[str]) -> None:
    """Moves what is the same for all work-items out of the regions, before them.

    Where a variable changes between the statements of a region, these see names for the values
    that it had where they stood.
    """
    uniformity = _Uniformity(kernel, varying)
    taking = _TakingOut(kernel)
    for part in all_parts(parts):
        if isinstance(part, Region):
            in_memory = _in_memory(uniformity, part)
            taking.region(part, [(x, uniformity.statement(x, y)) for x, y in in_memory])


class _TakingOut:
    def __init__(self, kernel: Kernel) -> None:
        self._variables = {v.name: v for v in kernel.variables}
        self._order = list(self._variables).index
        self._count = 0

    def region(self, region: Region, needs: list[tuple[s.Statement, bool]]) -> None:
        """Parts a region's statements."""
        before: list[s.Statement] = []
        alone: list[s.Statement] = []
        held: dict[str, e.Variable] = {}
        last = {n: number for number, (y, same) in enumerate(needs) if same for n in _changed(y)}
        for number, (x, alike) in enumerate(needs):
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


# Which values of a work-item are needed beyond the region that they come from.


@dataclass(slots=True)
class Needs:
    """What a region takes from before and leaves for later, by name.

    Attributes
    ----------
    read : set of str
        Names that may be read before the region gives them values.
    given : set of str
        Names that it may give values to, as far as they are known at its end.
    surely : set of str
        Those that it gives values to on every way to its end.
    later : set of str
        Names that are read later.
    """

    read: set[str]
    given: set[str]
    surely: set[str]
    later: set[str] = field(default_factory=set)

    @property
    def kept(self) -> set[str]:
        """What has to be kept at the end."""
        return self.given & self.later

    @property
    def fetched(self) -> set[str]:
        """What has to be there at the start: what is read, and what may be kept as it was."""
        return self.read | (self.kept - self.surely)


def needs_of(parts: list[Part], followed: set[str]) -> dict[Region, Needs]:
    """What each region needs of the names in `followed`."""
    needs = {}
    for part in all_parts(parts):
        if isinstance(part, Region):
            needs[part] = _within(part.statements, followed)
    _Flow(needs, followed).block(parts, set(), _Exits(set(), set()))
    return needs


# -- within a region ----------------------------------------------------------------------------


def _within(block: s.Block, followed: set[str]) -> Needs:
    reads = _Reads(followed)
    surely = reads.block(block, frozenset())
    given = {v.name for x in walks.all_statements(block) for v in x.sets()}
    given |= {v.name for x in block for v in x.binds()}
    ended = frozenset() if surely is None else surely
    return Needs(reads.found, given & followed, set(ended) & given)


class _Reads:
    """Collects the names that are read where they may not have been given a value yet."""

    def __init__(self, followed: set[str]) -> None:
        self._followed = followed
        self.found: set[str] = set()

    def block(self, block: s.Block, known: frozenset[str]) -> frozenset[str] | None:
        """The names that surely have values at a block's end; None where that is not reached."""
        here: frozenset[str] | None = known
        for x in block:
            if here is None:
                return None
            here = self._statement(x, here)
        return here

    def _statement(self, x: s.Statement, known: frozenset[str]) -> frozenset[str] | None:
        outcome = {v.name for v in (*x.binds(), *x.sets())}
        self._read(walks.reads(x), known)
        match x:
            case s.If():
                sides = [self.block(block, known) for block in x.blocks()]
                ended = [side for side in sides if side is not None]
                return frozenset.intersection(*ended) if ended else None
            case s.For():
                self.block(x.body, known | outcome)
                return known
            case s.Loop():
                self.block(x.body, known)
                return known
            case s.Break() | s.Continue() | s.Return():
                return None
            case _:
                return known | outcome

    def _read(self, values: Iterable[e.Expression], known: frozenset[str]) -> None:
        self.found |= (walks.names_in(*values) & self._followed) - known


# -- between regions ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Exits:
    """The names that are read after the innermost loop, and in its next round."""

    after: set[str]
    again: set[str]


class _Flow:
    """Goes backward; a loop until its next round needs no more than is known."""

    def __init__(self, needs: dict[Region, Needs], followed: set[str]) -> None:
        self._needs = needs
        self._followed = followed

    def block(self, parts: list[Part], later: set[str], exits: _Exits) -> set[str]:
        """The names that are read from a block's start on."""
        for part in reversed(parts):
            if isinstance(part, Region):
                needs = self._needs[part]
                needs.later = later
                later = (later - needs.surely) | needs.fetched
            else:
                later = self._together(part, later, exits)
        return later

    def _together(self, part: Together, later: set[str], exits: _Exits) -> set[str]:
        x = part.statement
        read = walks.names_in(*walks.reads(x)) & self._followed
        match x:
            case s.Break():
                return exits.after
            case s.Continue():
                return exits.again
            case s.Return():
                return set()
            case s.For() | s.Loop():
                return read | self._loop(part, later)
            case s.If():
                return read.union(*(self.block(block, later, exits) for block in part.blocks))
            case _:
                return later | read

    def _loop(self, part: Together, later: set[str]) -> set[str]:
        again = set(later) if isinstance(part.statement, s.For) else set()
        while True:
            start = self.block(part.blocks[0], again, _Exits(later, again))
            if isinstance(part.statement, s.For):
                start = start | later
            if start <= again:
                return again
            again = again | start
