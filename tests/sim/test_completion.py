"""When copies land and whose turn it is: what the settings say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.backend import Capabilities
from portable.errors import LaunchError
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.sim.errors import AsyncCopyError
from sim.build import K
from sim.test_copies import OUT, X, commit, copy, region, wait
from tests.support.compilers import CUDA
from tests.support.faults import planted
from tests.support.matrices import operands


def hasty() -> K:
    """Overwrites what it copies, and reads what it copied before its wait and after it."""
    k = K(X, OUT, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    k.store(tile, k.lid, 7)
    k.barrier()
    copy(k, region(tile, 0, extents=(4,)), region(X, 0, extents=(4,)))
    commit(k)
    k.store(OUT, k.lid, k.load(tile, k.lid))
    k.store(X, k.lid, 9)
    wait(k)
    k.barrier()
    k.store(OUT, e.Binary("add", k.lid, e.Const(4, dt.int32)), k.load(tile, k.lid))
    return k


@pytest.mark.parametrize("target", [None, CUDA])
@pytest.mark.parametrize(("completion", "seen"), [("early", (1, 1)), ("late", (7, 9))])
def test_copies_land_when_they_should(
    completion: str, seen: tuple[int, int], target: Capabilities | None
) -> None:
    x, out = np.ones(4, np.int32), np.zeros(8, np.int32)
    kernel = hasty().build()
    with sim.checks(completion=completion, copies=False, races=False):
        sim.run(kernel, (1, 1, 1), (x, out), target=target)
    assert out.tolist() == [seen[0]] * 4 + [seen[1]] * 4
    with sim.checks(completion=completion), pytest.raises(AsyncCopyError):
        sim.run(kernel, (1, 1, 1), (x, out), target=target)


def test_copies_land_at_random() -> None:
    found = set()
    for seed in range(20):
        x, out = np.ones(4, np.int32), np.zeros(8, np.int32)
        with sim.checks(completion="random", seed=seed, copies=False, races=False):
            sim.run(hasty().build(), (1, 1, 1), (x, out))
        found.add((int(out[0]), int(out[4])))
    assert found == {(1, 1), (7, 9)}


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_SIM_COMPLETION", "early")
    monkeypatch.setenv("PORTABLE_SIM_TURNS", "last")
    assert (sim.Settings().completion, sim.Settings().turns) == ("early", "last")
    monkeypatch.setenv("PORTABLE_SIM_TURNS", "fair")
    with pytest.raises(LaunchError, match="'fair'; it must be one of random, first, last"):
        sim.Settings()


def _waits(turns: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Who gets past an mbarrier, in order: f for a filled slot, e for an empty one."""
    from sim.test_apart import lowered

    def told(x: s.Statement) -> s.Block:
        if not isinstance(x, s.Instruction) or x.name != "mbarrier.wait":
            return (x,)
        word = "f" if x.addresses[0][0].name == "filled" else "e"
        first = e.Compare("eq", _modulo(), e.Const(0, dt.int32))
        return x, s.If(first, (s.Print((word,), x.loc),), (), x.loc)

    a, b = operands(64, 64, 320, dt.float16, "rr")
    arguments: list[Any] = [a, b, np.zeros((64, 64), np.float32)]
    with sim.checks(turns=turns, completion="early", seed=1):
        sim.run(planted(lowered("engine"), told), (1, 1, 1), arguments)
    return "".join(capsys.readouterr().out.split())


def _modulo() -> e.Expression:
    return e.Binary("mod", e.WorkItem("local_id", 0, dt.int32), e.Const(128, dt.int32))


def test_whose_turn_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Those who multiply are the lowest work-items, so that each slot is used when it is there."""
    assert _waits("first", capsys).startswith("efef")
    assert _waits("last", capsys).startswith("eeef")
