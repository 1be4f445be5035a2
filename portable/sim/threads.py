"""Numbers for the threads of a workgroup, by which records of memory name them."""

from __future__ import annotations

from typing import Final

from portable.sim.values import Value

WARPGROUP: Final = 128
"""Work-items that multiply together; none waits without the others."""


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
        generic: Value = (threads < self.slots) | ((threads - self.slots) % 2 == 1)
        return generic
