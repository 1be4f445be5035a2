"""Which workgroup runs when: a seeded shuffle, so many at once, those that wait left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from portable.sim import report
from portable.sim.launch import Launch
from portable.sim.steps import Pause, Running
from portable.sim.workgroup import Workgroup

__all__ = ["run_workgroups"]


@dataclass(slots=True)
class _Runner:
    """A workgroup that has started and not ended.

    If `pause` is stuck, it can only repeat itself until global memory changes from `seen` on.
    """

    workgroup: Workgroup
    rest: Running
    pause: Pause | None = None
    seen: int = 0

    def ready(self, version: int) -> bool:
        """Whether running it may do something new."""
        return self.pause is None or not self.pause.stuck or self.seen != version


def _order(launch: Launch, chance: random.Random) -> list[int]:
    """The workgroups' numbers, the last to start first."""
    order = list(range(launch.group_count))
    chance.shuffle(order)
    return order


def run_workgroups(launch: Launch, body: Callable[[Workgroup], Running]) -> None:
    """Run all workgroups to their ends, or to the first fault.

    At most `Settings.resident` run at once, and one starts only when another has ended: no
    workgroup may rely on one that has not started. A turn lasts until the workgroup pauses.
    """
    chance = random.Random(launch.settings.seed)  # noqa: S311  (an order, no secret)
    unstarted = _order(launch, chance)
    running: list[_Runner] = []
    idle_turns, version = 0, 0
    while running or unstarted:
        while unstarted and len(running) < launch.settings.resident:
            w = launch.start(unstarted.pop())
            running.append(_Runner(w, body(w)))
        ready = [r for r in running if r.ready(launch.version)]
        if not ready:
            _stuck(launch, running)
            return
        runner = chance.choice(ready)
        ended = _turn(launch, runner)
        if ended:
            running.remove(runner)
        idle_turns = 0 if ended or launch.version != version else idle_turns + 1
        version = launch.version
        if idle_turns > launch.settings.patience:
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
    others = len(running) - 1
    raise report.endless_wait(
        runner.workgroup,
        runner.pause.site,
        f"endless wait: this loop changes nothing, and none of the {others} other running "
        "workgroups can make what it waits for come true; it is waited in",
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
