"""Arrays in OpenCL buffers, and how OpenCL's errors become ours."""

from __future__ import annotations

import ctypes
import struct
import warnings
from dataclasses import replace
from pathlib import Path
from threading import Thread
from time import time_ns
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portable.array
from portable import dtypes, kernel, profile, registry
from portable import lang as kl
from portable.errors import (
    CompileError,
    DeviceError,
    LaunchError,
    OutOfMemoryError,
    ShapeError,
)
from portable_backends.cpu import CPUBackend
from portable_backends.cpu.numpy_device import CPUDevice

cl = pytest.importorskip("pyopencl")
opencl_runtime = pytest.importorskip("portable_backends.opencl.runtime")
opencl_capabilities = pytest.importorskip("portable_backends.opencl.capabilities")
opencl_compress = pytest.importorskip("portable_backends.opencl.capabilities")
opencl_probes = pytest.importorskip("portable_backends.opencl.probes")
opencl_boxes = pytest.importorskip("portable_backends.opencl.boxes")
opencl_warpgroups = pytest.importorskip("portable_backends.opencl.capabilities")
_POCL = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu"


@pytest.fixture(params=[d.name for d in registry.devices_of_backend("opencl")])
def opencl(request: pytest.FixtureRequest) -> Any:
    return registry.device(request.param)


INDICES = [
    np.s_[1],
    np.s_[-1],
    np.s_[1:3],
    np.s_[::-1, ::2],
    np.s_[..., None, 1:3],
    np.s_[None],
    np.s_[2:2],
    np.s_[:, -1],
    np.s_[3:0:-2, 5],
    np.s_[-1, -1, 0],
    np.s_[..., 0],
    np.s_[10:, 1],
    np.int64(2),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_views_are_numpys(opencl: Any, index: Any) -> None:
    array = np.arange(48, dtype=np.int32).reshape(4, 6, 2)
    view = opencl.from_numpy(array)[index]
    assert (view.shape, view.size, view.ndim) == (
        array[index].shape,
        array[index].size,
        array[index].ndim,
    )
    np.testing.assert_array_equal(opencl.to_numpy(view), array[index])


def test_views_of_views_and_transposes(opencl: Any) -> None:
    array = np.arange(48, dtype=np.int32).reshape(4, 12)
    view = opencl.from_numpy(array)[1:, ::-1].T[2::3, 1:]
    np.testing.assert_array_equal(opencl.to_numpy(view), array[1:, ::-1].T[2::3, 1:])


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (4, "out of range"),
        (-5, "out of range"),
        ((0, 0, 0), "3 indices"),
        ((..., ...), "one ellipsis"),
        ("a", "index of type str"),
        (1.0, "index of type float"),
    ],
)
def test_wrong_indices(opencl: Any, index: Any, said: str) -> None:
    made = opencl.from_numpy(np.zeros((4, 3), np.float32))
    with pytest.raises(ShapeError, match=said):
        made[index]


def test_memory_of_dropped_arrays_is_used_again(opencl: Any) -> None:
    made = opencl.empty((1 << 16,), dtypes.float32)
    first = made.buffer.int_ptr
    del made
    assert opencl.empty((1 << 16,), dtypes.float32).buffer.int_ptr == first


def test_its_namespace_is_portable_array(opencl: Any) -> None:
    made = opencl.empty((2, 3), dtypes.float32)
    assert opencl.namespace() is portable.array
    assert made.__array_namespace__() is portable.array


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        ("OUT_OF_RESOURCES", LaunchError, "less local memory"),
        ("INVALID_WORK_GROUP_SIZE", LaunchError, "smaller workgroup"),
        ("MEM_OBJECT_ALLOCATION_FAILURE", OutOfMemoryError, "no room"),
        ("INVALID_BUFFER_SIZE", OutOfMemoryError, "no room"),
        ("INVALID_KERNEL_ARGS", LaunchError, "INVALID_KERNEL_ARGS"),
    ],
)
def test_errors_are_ours(code: str, expected: type[Exception], said: str) -> None:
    from portable_backends.opencl.executable import launch_error

    class Failure(cl.Error):  # type: ignore[name-defined,misc]
        code = 0

    Failure.code = getattr(cl.status_code, code)
    error = launch_error(Failure(), "launching f")
    assert isinstance(error, expected)
    assert str(error).startswith("launching f")
    assert said in str(error)


_NO_COMPILER = (
    "the OpenCL driver of Abacus has no compiler; under opencl, by name, it loads packages of "
    "compiled kernels"
)


@pytest.mark.parametrize(
    ("version", "compiler", "reason"),
    [
        (f"{_POCL}-generic", True, "PoCL 3.0-rc2 does not know this processor"),
        (f"{_POCL}-znver3", True, ""),
        ("OpenCL 3.0 of another-generic", True, ""),
        (
            "OpenCL 1.2 of another",
            False,
            _NO_COMPILER,
        ),
    ],
)
def test_devices_that_nothing_can_be_built_for_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, version: str, compiler: bool, reason: str
) -> None:
    device = SimpleNamespace(
        name="Abacus", version=version, driver_version="3.0-rc2", compiler_available=compiler
    )
    discovery = pytest.importorskip("portable_backends.opencl.discovery")
    monkeypatch.setattr(discovery, "_listed", lambda: (device,))
    assert discovery.find() == (() if reason else (device,))
    assert discovery.why_none("nothing") == (reason or "nothing")
    if reason:
        monkeypatch.setattr("portable_backends.cpu.native_device.why_not", lambda: "no LLVM")
        backend = CPUBackend()
        assert not backend.devices()
        assert backend.unavailable().reason == f"no LLVM; {reason}"


@kernel
def set_to_one(x: Any) -> None:
    """For the source of a program."""
    x[kl.global_id(0)] = 1


def test_compilers_print_no_remarks(opencl: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """On code that users never wrote; each time another text, so that it is built."""
    program = set_to_one[8, 8].lower(opencl.empty((8,), dtypes.float32)).program
    assert program
    remarkable = f"int remarkable(int x) {{ return x && {time_ns() % 10**9 + 5}; }}\n"
    opencl._runtime.built(replace(program, source=remarkable + program.source))
    assert capfd.readouterr().err == ""


def test_remarks_stay_away_while_any_thread_compiles() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = Thread(target=opencl_probes.quiet.__enter__)
        with opencl_probes.quiet:
            other.start()
            other.join()
        warnings.warn("of the other's", cl.CompilerWarning, stacklevel=1)
        opencl_probes.quiet.__exit__(None, None, None)
        with pytest.raises(cl.CompilerWarning, match="of nobody's"):
            warnings.warn("of nobody's", cl.CompilerWarning, stacklevel=1)


def test_local_memory_that_a_driver_does_not_tell_of(
    monkeypatch: pytest.MonkeyPatch, opencl: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The largest array that it takes; where it refuses them all, what it tells of."""
    device, largest = opencl._runtime.device, opencl_probes.largest_taken
    assert largest(device, 1024, (4096, 2048)) == 4096
    assert largest(device, 4096, (4096, 2048)) == 4096
    monkeypatch.setattr(opencl_probes, "_LOCAL_ARRAY", "__kernel void probe() {{ too large; }}")
    assert largest(device, 1024, (4096, 2048)) == 1024
    assert capsys.readouterr() == ("", "")


def test_what_an_array_may_have_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And kept, unless something else than its size was in the way."""
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    asked: list[int] = []
    ask = opencl_probes.largest_array.__wrapped__
    driver = SimpleNamespace(version="OpenCL 3.0 CUDA 13.0")
    device = SimpleNamespace(name="G", version="OpenCL 3.0", driver_version="1", platform=driver)

    def answer(found: int | None) -> None:
        def taken(*given: Any) -> int:
            asked.append(given[1])
            if found is None:
                raise cl.RuntimeError("no room for a context")
            return found

        monkeypatch.setattr(opencl_probes, "largest_taken", taken)

    answer(None)
    assert ask(device, 48 * 1024) == 48 * 1024
    answer(99 * 1024)
    assert [ask(device, 48 * 1024), ask(device, 48 * 1024)] == [99 * 1024] * 2
    assert asked == [48 * 1024] * 2


def test_lanes_that_a_driver_compresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Asked of a process apart, and once: what ends it, is refused or is wrong is not used."""
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    found = [d for d in registry.devices_of_backend("opencl") if d.capabilities.compressed_bytes]
    if not found:
        pytest.skip("no driver of a processor with AVX-512")
    device, ask = found[0]._runtime.device, opencl_compress.compressed_bytes.__wrapped__
    right = opencl_compress.source()
    assert not opencl_compress.compresses(device, "__kernel void choose() { too large; }")
    assert not opencl_compress.compresses(device, right.replace("(v, m)", "(v, ~m)"))
    assert ask(device) == found[0].capabilities.compressed_bytes
    monkeypatch.setattr(opencl_compress, "compresses", None)
    assert ask(device) == found[0].capabilities.compressed_bytes


def test_what_takes_a_compiler_is_asked_by_who_wants_to_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once, and not by whoever uses a processor for the first time."""
    found = [d for d in registry.devices_of_backend("opencl") if d.capabilities.kind == "cpu"]
    if not found:
        pytest.skip("no driver of a processor")
    asked: list[object] = []

    def answer(device: object) -> int:
        asked.append(device)
        return 64

    monkeypatch.setattr(opencl_capabilities, "compressed_bytes", answer)
    device = found[0]._runtime.device
    can = CPUDevice(device, "cpu:tested").capabilities
    assert asked == []
    assert [can.compressed_bytes, can.compressed_bytes] == [64, 64]
    assert asked == [device]


def test_copies_in_bulk_are_offered_where_they_copy(
    monkeypatch: pytest.MonkeyPatch, opencl: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not where the driver cannot assemble them, as on processors, nor where something is amiss."""
    device, at = opencl._runtime.device, "get_local_id(0)"
    assert opencl_probes.copies(device) == ("bulk" in opencl.capabilities.async_copy)
    for sum_, copied in (("1", True), ("2", False)):
        head = "__kernel void probe(__global uint *x, __global uint *y)"
        source = f"{head} {{ y[{at}] = x[{at}] + {sum_}; }}"
        monkeypatch.setattr(opencl_probes, "_BULK_COPY", source)
        assert opencl_probes.copies(device) == copied
    assert capsys.readouterr() == ("", "")


def test_instructions_come_out_of_their_comments() -> None:
    """In what NVIDIA's OpenCL calls a binary, which is then for those that have them."""
    text = (
        b".version 9.0\n.target sm_90, texmode_independent\n\t//sm_90a wgmma.fence;\n// sm_90\n\0"
    )
    wanted = b".version 9.0\n.target sm_90a, texmode_independent\n\twgmma.fence;\n// sm_90\n\0"
    assert opencl_probes.uncovered(text) == wanted


def test_covered_programs_are_loaded_once_more(
    monkeypatch: pytest.MonkeyPatch, opencl: Any, tmp_path: Path
) -> None:
    """Uncovered, and as such kept; what the driver does not take is the compiler's error."""
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    runtime = opencl._runtime
    loaded: list[bytes] = []
    out = opencl.empty((8,), dtypes.float32)
    lowered = set_to_one[8, 8].lower(out)
    program = lowered.program
    assert program
    program = replace(program, source=program.source + "\n//sm_90a of nobody's\n")
    uncovered = opencl_runtime.uncovered

    def noted(binary: bytes) -> bytes:
        loaded.append(binary)
        return uncovered(binary)  # type: ignore[no-any-return]

    monkeypatch.setattr(opencl_runtime, "uncovered", noted)
    for _ in range(2):
        runtime.compile(program).launch((1, 1, 1), lowered.arguments)
        np.testing.assert_array_equal(opencl.to_numpy(out), 1)
    assert len(loaded) == 1
    monkeypatch.setattr(runtime, "_load", lambda binary: None)
    with pytest.raises(CompileError, match=f"refused what it compiled of {program.entry}"):
        runtime.built(replace(program, source=program.source + "//other"))


def test_warpgroups_are_offered_where_they_multiply(
    monkeypatch: pytest.MonkeyPatch, opencl: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    device, at = opencl._runtime.device, "get_local_id(0)"
    for sum_, multiplied in ((f"4 * x[{at}] + 64", True), (f"4 * x[{at}]", False)):
        head = "__kernel void probe(__global uint *x, __global uint *y)"
        monkeypatch.setattr(opencl_warpgroups, "_SOURCE", f"{head} {{ y[{at}] = {sum_}; }}")
        assert opencl_warpgroups.multiplies(device) == multiplied
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("asked", [opencl_warpgroups, opencl_boxes])
def test_who_asks_for_warpgroups_lives_on(
    monkeypatch: pytest.MonkeyPatch, opencl: Any, asked: Any
) -> None:
    """Where the driver ends the process that it is asked in, as Intel's was seen to do."""
    device, can = opencl._runtime.device, opencl.capabilities
    offered = "tensor" in can.async_copy
    if asked is opencl_warpgroups:
        offered = "wgmma.f16" in can.matrix_units
    name = asked.__name__
    assert opencl_probes.asked_isolated(name, device) is offered
    for status, answer in ((0, True), (1, None), (-6, False)):
        ended = SimpleNamespace(returncode=status)
        monkeypatch.setattr(opencl_probes, "in_process", lambda *given, x=ended: x)
        assert opencl_probes.asked_isolated(name, device) is answer


def test_addresses_are_those_of_kernels_while_anybody_holds_a_buffer(opencl: Any) -> None:
    runtime = opencl._runtime
    addresses = opencl_boxes.Addresses(runtime.context, runtime.gate)
    x, y = (opencl.from_numpy(np.arange(n, dtype=np.int32)) for n in (1000, 3000))
    first = addresses.of(x.buffer)
    assert addresses.of(y.buffer) not in (0, first)
    assert addresses.of(x.buffer) == first
    held = x.buffer.reference_count
    addresses.let_go()
    assert x.buffer.reference_count == held
    alone: Any = cl.Buffer(runtime.context, cl.mem_flags.READ_WRITE, 64)
    addresses.of(alone)
    known = len(addresses._known)
    del alone
    addresses.let_go()
    assert len(addresses._known) == known - 1


def test_buffers_whose_addresses_are_known_make_room(
    monkeypatch: pytest.MonkeyPatch, opencl: Any
) -> None:
    """Where a pool finds none, though it gave up what it had."""
    let_go, pool = list[int](), opencl._memory()

    class Full:
        def allocate(self, size: int) -> Any:
            if not let_go:
                raise cl.MemoryError(SimpleNamespace(code=lambda: -4, what=lambda: ""))
            return pool.allocate(size)

    monkeypatch.setattr(opencl, "_memory", Full)
    monkeypatch.setattr(opencl._runtime.addresses, "let_go", lambda: let_go.append(1))
    assert opencl.empty((3,), dtypes.float32).shape == (3,)
    assert let_go == [1]


def test_work_at_the_same_time_is_done_before_what_follows(opencl: Any) -> None:
    """By a queue beside the current one, which what is beside it shares."""
    x, queues = opencl.from_numpy(np.zeros((2, 1 << 12), np.float32)), []

    def adds(number: int) -> None:
        queues.append(opencl.current_queue())
        for _ in range(50):
            add_one[1 << 12](x[number])

    def beside() -> None:
        opencl._runtime.at_once(lambda: adds(1), lambda: adds(1))

    for call in range(1, 4):
        opencl._runtime.at_once(lambda: adds(0), beside)
        add_one[1 << 12](x[0])
        add_one[1 << 12](x[1])
        expected = np.array([51 * call, 101 * call], np.float32)
        np.testing.assert_array_equal(opencl.to_numpy(x), np.repeat(expected[:, None], 1 << 12, 1))
    assert queues[0] is None
    assert queues[1] is not None
    assert queues == [None, queues[1], queues[1]] * 3


def test_what_follows_waits_for_work_beside_that_broke_off(opencl: Any) -> None:
    x, marks = opencl.from_numpy(np.zeros(1 << 20, np.float32)), []

    def fails() -> None:
        for _ in range(50):
            add_one[1 << 20](x)
        marks.append(opencl.mark())
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        opencl._runtime.at_once(lambda: None, fails)
    opencl._runtime.queue.finish()
    assert marks[0].reached


@pytest.mark.parametrize("llvm", [True, False], ids=["by LLVM", "without llvmlite"])
def test_what_was_captured_is_enqueued_in_order_with_what_is_beside(
    opencl: Any, llvm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not llvm:
        from portable_backends.opencl import replay

        def fails(*_: object, **__: object) -> None:
            raise DeviceError("no llvmlite")

        monkeypatch.setattr(replay.compiler, "object_of", fails)
        monkeypatch.setattr(
            "portable_backends.opencl.runtime.enqueuer", replay.enqueuer.__wrapped__
        )
    x = opencl.from_numpy(np.zeros((2, 1 << 12), np.float32))
    ready = add_one[1 << 12].prepare(x[1])

    def beside() -> None:
        opencl.at_once(lambda: add_one[1 << 12](x[1]), ready)

    def work() -> None:
        y = opencl.empty((1 << 12,), dtypes.float32)
        copy_to[1 << 12](x[0], y)
        opencl._runtime.at_once(lambda: add_one[1 << 12](y), beside)
        copy_to[1 << 12](y, x[0])
        copy_to[1 << 12](x[1], x[1])

    again = opencl.replay(work)
    for call in range(1, 6):
        again()
        junk = opencl.from_numpy(np.full(1 << 12, 7, np.float32))  # not where y was
        expected = np.array([call, 2 * call], np.float32)
        np.testing.assert_array_equal(opencl.to_numpy(x), np.repeat(expected[:, None], 1 << 12, 1))
    assert opencl.to_numpy(junk)[0] == 7
    held = sum(pool.managed_bytes for pool in (opencl._pool, again._captured[1].pool))
    assert opencl.memory().held >= held > opencl._pool.managed_bytes
    outer = opencl.replay(lambda: [again(), again()])
    with profile() as seen:
        outer()
    assert len([x for x in seen.spans if x.entry.kind == "launch"]) == 12
    for _ in range(3):
        outer()
    assert opencl.to_numpy(x)[:, 0].tolist() == [13, 26]


@pytest.mark.parametrize("llvm", [True, False], ids=["by LLVM", "without llvmlite"])
@pytest.mark.parametrize("fails_at", [None, 0, 1, 2, 3, 4])
def test_events_of_a_job_are_let_go_wherever_it_ends(llvm: bool, fails_at: int | None) -> None:
    """By functions in the place of OpenCL's that count events."""
    from portable_backends.opencl import replay

    calls, alive, waited = list[str](), set[int](), list[int | None]()
    pointer, number = ctypes.c_void_p, ctypes.c_uint

    def enqueued(word: str, list_of: Any, event: Any) -> int:
        if len(calls) == fails_at:
            return -5
        calls.append(word)
        waited.append(ctypes.cast(list_of, ctypes.POINTER(pointer))[0] if list_of else None)
        if event:
            alive.add(len(calls))
            ctypes.cast(event, ctypes.POINTER(pointer))[0] = len(calls)
        return 0

    def released(event: int) -> int:
        alive.remove(event)
        return 0

    kinds = ctypes.CFUNCTYPE(
        ctypes.c_int, *[pointer] * 2, number, *[pointer] * 3, number, *[pointer] * 2
    )
    launch = kinds(lambda *given: enqueued("launch", *given[-2:]))
    barrier = ctypes.CFUNCTYPE(ctypes.c_int, pointer, number, *[pointer] * 2)
    hold = barrier(lambda *given: enqueued("barrier", *given[-2:]))
    flush = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(lambda _: 0)
    release = ctypes.CFUNCTYPE(ctypes.c_int, pointer)(released)
    functions = [launch, hold, flush, release]
    kernel: Any = SimpleNamespace(int_ptr=1)
    gives = replay.Step(kernel, gives=True)
    steps = [
        gives,
        gives,
        replay.Step(kernel, beside=True, gives=True),
        replay.Step(),
        replay.Step(),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "_functions", lambda: functions)
        addresses = [ctypes.cast(x, pointer).value for x in functions]
        patch.setattr(replay, "_addresses", lambda: addresses)
        job = replay.job_of(steps)
        enqueue = replay.enqueuer() if llvm else replay.enqueue_by_python
        status = enqueue(job, 1, 2)
    assert status == (0 if fails_at is None else -5)
    assert not alive
    assert waited == [None, None, 2, 3, None][: len(calls)]


def test_work_that_copies_is_done_as_it_is(opencl: Any) -> None:
    x, host = opencl.from_numpy(np.zeros(64, np.float32)), []

    def work() -> None:
        add_one[64](x)
        host.append(opencl.to_numpy(x)[0])

    again = opencl.replay(work)
    for _ in range(4):
        again()
    assert host == [1, 2, 3, 4]
    assert again._captured == (b"", None)  # no memory that nothing uses


def test_what_a_driver_says_of_captured_launches_is_raised(
    monkeypatch: pytest.MonkeyPatch, opencl: Any
) -> None:
    again = opencl.replay(lambda: add_one[64](x))
    x = opencl.from_numpy(np.zeros(64, np.float32))
    for _ in range(2):
        again()
    job, queue = again._captured
    job = job[: -struct.calcsize("=3Q")] + struct.pack("=3Q", 1 << 20, 1, 1)
    monkeypatch.setattr(again, "_captured", (job, queue))
    with pytest.raises(LaunchError, match="captured: INVALID_WORK_GROUP_SIZE"):
        again()


@kernel
def copy_to(x: kl.Array, y: kl.Array) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        y[i] = x[i]


@kernel
def add_one(x: kl.Array) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = x[i] + 1
