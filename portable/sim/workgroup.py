"""A running workgroup: its state, and strands of it on their way through a block."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from portable.lang.ir.expressions import WorkItem
from portable.lang.ir.types import Array, Fragment
from portable.sim import binding, report
from portable.sim.binding import Arguments
from portable.sim.copies import Copies, CopyGroup, MBarrier
from portable.sim.launch import Group, Launch, Site
from portable.sim.products import Products
from portable.sim.values import Active, LoopMasks, Value

# Work-items on their way through a block: where they pause, and strands that go on alone.


@dataclass(frozen=True, slots=True)
class Pause:
    """A place where another workgroup, or another strand of this one, may go on.

    Attributes
    ----------
    site : Site
        The place.
    stuck : bool
        Whether the workgroup can only repeat itself until others change global memory: the
        end of a round of a loop at which everything stands as it stood at the round's start.
    until : callable or None
        Where only other strands of the workgroup can change something (`control`): whether
        they have.
    """

    site: Site
    stuck: bool
    until: Callable[[], bool] | None = None


Running = Generator[Pause, None, None]
"""The rest of a block: the places at which others may go on."""


@dataclass(slots=True, eq=False)
class Strand:
    """Some work-items of a workgroup on their way through a block.

    Attributes
    ----------
    members, active : Active
        Its work-items, and those that take part in what is being executed.
    env : dict of str to numpy.ndarray
        Values of variables by name.
    loops : list of LoopMasks
        Of the loops that it is in.
    running : generator
        The rest of the block.
    pause : Pause or None
        Where it stands.
    seen : (int, int)
        How often memory had changed then.
    ended : bool
        Whether the block is done.
    """

    members: Active
    active: Active
    env: dict[str, Value]
    loops: list[LoopMasks]
    running: Running
    pause: Pause | None = None
    seen: tuple[int, int] = (0, 0)
    ended: bool = False

    def ready(self, w: Group) -> bool:
        """Whether it may do something new."""
        if self.ended or self.pause is None:
            return not self.ended
        if self.pause.until is not None:
            return self.pause.until()
        return not self.pause.stuck or self.seen != (w.changes, w.launch.version)

    def turn(self, w: Group) -> Pause | None:
        """Run until the next pause, which is given, or to the end."""
        saved = w.env, w.active, w.loops
        w.env, w.active, w.loops = self.env, self.active, self.loops
        self.pause = next(self.running, None)
        self.ended = self.pause is None
        self.env, self.active, self.loops = w.env, w.active, w.loops
        w.env, w.active, w.loops = saved
        self.seen = w.changes, w.launch.version
        return self.pause


# The state of one running workgroup.


class Workgroup(CopyGroup):
    """One workgroup, with all that runs in it and beside it.

    Attributes
    ----------
    fragments : dict of Fragment to numpy.ndarray
        Matrices, one per instance of their scope.
    strands : list of Strand or None
        Its parts, while they go their own ways; one of them is being executed.
    """

    def __init__(self, launch: Launch, arguments: Arguments, number: int) -> None:
        super().__init__(launch, number)
        self.env.update(arguments.scalars)
        self.env.update(arguments.blank)
        self.buffers.update(arguments.buffers)
        for array in self.kernel.arrays:
            self.buffers[array] = binding.allocate(array, self.size, launch)
        self.fragments: dict[Fragment, Value] = {}
        self.strands: list[Strand] | None = None
        self._words: dict[WorkItem, Value] = {}

    @cached_property
    def copies(self) -> Copies:
        """Asynchronous copies in groups."""
        return Copies(self.size)

    @cached_property
    def bulk(self) -> Copies:
        """Those through the asynchronous proxy, in groups of their own."""
        return Copies(self.size)

    @cached_property
    def mbarriers(self) -> dict[tuple[Array, int], MBarrier]:
        """Elements of local arrays that are mbarriers."""
        return {}

    @cached_property
    def products(self) -> Products:
        """Multiplications of warpgroups under way."""
        return Products()

    def word(self, node: WorkItem) -> Value:
        """Where each work-item stands."""
        values = self._words.get(node)
        if values is None:
            values = np.broadcast_to(self._stand(node), (self.size,)).astype(node.type.numpy)
            self._words[node] = values
        return values

    def _stand(self, node: WorkItem) -> Value | int:
        local, size = self.launch.local_ids, self.kernel.sub_group_size
        match node.word:
            case "global_id":
                return self.group_id[node.dim] * self.kernel.workgroup[node.dim] + local[node.dim]
            case "local_id":
                return local[node.dim]
            case "group_id":
                return self.group_id[node.dim]
            case "global_size":
                return self.launch.sizes[node.dim]
            case "num_groups":
                return self.launch.groups[node.dim]
            case "local_linear_id":
                return np.arange(self.size)
            case "sub_group_id":
                return np.arange(self.size) // size
            case "sub_group_local_id":
                return np.arange(self.size) % size

    def meet(self, site: Site, what: str) -> None:
        """All work-items must be here."""
        if not self.active.full and self.settings.divergence:
            missing = np.flatnonzero(~self.active.mask)
            raise report.divergence(self, site, what, missing)

    def barrier(self, meeting: int = 0) -> None:
        """All work-items meet, or so many of them, and each knows what any of them knew."""
        if meeting:
            self._meet_some(np.arange(meeting))
            return
        self.clock.barrier()
        if self.launch.survey.proxied:
            self.proxies.barrier()

    def _meet_some(self, items: Value) -> None:
        known = self.clock.release(items)
        self.clock.tick()
        self.clock.acquire_together(items, known)
        if self.launch.survey.proxied:
            self.proxies.acquire(items, self.proxies.release(items))

    def meet_sub_groups(self, site: Site, what: str, size: int = 0) -> None:
        """All work-items of every sub-group, or other `size`, that is here at all must be here."""
        if self.active.full or not self.settings.divergence:
            return
        group = np.arange(self.size) // (size or self.kernel.sub_group_size)
        here = np.isin(group, group[self.active.ids])
        missing = np.flatnonzero(here & ~self.active.mask)
        if missing.size:
            raise report.divergence(self, site, what, missing)
