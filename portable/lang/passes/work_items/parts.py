"""A kernel's body in parts: what each work-item does by itself, and what all go through together.

Work-items go through a statement *together* where they meet in it, where it leaves a loop that
they go through together, or where it ends the kernel and they would meet later: all of that is
proven uniform (`portable.lang.checks`). All that stands between such statements is a `Region`,
which the work-items may run through one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir import walks
from portable.lang.passes.joins import meets


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
    return walks.holds(block, s.Return)


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
        made: list[Part] = []
        alone: list[s.Statement] = []

        def end_region() -> None:
            if alone:
                made.append(Region(tuple(alone), repeats=in_loop))
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
                made.append(self._together(x, in_loop, meets_later))
        end_region()
        return made

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
