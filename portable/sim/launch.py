"""One launch of a kernel: what its workgroups share, and a workgroup as lower modules know it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import prod
from typing import Any, Final, Literal, Protocol, get_args

import numpy as np

from portable.errors import LaunchError, Location
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walks import all_statements
from portable.sim.clocks import WARPGROUP, Clock, Threads, WorkgroupClock
from portable.sim.errors import OtherAccess, WorkItemId
from portable.sim.values import Active, LoopMasks, Value

# What the simulator checks and how it schedules, and the context that changes it.

Schedule = Literal["random", "oldest", "newest", "round_robin", "held"]
SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)

_SEED: Final = "PORTABLE_SIM_SEED"


Completion = Literal["late", "early", "random"]
Turns = Literal["random", "first", "last"]


def _seed() -> int:
    text = os.environ.get(_SEED, "0")
    if not text.strip().isdecimal():
        raise LaunchError(f"{_SEED} is {text!r}; it must be a number from 0")
    return int(text)


def _word(variable: str, words: tuple[str, ...]) -> Any:
    text = os.environ.get(variable, words[0])
    if text not in words:
        raise LaunchError(f"{variable} is {text!r}; it must be one of {', '.join(words)}")
    return text


_schedule: Final = partial(_word, "PORTABLE_SIM_SCHEDULE", SCHEDULES)
_completion: Final = partial(_word, "PORTABLE_SIM_COMPLETION", get_args(Completion))
_turns: Final = partial(_word, "PORTABLE_SIM_TURNS", get_args(Turns))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a kernel is simulated.

    Attributes
    ----------
    bounds : bool
        Report an index out of bounds. Switched off, such reads give 0 and such writes do nothing.
    uninitialised : bool
        Report a read of memory never written.
    races : bool
        Report unordered accesses by different work-items, one of them a plain write or beside an
        atomic one.
    divergence : bool
        Report a barrier or another collective operation that not all of its work-items reach.
    uniform : bool
        Report a value that was said to be uniform and is not.
    promises : bool
        Report operands that the IR promises not to be negative, or to be zeros, and are not.
    copies : bool
        Report accesses to memory that an asynchronous copy still reads or writes.
    waits : bool
        Report a wait that no running workgroup can end. Switched off, the launch ends
        there.
    seed : int
        Of the order in which workgroups run; ``PORTABLE_SIM_SEED`` gives the default.
    schedule : {"random", "oldest", "newest", "round_robin", "held"}
        Which of the workgroups that can go on is next: any; the one that started first, or last;
        the one that has waited longest; any but one, which is held back as long as another can go
        on (the one that starts as number `seed` modulo their number, once it has made its first
        atomic operation). ``PORTABLE_SIM_SCHEDULE`` gives the default.
    completion : {"late", "early", "random"}
        When asynchronous copies and multiplications are done: as late as a wait for them allows,
        at once, or at any time between; ``PORTABLE_SIM_COMPLETION`` gives the default.
    turns : {"random", "first", "last"}
        Which part of a workgroup goes on where several that wait for each other can: any, that of
        the lowest work-items, or that of the highest; ``PORTABLE_SIM_TURNS`` gives the default.
    resident : int
        How many workgroups run at once; another starts only when one of them has ended.
    patience : int
        Turns that may pass without a change to memory while loops still change their own
        variables, before that counts as an endless wait.
    """

    bounds: bool = True
    uninitialised: bool = True
    races: bool = True
    divergence: bool = True
    uniform: bool = True
    promises: bool = True
    copies: bool = True
    waits: bool = True
    seed: int = field(default_factory=_seed)
    schedule: Schedule = field(default_factory=_schedule)
    completion: Completion = field(default_factory=_completion)
    turns: Turns = field(default_factory=_turns)
    resident: int = 4
    patience: int = 100_000


_CURRENT: ContextVar[Settings | None] = ContextVar("portable_sim_settings", default=None)


def current() -> Settings:
    """The settings in force in this context."""
    return _CURRENT.get() or Settings()


@contextmanager
def checks(**changes: bool | int | str) -> Iterator[Settings]:
    """Change some settings for the launches made inside a ``with`` block.

    Parameters
    ----------
    **changes : bool, int or str
        Attributes of `Settings`, such as ``races=False`` or ``seed=7``.
    """
    settings = replace(current(), **changes)  # type: ignore[arg-type]
    token = _CURRENT.set(settings)
    try:
        yield settings
    finally:
        _CURRENT.reset(token)


# What is known of a kernel before it is launched.

_BESIDE: Final = ("bulk.", "mbarrier.", "tensor.", "wgmma.")
"""Instructions of what runs beside the work-items."""

_COPIES: Final = s.CopyTile | s.CopyVector | s.BulkCopy

_SWIZZLE_BYTES: Final = 1024
"""Where a local array begins: a multiple of the widest pattern of swizzles."""


class Survey:
    """What launches of a kernel share.

    Attributes
    ----------
    written : frozenset of Array
        Global arrays that it writes.
    storing, copying, ordered, proxied : bool
        Whether it writes memory, copies asynchronously, has ordered atomics, fences, mbarriers or
        barriers of a part, has instructions of the asynchronous proxy.
    mbarriers : dict
        By local array and element, the number of an mbarrier.
    """

    def __init__(self, kernel: Kernel) -> None:
        statements = list(all_statements(kernel.body))
        instructions = [x for x in statements if isinstance(x, s.Instruction)]
        self._kernel = kernel
        self.written = kernel.written
        self.proxied = any(x.name.startswith(_BESIDE) for x in instructions)
        self.storing = any(isinstance(y, Array) for x in statements for y in x.written())
        self.copying = self.proxied or any(isinstance(x, _COPIES) for x in statements)
        self.ordered = self.proxied or any(
            isinstance(x, s.Fence)
            or (isinstance(x, s.Atomic) and x.order != "relaxed")
            or (isinstance(x, s.Barrier) and x.meeting > 0)
            for x in statements
        )
        self.mbarriers = self._mbarriers(instructions)

    def _mbarriers(self, instructions: list[s.Instruction]) -> dict[tuple[Array, int], int]:
        used = {
            array
            for x in instructions
            if x.name.startswith("mbarrier.")
            for array, _ in x.addresses
        }
        arrays = [a for a in self._kernel.arrays if a in used]
        elements = [(a, i) for a in arrays for i in range(prod(a.shape))]
        return {element: number for number, element in enumerate(elements)}

    @cached_property
    def addresses(self) -> dict[Array, int]:
        """Where local arrays begin, in bytes."""
        addresses, end = {}, _SWIZZLE_BYTES
        for array in self._kernel.arrays:
            if array.space == "local" and array.layout is not None:
                addresses[array] = end
                size = array.layout.size * array.dtype.itemsize
                end += -(-size // _SWIZZLE_BYTES) * _SWIZZLE_BYTES
        return addresses


# -- launch ----------------------------------------------------------------------------------------


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


# The interface of a running workgroup that the simulator's lower modules need.


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
