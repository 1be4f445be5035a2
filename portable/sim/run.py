"""Running a kernel in the simulator."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities
from portable.errors import LaunchError
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.places import end_ranges
from portable.lang.tiles import lower
from portable.sim import (
    atomics,
    binding,
    bulk_copies,
    collectives,
    control,
    fragments,
    instructions,
    matrix_units,
    mbarriers,
    report,
    transfers,
)
from portable.sim.binding import Arguments
from portable.sim.launch import Launch, Schedule, Settings, Survey, current
from portable.sim.steps import Builder
from portable.sim.workgroup import Pause, Running, Workgroup

# Which workgroup runs when: started in a seeded shuffle, so many at once; those that wait rest.
#
# What is right in one order may be wrong in another, and some orders are unlikely to come up by
# chance: a workgroup that is far behind or far ahead of the others. So besides random turns there
# are schedules that bring these about (`Settings.schedule`).

_TIRED: Final = 100
"""Turns without a change to memory after which any workgroup may run: those that count the rounds
of a wait always can."""

_DRAWN: Final = 2
"""Turns after which a workgroup has made its first atomic operation, such as drawing a ticket."""


@dataclass(slots=True)
class _Runner:
    """A workgroup that has started and not ended.

    If `pause` is stuck, it can only repeat itself until global memory changes from `seen` on.
    `number` counts starts; `turns` is how many it has had, `latest` when the last one was.
    """

    workgroup: Workgroup
    rest: Running
    number: int
    pause: Pause | None = None
    seen: int = 0
    turns: int = 0
    latest: int = -1

    def ready(self, version: int) -> bool:
        """Whether running it may do something new."""
        return self.pause is None or not self.pause.stuck or self.seen != version


Choice = Callable[[list[_Runner], random.Random, int], _Runner]
"""From those that can go on, chance and the number of the one held back to the next."""


def _held(ready: list[_Runner], chance: random.Random, victim: int) -> _Runner:
    """The victim until it has drawn its ticket, then anyone else."""
    others = []
    for runner in ready:
        if runner.number != victim:
            others.append(runner)
        elif runner.turns < _DRAWN:
            return runner
    return chance.choice(others or ready)


_CHOICES: Final[dict[Schedule, Choice]] = {
    "random": lambda ready, chance, _: chance.choice(ready),
    "oldest": lambda ready, *_: ready[0],
    "newest": lambda ready, *_: ready[-1],
    "round_robin": lambda ready, *_: min(ready, key=lambda runner: runner.latest),
    "held": _held,
}


def _order(launch: Launch, chance: random.Random) -> list[int]:
    """The workgroups' numbers, the last to start first."""
    order = list(range(launch.group_count))
    chance.shuffle(order)
    return order


def run_workgroups(
    launch: Launch, arguments: Arguments, body: Callable[[Workgroup], Running]
) -> None:
    """Run all workgroups to their ends, or to the first fault.

    At most `Settings.resident` run at once, and one starts only when another has ended: no
    workgroup may rely on one that has not started. A turn lasts until the workgroup pauses.

    Parameters
    ----------
    launch : Launch
    arguments : Arguments
    body : callable
        What runs the kernel's statements in a workgroup.
    """
    settings = launch.settings
    chance = random.Random(settings.seed)  # noqa: S311  (an order, no secret)
    unstarted = _order(launch, chance)
    choice, victim = _CHOICES[settings.schedule], settings.seed % launch.group_count
    running: list[_Runner] = []
    idle_turns, version, turn = 0, 0, 0
    while running or unstarted:
        while unstarted and len(running) < settings.resident:
            w = Workgroup(launch, arguments, unstarted.pop())
            running.append(_Runner(w, body(w), launch.group_count - len(unstarted) - 1))
        ready = [r for r in running if r.ready(launch.version)]
        if not ready:
            _stuck(launch, running)
            return
        free = idle_turns > _TIRED
        runner = chance.choice(ready) if free else choice(ready, chance, victim)
        runner.turns, runner.latest, turn = runner.turns + 1, turn, turn + 1
        ended = _turn(launch, runner)
        if ended:
            running.remove(runner)
        idle_turns = 0 if ended or launch.version != version else idle_turns + 1
        version = launch.version
        if idle_turns > settings.patience:
            _out_of_patience(launch, runner)
            return


def _turn(launch: Launch, runner: _Runner) -> bool:
    """Let a workgroup run until it pauses; whether it has ended."""
    try:
        runner.pause = next(runner.rest)
    except StopIteration:
        return True
    runner.seen = launch.version
    return False


def _stuck(launch: Launch, running: list[_Runner]) -> None:
    if not launch.settings.waits:
        return
    runner = running[0]
    assert runner.pause is not None
    others = f"none of the {len(running) - 1} other" if len(running) > 1 else "no other"
    raise report.endless_wait(
        runner.workgroup,
        runner.pause.site,
        f"endless wait: this loop changes nothing, and {others} running workgroup can make what it "
        "waits for come true; it is waited in",
        "a workgroup may wait only for one that started before it, such as one with a lower ticket",
    )


def _out_of_patience(launch: Launch, runner: _Runner) -> None:
    if not launch.settings.waits:
        return
    assert runner.pause is not None
    raise report.endless_wait(
        runner.workgroup,
        runner.pause.site,
        f"no workgroup has changed memory or ended for {launch.settings.patience} turns; "
        "it is looped in",
        "raise `patience` if this loop does end: portable.sim.checks(patience=...)",
    )


# -- run -------------------------------------------------------------------------------------------

STATEMENTS = (
    atomics,
    bulk_copies,
    collectives,
    control,
    fragments,
    instructions,
    matrix_units,
    mbarriers,
    transfers,
)
"""The modules that register how statements run."""


class Simulation:
    """A kernel ready to be simulated; safe under threads.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    target : Capabilities, optional
        The device that it would run on: it is lowered as for it first. None, and devices that run
        the IR, for the kernel as it stands.

    Attributes
    ----------
    kernel : Kernel
        What runs: the kernel, lowered if it was.
    """

    def __init__(self, kernel: Kernel, target: Capabilities | None = None) -> None:
        if target is not None and target.dialect != "ir":
            kernel = lower(kernel, target)
        kernel = end_ranges(kernel)
        self.kernel: Final = kernel
        builder = Builder(kernel)
        self._survey = Survey(kernel)
        self._body = builder.block(kernel.body)
        self._places = [site.location for site in builder.sites]

    def _whole(self, w: Workgroup) -> Running:
        yield from self._body(w)
        transfers.finish(w)

    def run(
        self,
        groups: tuple[int, int, int],
        arguments: Sequence[Any],
        *,
        settings: Settings | None = None,
        uninitialised: Collection[str] = (),
        sizes: tuple[int, ...] = (),
    ) -> None:
        """Run it; parameters are those of `run`, and `sizes` the work-items along each dimension.

        By default these are those of whole workgroups.
        """
        if min(groups) < 1:
            raise LaunchError(f"a launch needs workgroups along each dimension, not {groups}")
        how = settings or current()
        launch = Launch(self.kernel, self._survey, self._places, groups, how, sizes)
        with np.errstate(all="ignore"):
            bound = binding.bind(launch, arguments, frozenset(uninitialised))
            try:
                run_workgroups(launch, bound, self._whole)
            finally:
                binding.keep_written(bound)


def run(
    kernel: Kernel,
    groups: tuple[int, int, int],
    arguments: Sequence[Any],
    *,
    settings: Settings | None = None,
    uninitialised: Collection[str] = (),
    target: Capabilities | None = None,
) -> None:
    """Run a kernel on NumPy arrays and report what is wrong with it.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    groups : (int, int, int)
        Workgroups along each dimension.
    arguments : sequence
        One per parameter: a NumPy array or a number. Arrays may overlap.
    settings : Settings, optional
        What to check and how to schedule; by default those in force (see `checks`).
    uninitialised : collection of str
        Names of array parameters whose contents count as never written.
    target : Capabilities, optional
        As of `Simulation`.

    Raises
    ------
    SimulationError
        One of the classes in `portable.sim.errors`, at the first fault.
    """
    Simulation(kernel, target).run(
        groups, arguments, settings=settings, uninitialised=uninitialised
    )
