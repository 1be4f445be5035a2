"""Bulk copies and groups of copies as they are lowered, and with faults planted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.errors import SimulationError
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.tiles import lower
from portable.sim.errors import (
    AsyncCopyError,
    EndlessWaitError,
    RaceError,
    UninitialisedReadError,
)
from sim.build import K, binary, compare, const
from sim.test_copies import OUT, X, bulk, commit, pipeline, wait
from tests.support.compilers import CUDA
from tests.support.faults import Change, planted, renamed, without

_COMPLETIONS = ["early", "late", "random"]


def outward() -> K:
    """Two rounds of a slot that work-items write and one of them copies out."""
    k = K(X, workgroup=4)
    tile = k.local("tile", (4,), dt.int32)
    with k.range(0, 2) as i:
        k.store(tile, k.lid, binary("add", k.lid, i))
        k.barrier()
        with k.when(compare("eq", k.lid, 0)):
            start = binary("mul", i, 4)
            k.add(s.BulkCopy(X, (start,), tile, (const(0),), const(4), None, None, k.loc))
            commit(k)
            wait(k)
        k.barrier()
    return k


def _in(kernel: Kernel, memory: Any = None) -> Any:
    memory = np.arange(16, dtype=np.int32).reshape(4, 4) if memory is None else memory
    found = np.zeros(16, np.int32)
    sim.run(kernel, (1, 1, 1), (memory, found))
    return found


def _out(kernel: Kernel) -> Any:
    found = np.zeros(8, np.int32)
    sim.run(kernel, (1, 1, 1), (found,))
    return found


@pytest.mark.parametrize("completion", _COMPLETIONS)
@pytest.mark.parametrize("emitted", [True, False])
def test_bulk_copies_are_right_whenever_they_land(emitted: bool, completion: str) -> None:
    kernels = (bulk().build(), outward().build())
    inward, out = (lower(x, CUDA) if emitted else x for x in kernels)
    with sim.checks(completion=completion):
        assert (_in(inward) == np.arange(16)).all()
        assert _out(out).tolist() == [0, 1, 2, 3, 1, 2, 3, 4]


def test_bulk_copies_that_do_not_fit_are_loops() -> None:
    memory = np.arange(17, dtype=np.int32)[1:].reshape(4, 4)
    assert memory.ctypes.data % 16
    assert (_in(lower(bulk().build(), CUDA), memory) == memory.reshape(-1)).all()


def without_barriers(x: s.Statement) -> s.Block:
    return () if isinstance(x, s.Barrier) else (x,)


def without_fences(x: s.Statement) -> s.Block:
    fences = ("mbarrier.init_fence", "proxy.fence.all")
    return () if isinstance(x, s.Instruction) and x.name in fences else (x,)


def twice_announced(x: s.Statement) -> s.Block:
    return (x, x) if isinstance(x, s.Instruction) and x.name == "mbarrier.expect_tx" else (x,)


_FAULTS: dict[str, tuple[Any, Change, type[SimulationError], str]] = {
    "nobody arrives": (_in, without("mbarrier.arrive"), EndlessWaitError, "completes the phase"),
    "bytes not announced": (
        _in, without("mbarrier.expect_tx"), SimulationError, "completes the phase|still working on"
    ),
    "bytes announced twice": (_in, twice_announced, EndlessWaitError, "completes the phase"),
    "no barrier": (_in, without_barriers, RaceError, "race on slots"),
    "mbarriers not made": (
        _in, without("mbarrier.init"), UninitialisedReadError, "read of slots.*nothing has written"
    ),
    "the engine does not see the mbarrier": (
        _in, without_fences, AsyncCopyError, "asynchronous proxy"
    ),
    "not waited for": (_in, without("mbarrier.wait"), AsyncCopyError, "read of tile.*working on"),
    "the engine does not see what is stored": (
        _out, without("proxy.fence"), AsyncCopyError, "read of tile.*asynchronous proxy"
    ),
    "stores not waited for": (_out, without("bulk.wait"), AsyncCopyError, "write of tile"),
    "stores in no group": (_out, without("bulk.commit"), AsyncCopyError, "write of tile"),
}  # fmt: skip


@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.parametrize("fault", _FAULTS)
def test_planted_faults_are_reported(fault: str, completion: str) -> None:
    run, change, kind, text = _FAULTS[fault]
    kernel = lower((bulk() if run is _in else outward()).build(), CUDA)
    with sim.checks(completion=completion), pytest.raises(kind, match=text):
        run(planted(kernel, change))


def test_an_arrival_that_may_come_before_the_bytes_are_announced() -> None:
    """Without the barrier of a wait a phase may be over before its copies."""
    kernel = lower(bulk().build(), CUDA)

    def early(x: s.Statement) -> s.Block:
        if not isinstance(x, s.For):
            return (x,)
        body = tuple(y for y in x.body if not isinstance(y, s.Barrier))
        return (s.For(x.var, x.start, x.stop, x.step, body, x.loc),)

    with pytest.raises(AsyncCopyError, match="may be over too early"):
        _in(planted(kernel, early))


# -- groups of copies -----------------------------------------------------------------------------


@pytest.mark.parametrize("completion", _COMPLETIONS)
@pytest.mark.parametrize("emitted", [True, False])
def test_copies_in_groups_are_right_whenever_they_land(emitted: bool, completion: str) -> None:
    kernel = pipeline(1, True)[0].build()
    memory, found = np.arange(8, dtype=np.int32), np.zeros(4, np.int32)
    with sim.checks(completion=completion):
        sim.run(kernel, (1, 1, 1), (memory, found), target=CUDA if emitted else None)
    assert found.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pending", "barrier", "kind"), [(2, True, AsyncCopyError), (1, False, RaceError)]
)
def test_copies_in_groups_gone_wrong(pending: int, barrier: bool, kind: Any) -> None:
    arrays = [np.arange(8, dtype=np.int32), np.zeros(4, np.int32)]
    k, _, load = pipeline(pending, barrier)
    if not barrier:
        load = _reading_a_neighbour(k)
    with pytest.raises(kind) as caught:
        sim.run(k.build(), (1, 1, 1), arrays, target=CUDA)
    assert caught.value.location.line == load


def _reading_a_neighbour(k: K) -> int:
    """Adds a load of what another work-item copied; gives its line."""
    value = k.load(k.arrays[0], 0, binary("xor", k.lid, 1))
    line = k.line
    k.store(OUT, k.lid, value)
    return line


def test_no_groups_are_closed() -> None:
    kernel = lower(pipeline(1, True)[0].build(), CUDA)
    arrays = [np.arange(8, dtype=np.int32), np.zeros(4, np.int32)]
    with pytest.raises(AsyncCopyError, match="read of tile"):
        sim.run(planted(kernel, without("cp.async.commit")), (1, 1, 1), arrays)
    with pytest.raises(AsyncCopyError, match="read of tile"):
        sim.run(planted(kernel, renamed("cp.async.wait", "cp.async.commit")), (1, 1, 1), arrays)
