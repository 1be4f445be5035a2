"""Parts of a workgroup that go their own ways for a while.

Work-items mostly run in step. Where the branches of an `If` wait for each other at mbarriers, each
warpgroup of each branch becomes a strand with its own variables, and the strands take turns until
all have come to the end of their branch. `Settings.turns` says which goes on when several can.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Final

import numpy as np

from portable.sim import report
from portable.sim.active import Active
from portable.sim.strands import Pause, Running, Strand
from portable.sim.threads import WARPGROUP
from portable.sim.touches import Site
from portable.sim.values import select
from portable.sim.workgroup import Workgroup

_FAIRNESS: Final = 1 / 16


def divided(
    w: Workgroup, branches: Sequence[tuple[Active, Callable[[Workgroup], Running]]]
) -> list[Strand]:
    """The strands of some blocks and those who run each."""
    out = []
    warpgroup = np.arange(w.size) // WARPGROUP
    for members, block in branches:
        for number in np.unique(warpgroup[members.ids]):
            mine = members.where(warpgroup == number)
            out.append(Strand(mine, mine, dict(w.env), list(w.loops), block(w)))
    return out


def apart(w: Workgroup, site: Site, strands: list[Strand], assigned: Sequence[str]) -> Running:
    """Run strands to their ends, then go on in step with the variables that they `assigned`.

    Parameters
    ----------
    w : Workgroup
    site : Site
        The branch.
    strands : list of Strand
    assigned : sequence of str
    """
    if w.strands is None:
        w.strands = list(strands)
        yield from _take_turns(w, w.strands)
        w.strands = None
    else:
        w.strands += strands
        while not all(x.ended for x in strands):
            yield Pause(site, False, lambda: all(x.ended for x in strands))
    for name in assigned:
        for x in strands:
            if x.env[name] is not w.env[name]:
                w.env[name] = select(x.members.mask, x.env[name], w.env[name])
    w.active = Active(np.logical_or.reduce([x.active.mask for x in strands]))


def _take_turns(w: Workgroup, strands: list[Strand]) -> Running:
    while any(not x.ended for x in strands):
        ready = [x for x in strands if x.ready(w)]
        if not ready:
            if w.engine.advance(w):
                continue
            if not (yield from _stuck(w, strands)):
                return
            continue
        strand = _chosen(w, ready)
        pause = strand.turn(w)
        w.engine.perhaps(w)
        if pause is not None and not pause.stuck and pause.until is None:
            yield pause


def _chosen(w: Workgroup, ready: list[Strand]) -> Strand:
    """The one to go on; one that only loops is not preferred for ever."""
    chance = w.launch.chance
    if w.settings.turns == "random" or chance.random() < _FAIRNESS:
        return chance.choice(ready)
    prefer = min if w.settings.turns == "first" else max
    return prefer(ready, key=lambda x: int(x.members.ids[0]))


def _stuck(w: Workgroup, strands: list[Strand]) -> Generator[Pause, None, bool]:
    """Other workgroups may help one that loops; nobody helps those that wait at mbarriers."""
    pauses = [x.pause for x in strands if not x.ended and x.pause is not None]
    for pause in pauses:
        if pause.stuck:
            yield pause
            return True
    if w.settings.waits:
        waiting = next(x for x in strands if not x.ended)
        w.active = waiting.active
        assert waiting.pause is not None
        raise report.endless_wait(w, waiting.pause.site, report.NOBODY_COMES)
    for x in strands:
        x.running.close()
        x.ended = True
    return False
