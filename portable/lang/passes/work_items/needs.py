"""Which values of a work-item are needed beyond the region that they come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.passes.work_items.parts import Part, Region, Together, regions


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
    needs = {region: _within(region.statements, followed) for region in regions(parts)}
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
        given = {v.name for v in (*x.binds(), *x.sets())}
        self._read(walks.reads(x), known)
        match x:
            case s.If():
                sides = [self.block(block, known) for block in x.blocks()]
                ended = [side for side in sides if side is not None]
                return frozenset.intersection(*ended) if ended else None
            case s.For():
                self.block(x.body, known | given)
                return known
            case s.Loop():
                self.block(x.body, known)
                return known
            case s.Break() | s.Continue() | s.Return():
                return None
            case _:
                return known | given

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
