"""One launch of a kernel: what its workgroups share."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from portable.errors import Location
from portable.lang.ir.kernel import Kernel
from portable.sim.active import Active
from portable.sim.errors import OtherAccess, WorkItemId
from portable.sim.settings import Settings
from portable.sim.survey import Survey
from portable.sim.threads import WARPGROUP, Threads


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
    sizes : (int, int, int)
        Work-items along each dimension: those asked for, or of whole workgroups.
    group_count : int
        Workgroups in all.
    places : sequence of Location
        Of the kernel's statements by number.
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
    version : int
        Counts changes to global memory.
    """

    def __init__(
        self,
        kernel: Kernel,
        survey: Survey,
        places: Sequence[Location],
        groups: tuple[int, int, int],
        settings: Settings,
        sizes: tuple[int, ...] = (),
    ) -> None:
        self.kernel = kernel
        self.settings = settings
        self.groups = groups
        whole = (n * size for n, size in zip(groups, kernel.workgroup, strict=True))
        self.sizes = sizes or tuple(whole)
        self.places = places
        self.group_count = groups[0] * groups[1] * groups[2]
        x, y, z = kernel.workgroup
        item = np.arange(x * y * z)
        self.local_ids = (item % x, item // x % y, item // (x * y))
        self.threads = Threads(x * y * z, kernel.sub_group_size, len(survey.mbarriers))
        self.chance = random.Random(settings.seed)  # noqa: S311  (an order, no secret)
        self.everyone = Active(np.ones(x * y * z, np.bool_))
        self.nobody = Active(np.zeros(x * y * z, np.bool_))
        self.survey = survey
        self.version = 0

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
        return OtherAccess(kind, self.places[site], self.work_item(group, item))
