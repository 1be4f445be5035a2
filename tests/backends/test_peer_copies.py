"""Writing into other GPUs' memory, with a CuPy that notes what it is asked for."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from socket import gethostname
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from portable.errors import DeviceFaultError
from portable_backends.cuda import nccl, peers
from portable_backends.cuda.peers import Offer, opened


class _RuntimeError(RuntimeError):
    """As CuPy raises for what CUDA refuses."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Runtime:
    """What `cupy.cuda.runtime` is asked for."""

    is_hip = False
    CUDARuntimeError = _RuntimeError

    def __init__(self, noted: list[Any]) -> None:
        self.noted = noted
        self.refused: set[bytes] = set()
        self.status = 704

    def getDevice(self) -> int:  # noqa: N802 - CuPy's name
        return 0

    def ipcOpenMemHandle(self, handle: bytes, flags: int) -> int:  # noqa: N802
        if handle in self.refused:
            raise _RuntimeError(1)
        return 1000 * handle[0]

    def ipcCloseMemHandle(self, base: int) -> None:  # noqa: N802
        self.noted.append(("closed", base))

    def deviceEnablePeerAccess(self, peer: int) -> None:  # noqa: N802
        self.noted.append(("enabled", peer))
        raise _RuntimeError(self.status)

    def memcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802
        self.noted.append(("copied", target, source, size, stream))


class _Stream:
    ptr = 5

    def record(self) -> Any:
        return "event"

    def wait_event(self, event: Any) -> None:
        pass


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> _Runtime:
    found = _Runtime([])
    cuda: Any = ModuleType("cupy.cuda")
    cuda.runtime = found
    cuda.Device = lambda index: _Device()
    cuda.Stream = lambda **_: _Stream()
    cuda.get_current_stream = _Stream
    module: Any = ModuleType("cupy")
    module.cuda = cuda
    module.zeros = lambda count, kind: _array(7, count * 4)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return found


class _Device(nullcontext[None]):
    def synchronize(self) -> None:
        pass


def _array(address: int, size: int) -> Any:
    return SimpleNamespace(data=SimpleNamespace(ptr=address), nbytes=size, dtype="int32")


def _offer(number: int, host: str | None = None, process: int = -1, device: int = 1) -> Offer:
    return Offer(host or gethostname(), process, device, bytes([number]), 10, (0, 64))


def test_processes_open_each_others_memory_until_it_is_given_up(runtime: _Runtime) -> None:
    places = opened([_offer(1, process=os.getpid(), device=0), _offer(2), _offer(3)])
    assert places is not None
    assert places.addresses == [(10, 74), (2000, 2064), (3000, 3064)]
    assert not runtime.noted
    del places
    assert runtime.noted == [("closed", 2000), ("closed", 3000)]


def test_threads_let_copies_go_straight(runtime: _Runtime) -> None:
    places = opened([_offer(1, process=os.getpid()), _offer(2, process=os.getpid(), device=0)])
    assert places is not None
    assert places.addresses == [(10, 74), (10, 74)]
    assert runtime.noted == [("enabled", 1)]
    runtime.status = 217  # there is no way from one to the other
    assert opened([_offer(1, process=os.getpid())]) is None


def test_memory_that_cannot_be_written_to(runtime: _Runtime) -> None:
    assert opened([_offer(1), _offer(2, host="elsewhere")]) is None
    runtime.refused.add(bytes([2]))
    assert opened([_offer(1), _offer(2)]) is None
    assert runtime.noted == [("closed", 1000)]


class _Driver:
    """What the driver is asked for."""

    def __init__(self, noted: list[Any]) -> None:
        self.noted = noted
        self.status = 0

    def cuStreamWriteValue32_v2(self, stream: Any, address: Any, value: Any, flags: Any) -> int:  # noqa: N802
        self.noted.append(("told", stream.value, address.value, value.value))
        return self.status

    def cuStreamWaitValue32_v2(self, stream: Any, address: Any, value: Any, flags: Any) -> int:  # noqa: N802
        self.noted.append(("waited", stream.value, address.value, value.value))
        return self.status


@pytest.fixture
def driver(runtime: _Runtime, monkeypatch: pytest.MonkeyPatch) -> _Driver:
    found = _Driver(runtime.noted)
    monkeypatch.setattr(peers, "driver", lambda: found)
    return found


def _part(rank: int, noted: list[Any]) -> Any:
    """One of two, whose words are at 500."""

    def meet(*args: Any) -> None:
        noted.append(("met", args[-1]))

    names = SimpleNamespace(NCCL_INT32=2, NCCL_SUM=0)
    library = SimpleNamespace(allReduce=meet, abort=lambda: noted.append("aborted"))
    part = nccl._Part(names, library, rank=rank, size=2)
    part._words = SimpleNamespace(
        data=SimpleNamespace(ptr=500), shape=(2, 2), itemsize=4, device=nullcontext()
    )
    return part


def _offers(rank: int) -> list[tuple[Offer, Offer]]:
    """Of a part in this process and of one in another, with arrays and words."""
    own = _offer(1, process=os.getpid(), device=0), _offer(4, process=os.getpid(), device=0)
    other = _offer(2), _offer(3)
    return [own, other] if rank == 0 else [other, own]


def test_nothing_is_gathered_before_all_are_ready(runtime: _Runtime, driver: _Driver) -> None:
    write = _part(0, runtime.noted).writer(_offers(0))
    assert write is not None
    runtime.noted.clear()
    for x in (_array(74, 8), _array(74, 8)):
        write.gather(x, 1)()
    copied = ("copied", 2064, 74, 8, 5)
    assert runtime.noted == [("met", 5), copied, ("met", 5)] * 2


def test_who_is_told_says_when_it_is_ready(runtime: _Runtime, driver: _Driver) -> None:
    """Words of the other device are at 3000: those of being ready, then those of having written."""
    part = _part(0, runtime.noted)
    write = part.writer(_offers(0))
    runtime.noted.clear()
    write.broadcast(_array(74, 8), 1, 0)()
    copied = ("copied", 2064, 74, 8, 5)
    assert runtime.noted == [("waited", 5, 504, 1), copied, ("told", 5, 3008, 1)]
    runtime.noted.clear()
    write.broadcast(_array(74, 8), 1, 1)()
    assert runtime.noted == [("told", 5, 3000, 2), ("waited", 5, 512, 2)]
    runtime.noted.clear()
    part.abort()
    assert [x[2] for x in runtime.noted[1:]] == [3000, 3008]
    assert all(x[3] > 2**29 for x in runtime.noted[1:])


def test_signals_that_the_driver_refuses(runtime: _Runtime, driver: _Driver) -> None:
    refused = _part(1, runtime.noted)
    driver.status = 801
    assert refused.writer(_offers(1)) is None
    driver.status = 0
    write = refused.writer(_offers(1))
    assert write is not None
    driver.status = 700
    with pytest.raises(DeviceFaultError, match="error 700"):
        write.broadcast(_array(74, 8), 1, 0)
