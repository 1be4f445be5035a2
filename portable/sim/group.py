"""The interface of a running workgroup that the simulator's lower modules need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from portable.errors import Location
from portable.lang.ir.types import Array
from portable.sim.clocks import Clock, WorkgroupClock
from portable.sim.errors import WorkItemId
from portable.sim.launch import Launch
from portable.sim.values import LoopMasks, Value


class Group:
    """The work-items of one workgroup, which are rows of every value in `env`.

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
    loops : list of LoopMasks
        Of the loops it is in, outermost first.
    clock : WorkgroupClock
        What its work-items know of others' accesses.
    fences : dict
        By work-item, "release" or "acquire", and scope: what its last release fence publishes and
        what its next acquire fence learns.
    changes : int
        How often it has changed memory.
    """

    def __init__(self, launch: Launch, number: int) -> None:
        self.launch = launch
        self.kernel = launch.kernel
        self.settings = launch.settings
        self.number = number
        x, y, _ = launch.groups
        self.group_id = (number % x, number // x % y, number // (x * y))
        self.size = launch.threads.work_items
        self.env: dict[str, Value] = {}
        self.active = launch.everyone
        self.loops: list[LoopMasks] = []
        self.clock = WorkgroupClock(number, launch.group_count, launch.threads.stride, self.size)
        self.fences: dict[tuple[int, str, str], Clock] = {}
        self.changes = 0

    def bind(self, name: str, picked: Value) -> None:
        """Bind a variable to values of the active work-items."""
        self.env[name] = self.active.spread(picked)

    def work_item(self, item: int) -> WorkItemId:
        """The name of one of this workgroup's threads."""
        return self.launch.work_item(self.number, item)


# Accesses to memory as records and reports see them: the statement, the place, who it was.


@dataclass(frozen=True, slots=True)
class Site:
    """A statement of the kernel, and the array it accesses if any."""

    number: int
    location: Location
    array: Array | None = None


class Touch(Protocol):
    """Pieces of memory that work-items access in one statement, as of `portable.sim.memory.Access`.

    Attributes
    ----------
    site : Site
        The statement.
    items : numpy.ndarray
        Which work-item, or other thread of the workgroup, accesses each component.
    together : bool
        Whether the workgroup shares the accesses out among its work-items in an unknown way.
    """

    site: Site
    items: Value
    together: bool

    @property
    def array(self) -> Array:
        """The kernel's array."""

    @property
    def granules(self) -> Value:
        """The granules of the memory's shadow that are accessed."""

    def threads(self, w: Group) -> Value:
        """The thread that accesses each granule."""

    def element(self, position: int) -> tuple[int, ...]:
        """The index of the component that a position among the granules belongs to."""

    def item(self, position: int) -> int:
        """Who accesses the granule at a position."""
