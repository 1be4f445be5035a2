"""Workgroups that wait for one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.errors import LaunchError
from portable.sim.errors import EndlessWaitError
from sim.build import K, binary, compare, global_array

FLAG, DATA, TICKET = (global_array(n, dt.int32) for n in ("flag", "data", "ticket"))


def zeros(n: int = 64) -> Any:
    return np.zeros(n, np.int32)


def run(k: K, *arguments: Any, groups: int = 1) -> None:
    sim.run(k.build(), (groups, 1, 1), arguments)


def _chain(after: int) -> tuple[K, int]:
    """Tickets in order; each waits for the flag of the ticket so far before or after it."""
    k = K(TICKET, FLAG, DATA, workgroup=4)
    mine = k.variable("mine")
    k.assign(mine, 0)
    with k.when(compare("eq", k.lid, 0)):
        k.assign(mine, k.atomic("add", TICKET, 0, 1))
    turn = k.uniform(mine)
    line = 0
    with k.when(compare("gt", turn, 0)), k.when(compare("eq", k.lid, 0)):
        line = k.spin_until(FLAG, binary("add", turn, after), 1)
    k.barrier()
    k.store(DATA, binary("add", binary("mul", turn, 4), k.lid), turn)
    k.barrier()
    with k.when(compare("eq", k.lid, 0)):
        k.atomic("store", FLAG, turn, 1, order="release")
    return k, line


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("resident", [1, 2, 7])
def test_tickets(seed: int, resident: int) -> None:
    k, _ = _chain(-1)
    data = zeros()
    with sim.checks(seed=seed, resident=resident):
        run(k, zeros(), zeros(), data, groups=16)
    assert (data == np.repeat(np.arange(16), 4)).all()


def test_waiting_for_a_later_ticket() -> None:
    k, line = _chain(1)
    with pytest.raises(EndlessWaitError, match=f"kernel.py:{line}:1.*none of the") as caught:
        run(k, zeros(), zeros(), zeros(), groups=4)
    assert caught.value.location.line == line
    assert caught.value.work_items[0].local_id == (0, 0, 0)
    with sim.checks(waits=False):
        run(k, zeros(), zeros(), zeros(), groups=4)


def test_a_lone_workgroup_that_waits() -> None:
    k = K(FLAG, workgroup=1)
    k.spin_until(FLAG, 0, 1)
    with pytest.raises(EndlessWaitError, match="and no other running workgroup can make what"):
        run(k, zeros(), groups=1)


def test_waiting_for_more_workgroups_than_run_at_once() -> None:
    k = K(FLAG, workgroup=1)
    k.atomic("add", FLAG, 0, 1, order="release")
    k.spin_until(FLAG, 0, 6)
    with sim.checks(resident=6):
        run(k, zeros(), groups=6)
    with sim.checks(resident=5), pytest.raises(EndlessWaitError):
        run(k, zeros(), groups=6)


def test_waiting_in_a_workgroup_of_one() -> None:
    for value in (0, 1):
        k = K(FLAG, workgroup=1)
        k.spin_until(FLAG, 0, value)
        if value:
            with pytest.raises(EndlessWaitError):
                run(k, zeros())
        else:
            run(k, zeros())


def test_a_lock() -> None:
    """Spinning on an exchange that changes nothing is waiting too."""
    for unlock in (True, False):
        k = K(FLAG, DATA, workgroup=1)
        with k.loop():
            was = k.atomic("exchange", FLAG, 0, 1, order="acquire")
            with k.when(compare("eq", was, 0)):
                k.stop()
        k.store(DATA, 0, binary("add", k.load(DATA, 0), 1))
        if unlock:
            k.atomic("store", FLAG, 0, 0, order="release")
            data = zeros()
            run(k, zeros(), data, groups=8)
            assert data[0] == 8
        else:
            with pytest.raises(EndlessWaitError):
                run(k, zeros(), zeros(), groups=8)


def test_a_lock_by_compare_and_exchange() -> None:
    k = K(FLAG, DATA, workgroup=1)
    with k.loop():
        was = k.atomic("compare_exchange", FLAG, 0, 1, 0, order="acquire")
        with k.when(compare("eq", was, 0)):
            k.stop()
    k.store(DATA, 0, binary("add", k.load(DATA, 0), 1))
    k.atomic("store", FLAG, 0, 0, order="release")
    data = zeros()
    run(k, zeros(), data, groups=8)
    assert data[0] == 8


def test_a_wait_that_counts() -> None:
    """A loop that changes a variable is no proof of an endless wait; patience ends it."""

    def kernel(limit: int) -> K:
        k = K(FLAG, workgroup=1)
        n = k.variable("n")
        k.assign(n, 0)
        with k.loop():
            with k.when(compare("eq", n, limit)):
                k.stop()
            k.assign(n, binary("add", n, 1))
            with k.when(compare("ne", k.atomic("load", FLAG, 0), 0)):
                k.stop()
        return k

    with sim.checks(patience=200):
        run(kernel(50), zeros())
        with pytest.raises(EndlessWaitError, match="patience"):
            run(kernel(-1), zeros())


def test_a_loop_that_does_nothing() -> None:
    k = K(workgroup=2)
    with k.loop():
        k.let(k.lid)
    with pytest.raises(EndlessWaitError):
        run(k)


def test_every_seed_is_an_order_and_each_the_same_one() -> None:
    k = K(TICKET, DATA, workgroup=1)
    mine = k.atomic("add", TICKET, 0, 1)
    k.store(DATA, mine, k.group)

    def order(seed: int) -> list[int]:
        data = zeros(12)
        with sim.checks(seed=seed):
            run(k, zeros(), data, groups=12)
        return [int(g) for g in data]

    assert order(1) == order(1)
    assert sorted(order(1)) == list(range(12))
    assert order(1) != order(2)


def test_seed_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_SIM_SEED", "17")
    assert sim.Settings().seed == 17
    monkeypatch.setenv("PORTABLE_SIM_SEED", "often")
    with pytest.raises(LaunchError, match="'often'; it must be a number"):
        sim.Settings()
