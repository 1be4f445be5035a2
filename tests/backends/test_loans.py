"""Memory of other libraries is kept until work that was enqueued on it is done."""

from __future__ import annotations

import sys
import weakref
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import namespace, registry
from portable.backend import ArrayView, Executable
from portable.backend.queues import Mark
from portable.interchange import libraries, tensors
from portable.interchange.libraries import exchanged
from portable.lang.launch.launch import Launcher
from portable.lang.launch.packing import ArgumentText, Packing
from portable.lang.launch.plan import Bound, Text
from portable_backends.common.loans import Loans
from portable_backends.cuda.backend import CuPyDevice
from portable_backends.cuda.jax_arrays import view_code
from tests.support.compilers import CUDA


class Array:
    """An array of another library, which uses its memory again as soon as it is gone."""


class Point(Mark):
    """A point that a device has yet to reach."""

    reached = False

    def wait(self) -> None:
        self.reached = True

    def seconds_after(self, earlier: Any) -> float:
        return 0.0


def lent(loans: Loans) -> tuple[Any, weakref.ref[Array]]:
    array = Array()
    return loans.loan(array), weakref.ref(array)


def test_an_array_that_was_let_go_is_kept_until_launches_on_it_are_done() -> None:
    marks: list[Point] = []

    def mark() -> Point:
        marks.append(Point())
        return marks[-1]

    loans = Loans(mark)
    held, array = lent(loans)
    loans.settle()
    assert not marks
    del held
    loans.settle()
    assert array() is not None
    later, other = lent(loans)
    marks[0].wait()
    del later
    assert array() is not None  # nobody has looked yet
    loans.settle()
    assert array() is None
    assert other() is not None
    marks[1].wait()
    loans.loan(Array())
    assert other() is None


def test_no_mark_is_made_while_a_queue_is_captured() -> None:
    marks: list[Point | None] = [None, None, Point()]
    loans = Loans(lambda: marks.pop(0))
    held, array = lent(loans)
    reached = marks[-1]
    assert reached is not None
    del held
    for _ in range(2):
        loans.settle()
        assert array() is not None
    assert not marks
    reached.wait()
    loans.settle()
    assert array() is None


class Theirs(Array):
    """An array of another library in the memory of a GPU, which counts how often it is asked."""

    dtype = np.dtype(np.float32)

    def __init__(self) -> None:
        self.asked = 0

    def __dlpack_device__(self) -> tuple[int, int]:
        self.asked += 1
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self


class Ours:
    """CuPy's array over one of theirs, or over its memory."""

    nbytes, shape, dtype, strides = 4, (1,), Theirs.dtype, (4,)

    @classmethod
    def from_dlpack(cls, array: Any) -> Ours:
        assert array.__dlpack_device__() == (2, 0)
        return cls(array.__dlpack__(stream=1))

    def __init__(self, *made_of: Any) -> None:
        self._made_of = made_of
        self.data = SimpleNamespace(ptr=0, device_id=0)


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events that are made on a GPU that is not there."""
    events: list[Any] = []

    def event(disable_timing: bool) -> Any:
        assert disable_timing
        events.append(SimpleNamespace(done=False, record=lambda stream: None))
        return events[-1]

    stream = SimpleNamespace(is_capturing=lambda: False)
    cupy: Any = ModuleType("cupy")
    cupy.ndarray, cupy.from_dlpack = Ours, Ours.from_dlpack
    cupy.cuda = SimpleNamespace(
        Device=lambda index: nullcontext(),
        Event=event,
        MemoryPointer=lambda *made_of: made_of,
        UnownedMemory=lambda *made_of: made_of,
        get_current_stream=lambda index: stream,
        runtime=SimpleNamespace(getDevice=lambda: 0),
    )
    api: Any = ModuleType("cupy_backends.cuda.api")
    api.runtime = cupy.cuda.runtime
    for module in (cupy, api):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    device = CuPyDevice("cuda", 0, CUDA)
    monkeypatch.setitem(registry.registry._known, "cuda:0", device)
    monkeypatch.setattr(registry.registry, "_at_work", {})
    return events


def test_arrays_of_one_call_are_one_loan(events: list[Any]) -> None:
    arrays = Theirs(), Theirs()
    gone = [weakref.ref(x) for x in arrays]

    def work(*given: Any) -> Any:
        assert [type(x) for x in given] == [Ours, int, Ours]
        assert not events
        return given[2]

    assert exchanged(work, (arrays[0], 3, arrays[1]), {}) is arrays[1]
    assert [x.asked for x in arrays] == [1, 1]
    assert len(events) == 1
    del arrays
    exchanged(lambda _: None, (Theirs(),), {})
    assert all(x() is not None for x in gone)
    events[0].done = True
    exchanged(lambda _: None, (Theirs(),), {})
    assert all(x() is None for x in gone)


class ArrayImpl(Array):
    """An array as JAX's, which says what is asked of it in turn."""

    dtype, _pjrt_layout, sharding = np.dtype(np.float32), "{0}", "gpu:0"

    def __init__(self, address: int, shape: tuple[int, ...] = (8,)) -> None:
        self.unsafe_buffer_pointer = lambda: address
        self.shape = shape


class Capsule:
    """What keeps the memory of such an array, and a stream from reading it too early."""

    def __init__(self, array: ArrayImpl, stream: int) -> None:
        self.of = array, stream


@pytest.fixture
def jaxlib(events: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions in C++ that such arrays come with."""
    library: Any = ModuleType("jaxlib_that_is_not_there")
    library.buffer_to_dlpack_managed_tensor = Capsule
    monkeypatch.setattr(ArrayImpl, "__module__", library.__name__)
    monkeypatch.setitem(sys.modules, library.__name__, library)


def test_launches_of_jaxs_arrays_wait_for_them_and_keep_them(jaxlib: None) -> None:
    marks: list[Point] = []
    kept: list[Any] = []
    launched: list[Any] = []

    def mark() -> Point:
        marks.append(Point())
        return marks[-1]

    loans = Loans(mark)
    monitored = loans.take_back
    loans.take_back = lambda array: (kept.append(array), monitored(array))  # type: ignore[method-assign, assignment]
    arrays = ArrayImpl(32), ArrayImpl(64)
    code = view_code(arrays[0], 0, loans, lambda: 7)
    assert code is not None
    text = Text()
    text.unpack(arrays)
    for name in ("a0", "a1"):
        text.require_array(name, code, ArrayView(np.dtype("f4"), (8,), (4,), 32, 32))
    text.require_constants({})
    words = ArgumentText("a{}_handle".format, "a{}_offset".format, "a{}".format, text.named)

    def launch(groups: Any, arguments: list[Any]) -> None:
        assert not kept
        launched.append(arguments)

    text.launch(Bound(launch, (1, 1, 1), Packing([None, None], [(0, 0), (1, 1)])), words)
    again = text.compiled(2)
    assert again(arrays, {})
    assert launched == [[32, 64]]
    assert [capsule.of for capsule in kept[0]] == [(arrays[0], 7), (arrays[1], 7)]
    assert len(kept) == len(marks) == 1
    assert not again((arrays[0], ArrayImpl(32, (4,))), {})
    arrays[1]._pjrt_layout = "{1}"
    assert not again(arrays, {})
    assert len(launched) == 1


class Tensor:
    """What a tensor of PyTorch tells of itself on a GPU."""

    dtype, shape, device = np.dtype(np.float32), (1,), "a GPU"
    is_cuda, requires_grad = True, False
    layout = "strided"

    def is_conj(self) -> bool:
        return False

    is_neg = is_conj

    def get_device(self) -> int:
        return 0

    def data_ptr(self) -> int:
        return 32

    def stride(self) -> tuple[int, ...]:
        return (1,)

    __dlpack_device__ = get_device


class Recorded(Executable):
    """An executable that notes on which streams it is launched."""

    streams: ClassVar[list[Any]] = []

    def launch(self, groups: Any, arguments: Any, stream: int | None = None) -> None:
        self.streams.append(stream)


@pt.kernel
def set_to_one(x):
    x[kl.global_id(0)] = 1.0


def test_arrays_of_two_libraries_are_recognised_whichever_comes_first(
    events: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = registry.registry._known["cuda:0"]
    torch: Any = ModuleType("torch")
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 7)
    torch.is_grad_enabled, torch.strided, torch.Tensor = (lambda: True), "strided", Tensor
    torch.nn = SimpleNamespace(Parameter=Tensor)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(tensors._kinds, Tensor, True)
    monkeypatch.setitem(tensors._places, Tensor.device, (2, 0))
    monkeypatch.setitem(namespace._candidates, Ours, (device,))
    monkeypatch.setitem(libraries._other, Ours, False)
    monkeypatch.setattr(CuPyDevice, "compile", lambda *_: Recorded())
    monkeypatch.setattr(CuPyDevice, "on_stream", lambda *_: nullcontext())
    own = Ours()
    for order in ((Tensor(), own), (own, Tensor())):
        launcher = pt.kernel(set_to_one.python)[1]
        for array in order:
            for _ in range(5):
                launcher(array)
        with monkeypatch.context() as patched:
            patched.setattr(Launcher, "_launched", None)
            for array in order:
                launcher(array)
        assert Recorded.streams[-2:] == [None if array is own else 7 for array in order]
