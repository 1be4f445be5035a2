"""The state of one running workgroup."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from portable.lang.ir.expressions import WorkItem
from portable.lang.ir.types import Array, Fragment, lanes_of, scalar_of
from portable.sim import binding, report
from portable.sim.active import LoopMasks
from portable.sim.clocks import Clock, WorkgroupClock
from portable.sim.copies import Copies, Engine
from portable.sim.errors import WorkItemId
from portable.sim.memory import Buffer, Site
from portable.sim.products import Products
from portable.sim.proxies import Proxies
from portable.sim.strands import WARPGROUP, Strand
from portable.sim.values import Value

if TYPE_CHECKING:
    from portable.sim.launch import Launch
    from portable.sim.mbarriers import MBarrier

__all__ = ["Threads", "Workgroup"]


class Threads:
    """Numbers of the threads of a workgroup: its work-items, and what they do together.

    Attributes
    ----------
    work_items : int
        Their number; they are 0 and up.
    copy : int
        Copies of whole tiles, shared out among the work-items in an unknown way.
    workgroup : int
        Matrix operations of the workgroup.
    sub_groups : int
        The first of the sub-groups' matrix operations.
    warpgroups : int
        The first of the warpgroups' multiplications.
    slots : int
        The first of the asynchronous copies that mbarriers count, two for each mbarrier: those
        through the asynchronous proxy, and the others.
    stride : int
        How many numbers a workgroup takes; the last stands for "many".
    """

    __slots__ = (
        "copy",
        "slots",
        "stride",
        "sub_group_size",
        "sub_groups",
        "warpgroups",
        "work_items",
        "workgroup",
    )

    def __init__(self, work_items: int, sub_group_size: int, mbarriers: int) -> None:
        self.work_items = work_items
        self.sub_group_size = sub_group_size
        self.copy = work_items
        self.workgroup = work_items + 1
        self.sub_groups = work_items + 2
        self.warpgroups = self.sub_groups + -(-work_items // sub_group_size)
        self.slots = self.warpgroups + -(-work_items // WARPGROUP)
        self.stride = self.slots + 2 * mbarriers + 1

    def slot(self, mbarrier: int, proxy: str) -> int:
        """The thread of the copies through a proxy that an mbarrier counts."""
        return self.slots + 2 * mbarrier + (proxy == "generic")

    def generic(self, threads: Value) -> Value:
        """Which of these access memory as work-items do."""
        found: Value = (threads < self.slots) | ((threads - self.slots) % 2 == 1)
        return found


class Workgroup:
    """One workgroup: its work-items are rows of every value in `env`.

    Attributes
    ----------
    launch : Launch
        What it is part of.
    number : int
        Its linear number, dimension 0 fastest.
    group_id : (int, int, int)
        Its place in the range.
    size : int
        Work-items.
    env : dict of str to numpy.ndarray
        Values of variables by name.
    active : Active
        Who takes part in what is being executed.
    buffers : dict of Array to Buffer
        Global, local and private arrays.
    fragments : dict of Fragment to numpy.ndarray
        Matrices, one per instance of their scope.
    loops : list of LoopMasks
        Of the loops it is in, outermost first.
    clock : WorkgroupClock
        What its work-items know of others' accesses.
    fences : dict
        By work-item, "release" or "acquire", and scope: what its last release fence publishes and
        what its next acquire fence learns.
    strands : list of Strand or None
        Its parts, while they go their own ways; one of them is being executed.
    changes : int
        How often it has changed memory.
    """

    def __init__(self, launch: Launch, number: int) -> None:
        kernel = launch.kernel
        self.launch = launch
        self.kernel = kernel
        self.settings = launch.settings
        self.number = number
        x, y, _ = launch.groups
        self.group_id = (number % x, number // x % y, number // (x * y))
        self.size = launch.threads.work_items
        self.env: dict[str, Value] = dict(launch.scalars)
        self.env.update(launch.blank)
        self.active = launch.everyone
        self.buffers: dict[Array, Buffer] = dict(launch.buffers)
        for array in kernel.arrays:
            self.buffers[array] = binding.allocate(array, self.size, launch)
        self.fragments: dict[Fragment, Value] = {}
        self.loops: list[LoopMasks] = []
        self.clock = WorkgroupClock(number, launch.group_count, launch.threads.stride, self.size)
        self.fences: dict[tuple[int, str, str], Clock] = {}
        self.strands: list[Strand] | None = None
        self.changes = 0
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
    def engine(self) -> Engine:
        """What moves the data of all copies."""
        return Engine()

    @cached_property
    def mbarriers(self) -> dict[tuple[Array, int], MBarrier]:
        """Elements of local arrays that are mbarriers."""
        return {}

    @cached_property
    def products(self) -> Products:
        """Multiplications of warpgroups under way."""
        return Products()

    @cached_property
    def proxies(self) -> Proxies:
        """What the asynchronous proxy sees."""
        return Proxies(self.size, self.launch.threads.stride)

    def changed(self, buffer: Buffer) -> None:
        """Note that memory has changed; other workgroups may be waiting for it."""
        self.changes += 1
        if buffer.array.space == "global":
            self.launch.version += 1

    def bind(self, name: str, picked: Value) -> None:
        """Bind a variable to values of the active work-items."""
        self.env[name] = self.active.spread(picked)

    def word(self, node: WorkItem) -> Value:
        """Where each work-item stands."""
        found = self._words.get(node)
        if found is None:
            found = np.broadcast_to(self._stand(node), (self.size,)).astype(node.type.numpy)
            self._words[node] = found
        return found

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
                return self.launch.groups[node.dim] * self.kernel.workgroup[node.dim]
            case "num_groups":
                return self.launch.groups[node.dim]
            case "local_linear_id":
                return np.arange(self.size)
            case "sub_group_id":
                return np.arange(self.size) // size
            case "sub_group_local_id":
                return np.arange(self.size) % size
            case "num_sub_groups":
                return -(-self.size // size)

    def meet(self, site: Site, what: str) -> None:
        """All work-items must be here."""
        if not self.active.full and self.settings.divergence:
            missing = np.flatnonzero(~self.active.mask)
            raise report.divergence(self, site, what, missing)

    def barrier(self) -> None:
        """All work-items meet, and each knows what any of them knew."""
        self.clock.barrier()
        if self.launch.survey.proxied:
            self.proxies.barrier()

    def meet_sub_groups(self, site: Site, what: str, size: int = 0) -> None:
        """All work-items of every sub-group, or other `size`, that is here at all must be here."""
        if self.active.full or not self.settings.divergence:
            return
        group = np.arange(self.size) // (size or self.kernel.sub_group_size)
        here = np.isin(group, group[self.active.ids])
        missing = np.flatnonzero(here & ~self.active.mask)
        if missing.size:
            raise report.divergence(self, site, what, missing)

    def work_item(self, item: int) -> WorkItemId:
        """The name of one of this workgroup's threads."""
        return self.launch.work_item(self.number, item)

    def undefined(self, kind: object) -> Value:
        """Zeros of a type, for variables before their first assignment."""
        lanes = lanes_of(kind)  # type: ignore[arg-type]
        shape = (self.size,) if lanes == 1 else (self.size, lanes)
        return np.zeros(shape, scalar_of(kind).numpy)  # type: ignore[arg-type]
