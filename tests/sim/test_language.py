"""Kernels as users write them: what a report says and where it points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import sim
from portable.sim.errors import OutOfBoundsError, RaceError


@pt.kernel
def shifted(x: Any, y: Any) -> None:
    i = kl.global_id(0)
    y[i] = x[i + 1]


@pt.kernel
def running_sum(ticket: Any, flags: Any, partial: Any, x: Any, *, ORDER: Any) -> None:
    """Each workgroup adds its element to the sum of the lower tickets'."""
    if kl.local_id(0) == 0:
        mine = kl.atomic_add(ticket, 0, 1)
        before = 0
        if mine > 0:
            while kl.atomic_load(flags, mine - 1, order=ORDER) == 0:
                pass
            before = partial[mine - 1]
        partial[mine] = before + x[mine]
        kl.atomic_store(flags, mine, 1, order="release")


@pt.kernel
def all_write_one(x: Any) -> None:
    x[0] = 1


@pytest.fixture(autouse=True)
def on_the_simulator() -> Any:
    with pt.use("simulator"):
        yield


def _line_of(text: str) -> int:
    """The first line of this file, so of a kernel, that holds a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, line in enumerate(lines) if text in line)


def test_a_statement_that_races_with_itself() -> None:
    with pytest.raises(RaceError, match="one of them alone"):
        all_write_one[8, 4](np.zeros(8, np.float32))


def test_a_report_quotes_the_users_line() -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(OutOfBoundsError) as caught:
        shifted[8, 4](x, np.zeros_like(x))
    fault = caught.value
    assert fault.location.file == __file__
    assert fault.location.line == _line_of("x[i + 1]")
    assert f"{__file__}:{fault.location.line}:" in str(fault)
    assert "y[i] = x[i + 1]" in str(fault)
    assert (fault.array, fault.index, fault.work_items[0].global_id) == ("x", (8,), (7, 0, 0))
    shifted[7, 1](x, np.zeros_like(x))


@pytest.mark.parametrize("seed", range(3))
def test_tickets_need_acquire(seed: int) -> None:
    n = 9
    x = np.arange(n, dtype=np.int32)

    def launch(order: str) -> Any:
        ticket, flags, partial = (np.zeros(n, np.int32) for _ in range(3))
        running_sum[4 * n, 4](ticket, flags, partial, x, ORDER=order)
        return partial

    with sim.checks(seed=seed):
        assert (launch("acquire") == np.cumsum(x)).all()
        with pytest.raises(RaceError) as caught:
            launch("relaxed")
    assert caught.value.location.line == _line_of("before = partial")
    assert caught.value.other is not None
    assert caught.value.other.location.line == _line_of("partial[mine] =")
