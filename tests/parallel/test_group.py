"""Groups: what members do together is what one would do alone, and nobody waits in vain."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from time import sleep
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import parallel, registry
from portable.backend import Collectives, Device
from portable.backend.collectives import Writer
from portable.conv import conv2d, prepare_shared
from portable.errors import DeviceError, DeviceMismatchError, ShapeError
from portable.namespace import on_device
from portable.parallel import Member, ParallelError

SIZE = 3


def here(member: Member, x: Any) -> Any:
    return pt.asarray(x, device=member.device)


def together(device: Device, function: Any, **settings: Any) -> list[Any]:
    return parallel.group([device] * SIZE, **settings).run(function)


def test_sums(device: Device) -> None:
    def work(member: Member) -> Any:
        x = here(member, np.arange(6, dtype=np.float32).reshape(3, 2) + member.rank)
        total = pt.to_numpy(member.all_reduce(x))
        part = pt.to_numpy(member.reduce_scatter(x, "max"))
        least = member.all_reduce(x, "min", out=x)
        assert least is x
        return total, part, pt.to_numpy(x)

    start = np.arange(6, dtype=np.float32).reshape(3, 2)
    for rank, (total, part, least) in enumerate(together(device, work)):
        assert np.array_equal(total, 3 * start + 3)
        assert np.array_equal(part, start[rank : rank + 1] + 2)
        assert np.array_equal(least, start)


def test_gathers_and_messages(device: Device) -> None:
    def work(member: Member) -> Any:
        x = here(member, np.full((2, 2), member.rank, np.int32))
        gathered = pt.to_numpy(member.all_gather(x))
        outs = [member.device.empty((2, 2), pt.int32) for _ in range(member.size)]
        parts = [pt.to_numpy(y) for y in member.start_gather(x, outs).wait()]
        member.send(x, (member.rank + 1) % member.size)
        received = pt.to_numpy(member.recv((member.rank - 1) % member.size))
        root = pt.to_numpy(member.broadcast(x, 1))
        member.barrier()
        later = here(member, np.full(3, member.rank, np.float32))
        last = pt.to_numpy(member.start_broadcast(later, 2).wait())
        assert member.all_to_all([f"{member.rank}>{to}" for to in range(SIZE)]) == [
            f"{source}>{member.rank}" for source in range(SIZE)
        ]
        assert (last == 2).all()
        again = member.prepare_gather(x, outs)
        for more in (10, 20):
            x[...] = here(member, np.full((2, 2), more + member.rank, np.int32))
            found = np.concatenate([pt.to_numpy(y) for y in again().wait()])
            assert np.array_equal(found, gathered + more)
        opened = member.opened("pairs", (4, 2), pt.int32, parts=2)
        opened.array[...] = member.device.from_numpy(np.full((4, 2), member.rank, np.int32))
        one, other = opened.start_broadcast(0, 2), opened.start_broadcast(1, 1)
        assert (pt.to_numpy(other.wait()) == 1).all()
        assert (pt.to_numpy(one.wait()) == 2).all()
        assert pt.to_numpy(opened.array)[:, 0].tolist() == [2, 2, 1, 1]
        return gathered, np.concatenate(parts), received, root

    for rank, (gathered, parts, received, root) in enumerate(together(device, work)):
        assert gathered[:, 0].tolist() == [0, 0, 1, 1, 2, 2]
        assert np.array_equal(parts, gathered)
        assert (received == (rank - 1) % SIZE).all()
        assert (root == 1).all()


def test_convolutions_are_shared_out(device: Device) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 2, 6, 6)).astype(np.float32)
    w = random.standard_normal((3, 2, 3, 3)).astype(np.float32)

    def work(member: Member) -> Any:
        own = here(member, x[member.part(6)])
        settings = {"padding": 1, "algorithm": "winograd2"}
        plan = prepare_shared(member, own.shape, here(member, w), pieces=2, **settings)
        return pt.to_numpy(plan(own))

    def alone(x: Any, w: Any) -> Any:
        there = (pt.asarray(a, device=device) for a in (x, w))
        return pt.to_numpy(conv2d(*there, padding=1, algorithm="winograd2"))

    found = together(device, work)
    assert all(np.array_equal(each, found[0]) for each in found)
    # Sums may come in another order for fewer images: within the error of the algorithm.
    assert (np.abs(found[0] - alone(x, w)) <= 2e-6 * alone(np.abs(x), np.abs(w))).all()


def test_layers_are_gathered_behind_each_other_again_and_again(device: Device) -> None:
    random = np.random.default_rng(1)
    w = random.standard_normal((2, 2, 3, 3)).astype(np.float32)
    images = random.standard_normal((4, 2, 5, 5)).astype(np.float32)

    def work(member: Member) -> Any:
        x = here(member, images[member.part(4)].copy())
        plans = [prepare_shared(member, x.shape, here(member, w), pieces=1) for _ in range(2)]
        outs = [here(member, np.empty(plan.result_shape, np.float32)) for plan in plans]

        def layers() -> None:
            for transfer in [p.start(x, out=out) for p, out in zip(plans, outs, strict=True)]:
                transfer.wait()

        again = member.replay(layers)
        single = plans[0].prepare(x, out=outs[0])
        for factor in (1, 2, 3):
            x[...] = here(member, factor * images[member.part(4)])
            again()
        found = [pt.to_numpy(out) for out in outs]
        x[...] = here(member, images[member.part(4)])
        single()
        return *found, pt.to_numpy(outs[0])

    alone = pt.to_numpy(conv2d(pt.asarray(images, device=device), pt.asarray(w, device=device)))
    for first, second, last in parallel.group([device] * 2).run(work):
        assert np.allclose(first, 3 * alone, rtol=1e-5, atol=1e-5)
        assert np.array_equal(first, second)
        assert np.allclose(last, alone, rtol=1e-5, atol=1e-5)


def test_one_member_has_its_own(device: Device, monkeypatch: Any) -> None:
    def work(member: Member) -> Any:
        x = here(member, np.arange(4, dtype=np.float32))
        out = here(member, np.empty(4, np.float32))
        with monkeypatch.context() as patch:
            patch.setattr(member.device, "to_numpy", None)  # nothing goes through the host
            member.start_gather(x, [x], agreed=True).wait()
            member.start_all_reduce(x, agreed=True).wait()
            member.start_broadcast(x, agreed=True).wait()
            member.all_gather(member.reduce_scatter(member.all_reduce(x)), out=out)
        return pt.to_numpy(member.broadcast(x)), pt.to_numpy(out)

    ((x, out),) = parallel.group([device]).run(work)
    assert np.array_equal(x, np.arange(4))
    assert np.array_equal(out, np.arange(4))


def test_shares_are_even() -> None:
    def work(member: Member) -> Any:
        return len(range(8)[member.part(8)])

    assert parallel.group(["simulator"] * SIZE).run(work) == [3, 3, 2]


def test_members_that_mean_different_things() -> None:
    def work(member: Member) -> None:
        member.all_reduce(np.zeros(2 + (member.rank == 1)))

    with pytest.raises(ParallelError, match=r"member 1: all_reduce sum \(3,\) float64"):
        together(pt.device("simulator"), work)


def test_a_member_that_fails_ends_it_for_all() -> None:
    def work(member: Member) -> None:
        if member.rank == 2:
            raise KeyError("lost")
        member.barrier()

    with pytest.raises(KeyError, match="lost"):
        together(pt.device("simulator"), work)


def test_a_member_that_returns_early_is_not_waited_for() -> None:
    def work(member: Member) -> None:
        if member.rank:
            member.recv(0)

    with pytest.raises(ParallelError, match="waits for member 0, which has returned"):
        together(pt.device("simulator"), work)


def test_a_member_that_is_late_is_named() -> None:
    others_are_done = threading.Barrier(SIZE)

    def work(member: Member) -> str:
        said = ""
        if member.rank != 1:
            with pytest.raises(ParallelError) as error:
                member.barrier()
            said = str(error.value)
        others_are_done.wait()
        return said

    said = together(pt.device("simulator"), work, patience=0.1)
    assert "waited 0.1 s for members [1] of 3" in said[0]


def test_mistakes() -> None:
    with pytest.raises(DeviceError, match="at least one device"):
        parallel.group([])

    def uneven(member: Member) -> None:
        member.reduce_scatter(np.zeros(4))

    with pytest.raises(ShapeError, match="4 rows are not shared evenly by 3"):
        together(pt.device("simulator"), uneven)

    def strange(member: Member) -> None:
        member.all_gather(np.zeros(2), out=np.zeros(2))

    with pytest.raises(ShapeError, match="out is"):
        together(pt.device("simulator"), strange)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda m: m.all_reduce(np.ones(2), "sun"), "all_reduce by 'sun'; there are sum, max, min"),
        (lambda m: m.reduce_scatter(np.ones(3), "Max"), "reduce_scatter by 'Max'"),
        (lambda m: m.send(np.ones(2), 3), "send to member 3 of a group of 3, whose ranks are 0 to"),
        (lambda m: m.recv(-1), "recv from member -1"),
        (lambda m: m.broadcast(np.ones(2), root=4), "broadcast from member 4"),
        (lambda m: m.start_broadcast(np.ones(2), root="0"), "start_broadcast from member '0'"),
        (lambda m: m.all_reduce([1, 2]), "list is no array"),
    ],
)
def test_what_members_refuse(call: Any, reason: str) -> None:
    with pytest.raises((ParallelError, TypeError), match=reason):
        together(pt.device("simulator"), call)


def test_arrays_whose_memory_a_member_cannot_take(device: Device) -> None:
    x, group = np.ones(2, np.float32), parallel.group([device, device])
    try:
        on_device(device, x)
    except DeviceMismatchError:
        with pytest.raises(DeviceMismatchError, match=r"portable\.asarray\(x, device="):
            group.run(lambda member: member.all_reduce(x))
    else:
        sums = group.run(lambda member: member.all_reduce(x))
        assert [pt.to_numpy(y).tolist() for y in sums] == [[2, 2], [2, 2]]


def test_a_group_of_no_devices() -> None:
    with pytest.raises(TypeError, match=r"made of devices, .* not of int 3"):
        parallel.group(3)


class _Noted(Collectives):
    """A part of a vendor's library, which notes who has joined; later members are late."""

    name = "noted"

    def __init__(self, joined: list[int], rank: int) -> None:
        self.joined, self.rank = joined, rank

    def _join(self, *args: object) -> None:
        sleep(0.02 * self.rank)
        self.joined.append(self.rank)

    all_reduce = reduce_scatter = all_gather = broadcast = _join

    def _start(self, *args: object) -> Any:
        self._join()
        return lambda: None

    start_gather = start_broadcast = _start


class _Copying(_Noted):
    """One that may write into others' memory, or find out that it cannot."""

    def __init__(self, joined: list[int], rank: int, offers: bool, writes: bool) -> None:
        super().__init__(joined, rank)
        self._offers, self._writes = offers, writes
        self.opened = 0

    def offer(self, arrays: Any) -> Any:
        return self.rank if self._offers else None

    def writer(self, offers: Any) -> Any:
        assert list(offers) == [0, 1]
        self.opened += 1
        return _Writes() if self._writes else None


class _Writes(Writer):
    """What writes nothing."""

    def gather(self, x: Any, number: int) -> Any:
        return lambda: None

    def broadcast(self, x: Any, number: int, root: int) -> Any:
        return lambda: None


def noting(monkeypatch: Any, kind: Any = _Noted) -> tuple[list[int], list[Device]]:
    """Two devices with a library that notes who has joined its collectives."""
    joined: list[int] = []
    parts = [kind(joined, rank) for rank in range(2)]
    devices = [pt.device("simulator"), pt.device("simulator:arrays")]
    monkeypatch.setattr(devices[0], "collectives", lambda _: parts)
    return joined, devices


@pytest.mark.parametrize("refuses", [None, "offers", "writes"])
def test_all_members_write_into_others_memory_or_none(
    monkeypatch: Any, refuses: str | None
) -> None:
    def part(joined: list[int], rank: int) -> Collectives:
        able = {"offers": True, "writes": True}
        if refuses is not None and rank == 1:
            able[refuses] = False
        return _Copying(joined, rank, **able)

    joined, devices = noting(monkeypatch, part)

    def work(member: Member) -> None:
        x = np.zeros(2, np.float32)
        start = member.prepare_gather(x, [x, x])
        assert [start().wait() for _ in range(2)] == [[x, x]] * 2
        found = [member.opened("x", (2 * n, 3), pt.int32, parts=2) for n in (1, 1, 2)]
        kept[member.rank].extend(x.array for x in found)
        assert found[0].start_broadcast(1, 0).wait().shape == (1, 3)

    kept: list[list[Any]] = [[], []]
    group = parallel.group(devices)
    for _ in range(2):
        group.run(work)
    assert len(joined) == (0 if refuses is None else 12)
    for first, again, larger, *_ in kept:
        assert (first is again) == (refuses is None)
        assert larger.shape == (4, 3)


@pytest.mark.parametrize("parts", [0, 3])
def test_an_opened_array_is_cut_evenly(monkeypatch: Any, parts: int) -> None:
    _, devices = noting(monkeypatch)
    with pytest.raises(ShapeError, match=rf"shape \(4, 2\) is not cut into {parts} even parts"):
        parallel.group(devices).run(lambda member: member.opened("x", (4, 2), "int32", parts=parts))


def test_transfers_have_arrived_when_all_have_enqueued_them(monkeypatch: Any) -> None:
    joined, devices = noting(monkeypatch)

    def work(member: Member) -> list[int]:
        x = np.zeros(2, np.float32)
        seen: list[int] = []
        for collective in (
            lambda: member.start_broadcast(x, agreed=True).wait(),
            lambda: member.start_all_reduce(x, agreed=True).wait(),
            lambda: member.start_gather(x, [x, x], agreed=True).wait(),
            lambda: member.all_reduce(x),
        ):
            collective()
            seen.append(len(joined))
            member.exchange(None)
        return seen

    assert parallel.group(devices).run(work) == [[2, 4, 6, 8]] * 2


def test_nobody_waits_as_transfers_begin_but_before_programs_are_loaded(monkeypatch: Any) -> None:
    joined, devices = noting(monkeypatch)
    ready: dict[str, Any] = {}
    begun = threading.Event()
    for device in devices:

        def before_waits(call: Any, name: str = device.name) -> Any:
            ready[name] = call
            return nullcontext()

        monkeypatch.setattr(device, "before_waits", before_waits)

    def work(member: Member) -> list[int]:
        x = np.zeros(2, np.float32)
        if member.rank == 1:
            assert begun.wait(10)  # members that wait for each other at once never come here
        first = member.start_all_reduce(x, agreed=True)
        second = member.start_gather(x, [x, x], agreed=True)
        mine = joined.count(0)
        begun.set()
        ready[member.device.name]()
        loaded = len(joined)
        first.wait()
        second.wait()
        return [mine, loaded]

    assert parallel.group(devices).run(work) == [[2, 4]] * 2


def test_a_collective_that_a_member_does_not_join_is_an_error(monkeypatch: Any) -> None:
    _, devices = noting(monkeypatch)

    def work(member: Member) -> None:
        if member.rank == 0:
            member.start_broadcast(np.zeros(2, np.float32), agreed=True)

    with pytest.raises(ParallelError, match="member 1 has returned"):
        parallel.group(devices).run(work)


@pytest.mark.parametrize("name", [d.name for d in registry.devices_of_backend("sycl")])
def test_members_on_a_sycl_device_share_no_record_of_events(name: str) -> None:
    """That of dpctl is not safe under threads: members that shared one were seen to stand still."""
    from dpctl.utils import SequentialOrderManager

    device = registry.device(name)
    queue = pt.asarray(np.zeros(1, np.float32), device=device).sycl_queue

    def work(member: Member) -> Any:
        member.barrier()  # so that none has ended before another begins
        return SequentialOrderManager[queue]

    found = [*together(device, work), SequentialOrderManager[queue]]
    assert len({id(order) for order in found}) == SIZE + 1
