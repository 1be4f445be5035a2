"""Which workgroup runs when: every schedule does what it says, and each kernel comes to its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.errors import LaunchError
from sim.build import K, binary, compare, global_array

TICKET, FLAG, DATA = (global_array(n, dt.int32) for n in ("ticket", "flag", "data"))


def turns(schedule: str, *, seed: int = 0, resident: int = 2) -> list[int]:
    """Which of five workgroups made each of fifteen atomic operations."""
    k = K(TICKET, DATA, workgroup=1)
    for _ in range(3):
        k.store(DATA, k.atomic("add", TICKET, 0, 1), k.group)
    data = np.zeros(15, np.int32)
    with sim.checks(seed=seed, schedule=schedule, resident=resident):
        sim.run(k.build(), (5, 1, 1), [np.zeros(1, np.int32), data])
    return [int(x) for x in data]


def thrice(order: list[int]) -> list[int]:
    return [x for x in order for _ in range(3)]


def test_the_oldest_runs_to_its_end() -> None:
    found = turns("oldest")
    assert found == thrice(found[::3])


def test_the_newest_runs_to_its_end_before_older_ones() -> None:
    first, *later = turns("oldest")[::3]
    assert turns("newest") == thrice([*later, first])


def test_round_robin() -> None:
    order = turns("oldest")[::3]
    assert turns("round_robin", resident=5) == order * 3


@pytest.mark.parametrize("seed", range(5))
def test_one_is_held_back_once_it_has_drawn_its_ticket(seed: int) -> None:
    victim = turns("oldest", seed=seed)[3 * seed]
    found = turns("held", seed=seed, resident=5)
    assert [i for i, x in enumerate(found) if x == victim][1:] == [13, 14]
    assert seed > 0 or found[0] == victim


@pytest.mark.parametrize("schedule", sim.SCHEDULES)
def test_a_wait_that_counts_its_rounds_lets_others_run(schedule: str) -> None:
    """The loop's variable changes, so that it never looks like waiting."""
    k = K(TICKET, FLAG, workgroup=1)
    n = k.variable("n")
    k.assign(n, 0)
    mine = k.atomic("add", TICKET, 0, 1)
    with k.loop():
        with k.when(compare("eq", k.atomic("load", FLAG, 0, order="acquire"), mine)):
            k.stop()
        k.assign(n, binary("add", n, 1))
    k.atomic("add", FLAG, 0, 1, order="release")
    flag = np.zeros(1, np.int32)
    with sim.checks(schedule=schedule, resident=3):
        sim.run(k.build(), (6, 1, 1), [np.zeros(1, np.int32), flag])
    assert flag[0] == 6


def test_schedule_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_SIM_SCHEDULE", "newest")
    assert sim.Settings().schedule == "newest"
    monkeypatch.setenv("PORTABLE_SIM_SCHEDULE", "fair")
    with pytest.raises(LaunchError, match="'fair'; it must be one of random, oldest"):
        sim.Settings()


def test_schedules_are_orders_of_the_same_workgroups() -> None:
    found: dict[str, Any] = {s: turns(s, seed=3) for s in sim.SCHEDULES}
    assert len({tuple(x) for x in found.values()}) == len(sim.SCHEDULES)
    assert all(sorted(x) == thrice(list(range(5))) for x in found.values())
