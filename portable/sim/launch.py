"""One launch of a kernel: what its workgroups share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from portable.errors import LaunchError
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.sim import binding
from portable.sim.active import Active
from portable.sim.errors import OtherAccess, WorkItemId
from portable.sim.memory import Buffer, Site
from portable.sim.settings import Settings
from portable.sim.strands import WARPGROUP
from portable.sim.survey import Survey
from portable.sim.values import Value
from portable.sim.workgroup import Threads, Workgroup

__all__ = ["Launch"]


class Launch:
    """What the workgroups of one launch share.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    settings : Settings
        What is checked.
    groups : (int, int, int)
        Workgroups along each dimension.
    group_count : int
        Workgroups in all.
    sites : sequence of Site
        The kernel's statements by number.
    threads : Threads
        How threads are numbered.
    survey : Survey
        What the kernel does.
    chance : Random
        Seeded, for what may happen in any order.
    everyone, nobody : Active
        All work-items of a workgroup, and none.
    local_ids : tuple of numpy.ndarray
        Local ids of the work-items along each dimension.
    buffers : dict of Array to Buffer
        Global arrays.
    scalars, blank : dict of str to numpy.ndarray
        Scalar parameters, and variables before their first assignment.
    blanks : list
        Memory that has a record of what was written: address, granule in bytes, the record.
    version : int
        Counts changes to global memory.
    """

    def __init__(
        self,
        kernel: Kernel,
        survey: Survey,
        sites: Sequence[Site],
        groups: tuple[int, int, int],
        settings: Settings,
    ) -> None:
        self.kernel = kernel
        self.settings = settings
        self.groups = groups
        self.sites = sites
        self.group_count = groups[0] * groups[1] * groups[2]
        x, y, z = kernel.workgroup
        item = np.arange(x * y * z)
        self.local_ids = (item % x, item // x % y, item // (x * y))
        self.threads = Threads(x * y * z, kernel.sub_group_size, len(survey.mbarriers))
        self.chance = random.Random(settings.seed)  # noqa: S311  (an order, no secret)
        self.everyone = Active(np.ones(x * y * z, np.bool_))
        self.nobody = Active(np.zeros(x * y * z, np.bool_))
        self.survey = survey
        self.buffers: dict[Array, Buffer] = {}
        self.scalars: dict[str, Value] = {}
        self.blank: dict[str, Value] = {}
        self.blanks: list[tuple[int, int, Value]] = []
        self.version = 0

    def bind(self, arguments: Sequence[Any], blank: frozenset[str]) -> None:
        """Bind the arguments, one per parameter."""
        parameters = self.kernel.parameters
        if len(arguments) != len(parameters):
            raise LaunchError(
                f"{self.kernel.name} takes {len(parameters)} arguments, not {len(arguments)}"
            )
        arrays: dict[Array, Any] = {}
        for parameter, argument in zip(parameters, arguments, strict=True):
            if isinstance(parameter, Array):
                arrays[parameter] = argument
            else:
                kind = parameter.type.numpy  # type: ignore[union-attr]
                size = self.threads.work_items
                self.scalars[parameter.name] = np.full(size, argument, kind)
        self.buffers = binding.bind_arrays(self, arrays, blank)

    def start(self, number: int) -> Workgroup:
        """A new workgroup, about to begin."""
        w = Workgroup(self, number)
        if not self.blank:
            self.blank = {v.name: w.undefined(v.type) for v in self.kernel.variables}
            w.env.update(self.blank)
        return w

    def work_item(self, group: int, item: int) -> WorkItemId:
        """The name of a thread of a workgroup."""
        x, y, _ = self.groups
        group_id = (group % x, group // x % y, group // (x * y))
        threads = self.threads
        if item >= threads.slots:
            return self._place(group_id, 0)._replace(held_by="copy")
        if item >= threads.warpgroups:
            first = (item - threads.warpgroups) * WARPGROUP
            return self._place(group_id, first)._replace(held_by="warpgroup")
        if item >= threads.sub_groups:
            first = (item - threads.sub_groups) * threads.sub_group_size
            return self._place(group_id, first)._replace(held_by="sub-group")
        if item >= threads.work_items:
            return self._place(group_id, 0)._replace(held_by="workgroup")
        return self._place(group_id, item)

    def _place(self, group_id: tuple[int, int, int], item: int) -> WorkItemId:
        i, j, k = (int(ids[item]) for ids in self.local_ids)
        x, y, z = self.kernel.workgroup
        at = (group_id[0] * x + i, group_id[1] * y + j, group_id[2] * z + k)
        return WorkItemId(at, (i, j, k), group_id)

    def other_access(self, kind: str, site: int, thread: int) -> OtherAccess:
        """An earlier access, for a report."""
        group, item = divmod(thread, self.threads.stride)
        return OtherAccess(kind, self.sites[site].location, self.work_item(group, item))
