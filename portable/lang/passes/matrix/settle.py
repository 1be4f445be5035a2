"""Waits, fences and barriers around warpgroup multiplications, which run on their own.

Where copies into tiles follow a multiplication without a barrier between, the multiplication stays
in flight over the next barrier; copies that may overwrite what an earlier one reads are then
held back by a wait and a barrier of their own, while the latest keeps the matrix units busy.
Elsewhere every barrier waits for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from portable.errors import Location
from portable.lang.ir import statements as s
from portable.lang.ir.walk import all_statements, blocks, map_block

__all__ = ["settled", "wait"]

_MOST_PENDING: Final = 7
_BARRIERS = s.Barrier | s.WorkgroupUniform | s.BulkWait


def wait(loc: Location, pending: int = 0) -> s.Instruction:
    """Waits until at most so many groups are in flight."""
    return s.Instruction(f"wgmma.wait.{pending}", (), (), (), loc)


def settled(body: s.Block) -> s.Block:
    """The lowered body of a kernel with all that barriers and copies need."""
    fenced = map_block(body, _fenced)
    if _overlaps(fenced):
        return _Guards().block(fenced)
    return map_block(fenced, lambda x: (wait(x.loc), x) if isinstance(x, _BARRIERS) else (x,))


def _fenced(x: s.Statement) -> s.Block:
    """Shows the asynchronous proxy what this work-item wrote, before others are told of it."""
    if isinstance(x, _BARRIERS):
        return s.Instruction("proxy.fence", (), (), (), x.loc), x
    return (x,)


def _starts(x: s.Statement) -> bool:
    return isinstance(x, s.Instruction) and x.name == "wgmma.commit"


def _waits(x: s.Statement) -> bool:
    return isinstance(x, s.Instruction) and x.name.startswith("wgmma.wait")


def _fills(x: s.Statement) -> bool:
    return isinstance(x, s.CopyTile) and x.target.array.space == "local"


def _overlaps(block: s.Block) -> bool:
    """Whether a copy follows a multiplication in a block, with no barrier between."""
    started = False
    for x in block:
        if started and _fills(x):
            return True
        started = _starts(x) or (started and not isinstance(x, _BARRIERS) and not any(blocks(x)))
        if any(_overlaps(inner) for inner in blocks(x)):
            return True
    return False


@dataclass(slots=True)
class _Guards:
    """Goes through a kernel in the order of execution.

    Attributes
    ----------
    pending : bool
        Whether a multiplication may be in flight.
    latest : int
        How many surely started since the last barrier, and so read nothing that copies may write.
    guarded : bool
        Whether copies since the last barrier were held back already.
    """

    pending: bool = False
    latest: int = 0
    guarded: bool = False

    def block(self, body: s.Block) -> s.Block:
        """A block, from the present state on."""
        out: list[s.Statement] = []
        for x in body:
            out += self._statement(x)
        return tuple(out)

    def _statement(self, x: s.Statement) -> s.Block:
        if _starts(x):
            self.pending, self.latest = True, self.latest + 1
        elif _waits(x):
            self.pending, self.latest = False, 0
        elif isinstance(x, _BARRIERS):
            self.latest, self.guarded = 0, False
        elif _fills(x) and self.pending and not self.guarded:
            self.guarded = True
            return wait(x.loc, min(self.latest, _MOST_PENDING)), s.Barrier(x.loc), x
        return (self._inner(x),)

    def _inner(self, x: s.Statement) -> s.Statement:
        match x:
            case s.If():
                before = replace(self)
                then = self.block(x.then)
                after = replace(self)
                self.pending, self.latest, self.guarded = before.state
                orelse = self.block(x.orelse)
                self._join(after)
                return replace(x, then=then, orelse=orelse)
            case s.For() | s.Loop():
                self._join(_Guards(any(_starts(y) for y in all_statements(x.body))))
                body = self.block(x.body)
                self._join(_Guards(self.pending))
                return replace(x, body=body)
            case _:
                return x

    @property
    def state(self) -> tuple[bool, int, bool]:
        """All of it."""
        return self.pending, self.latest, self.guarded

    def _join(self, other: _Guards) -> None:
        """Paths meet: what holds on both."""
        self.pending = self.pending or other.pending
        self.latest = min(self.latest, other.latest)
        self.guarded = self.guarded and other.guarded
