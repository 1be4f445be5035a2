"""Names, defaults and choices, on backends made up here."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import FrameType
from typing import Any

import pytest

from portable import registry
from portable.backend import Backend, Device, Refused, Unavailable
from portable.errors import BackendUnavailableError, DeviceError
from portable.registry import Registry, use
from portable.system import console
from tests.support.capabilities import made_up


def _device(backend: str, name: str, kind: Any, *words: str) -> Device:
    abstract = dict.fromkeys(Device.__abstractmethods__)
    made: Device = type("Fake", (Device,), abstract)()
    made.name, made.backend, made.words = name, backend, frozenset(words)
    made.capabilities = made_up(dialect="opencl", kind=kind, vendor=words[0], name=name)
    return made


class _Fake(Backend):
    found: Sequence[Device] = ()
    loads = 0

    def devices(self) -> Sequence[Device]:
        type(self).loads += 1
        return self.found

    def unavailable(self) -> Unavailable:
        return Unavailable(self.name, "nothing is there", "install something")


class _Entry:
    """As much of an entry point as the registry uses."""

    def __init__(self, name: str, *found: Device, failure: Exception | None = None) -> None:
        self.name, self.value, self._failure = name, f"fake:{name}", failure
        self.backend = type(name, (_Fake,), {"name": name, "found": found})

    def load(self) -> type[Backend]:
        if self._failure is not None:
            raise self._failure
        return self.backend


def _registry(*entries: _Entry) -> Registry:
    typed: Any = entries
    found: list[EntryPoint] = list(typed)
    return Registry(lambda: found)


GPU = _device("opencl", "opencl:nvidia", "gpu", "nvidia", "gpu")
CPU0 = _device("opencl", "opencl:intel:0", "cpu", "intel", "cpu")
CPU1 = _device("opencl", "opencl:intel:1", "cpu", "intel", "cpu")
HOST = _device("cpu", "cpu:intel", "cpu", "intel", "cpu")
SYCL_CPU = _device("sycl", "sycl:cpu", "cpu", "intel", "cpu")
SIMULATOR = _device("simulator", "simulator", "simulator", "simulator")


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Registry:
    monkeypatch.delenv("PORTABLE_BACKEND", raising=False)
    return _registry(
        _Entry("simulator", SIMULATOR),
        _Entry("opencl", GPU, CPU0, CPU1),
        _Entry("cpu", HOST),
        _Entry("cuda"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("opencl", GPU),
        ("opencl:nvidia", GPU),
        ("OpenCL:NVIDIA", GPU),
        ("opencl:intel", CPU0),
        ("opencl:intel:1", CPU1),
        ("opencl:cpu:1", CPU1),
        ("opencl:2", CPU1),
        ("cpu", HOST),
        ("cpu:0", HOST),
        ("simulator", SIMULATOR),
    ],
)
def test_names(plain: Registry, name: str, expected: Device) -> None:
    assert plain.device(name) is expected
    assert plain.device(expected) is expected


@pytest.mark.parametrize("wanted", [GPU, CPU0, CPU1, HOST, SIMULATOR], ids=lambda d: d.name)
def test_a_devices_own_name_finds_it(plain: Registry, wanted: Device) -> None:
    assert plain.device(wanted.name) is wanted


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("opencll", r"there are cpu, cuda, opencl, simulator; did you mean 'opencl'\?"),
        ("gpu", r"did you mean 'opencl:nvidia'\?"),
        ("nonsense", r"the devices that were found are .*cpu:intel"),
        ("intel", r"did you mean 'cpu:intel' or 'opencl:intel:0' or 'opencl:intel:1'\?"),
        ("opencl:nvida", r"opencl:intel:1, opencl:nvidia; did you mean 'opencl:nvidia'\?"),
        ("opencl:intel:2", "no device 'opencl:intel:2'; there are opencl:intel:0"),
        ("opencl:3", "no device"),
        ("cpu:1", "there are cpu:intel"),
        ("a:b:c:d", r"expected backend\[:selector\[:index\]\]"),
        ("", r"expected backend\[:selector\[:index\]\]"),
        ("opencl:intel:one", "no device"),
        ("cpu:\N{SUPERSCRIPT TWO}", "no device"),
        ("cpu:\N{ARABIC-INDIC DIGIT ONE}", "no device"),
        ("cpu:" + "9" * 5000, "no device"),
        ("cpu:[/red]", r"no device 'cpu:\[/red\]'"),
        ("cpu:\x1b[31m", r"no device 'cpu:\\x1b\[31m'"),
    ],
)
def test_a_wrong_name_is_answered_with_what_there_is(plain: Registry, name: str, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        plain.device(name)


def test_a_backend_without_devices_says_how_to_get_them(plain: Registry) -> None:
    with pytest.raises(BackendUnavailableError, match="nothing is there; to get it: install some"):
        plain.device("cuda")
    assert [u.backend for u in plain.unavailable()] == ["cuda"]


def test_naming_a_backend_loads_it_alone() -> None:
    cpu, opencl = _Entry("cpu", HOST), _Entry("opencl", GPU)
    found = _registry(cpu, opencl)
    found.device("cpu")
    found.device("cpu:intel")
    assert (cpu.backend.loads, opencl.backend.loads) == (1, 0)  # type: ignore[attr-defined]


def test_a_broken_backend_stops_no_other() -> None:
    found = _registry(_Entry("broken", failure=SyntaxError("bad")), _Entry("cpu", HOST))
    assert found.devices() == (HOST,)
    assert "bad" in found.unavailable()[0].reason
    with pytest.raises(BackendUnavailableError, match="bad"):
        found.device("broken")


class _Raising(_Fake):
    """Fails in one method, and elsewhere does as it should."""

    fails = ""

    def _may_fail(self, method: str) -> None:
        if method == self.fails:
            raise ZeroDivisionError("no beads [/x]")

    def devices(self) -> Sequence[Device]:
        self._may_fail("devices")
        return self.found

    def unavailable(self) -> Unavailable:
        self._may_fail("unavailable")
        return Unavailable(self.name, "nothing is there", "install something")

    def array_types(self) -> tuple[str, ...]:
        self._may_fail("array_types")
        return ("abacus",)

    def refused(self) -> Sequence[Refused]:
        self._may_fail("refused")
        return ()

    def further(self) -> Mapping[str, Callable[[], Device]]:
        self._may_fail("further")
        return {}


def _raising(method: str, *found: Device) -> _Entry:
    entry = _Entry("broken")
    entry.backend = type("broken", (_Raising,), {"name": "broken", "found": found, "fails": method})
    return entry


@pytest.mark.parametrize("method", ["devices", "unavailable"])
def test_a_backend_that_raises_is_named_and_stops_no_other(method: str) -> None:
    found = _registry(_raising(method), _Entry("cpu", HOST))
    assert found.devices() == (HOST,)
    (missing,) = found.unavailable()
    assert missing.backend == "broken"
    assert "ZeroDivisionError: no beads [/x]" in missing.reason
    with pytest.raises(BackendUnavailableError, match="no beads"):
        found.device("broken")


@pytest.mark.parametrize("method", ["array_types", "refused", "further"])
def test_a_backend_that_fails_in_part_keeps_its_devices(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    found = _registry(_raising(method, GPU), _Entry("cpu", HOST))
    monkeypatch.setattr(registry, "registry", found)
    assert found.devices() == (GPU, HOST)
    assert found.refused() == ()
    assert registry.backends_for("abacus") == (() if method == "array_types" else ("broken",))
    with pytest.raises(DeviceError, match="no device 'broken:nothing'"):
        found.device("broken:nothing")


@pytest.mark.parametrize("listed", [(None,), ("cpu",), 3], ids=repr)
def test_what_is_no_device_is_not_listed(listed: Any) -> None:
    entry = _Entry("broken")
    entry.backend.found = listed
    found = _registry(entry, _Entry("cpu", HOST))
    assert found.devices() == (HOST,)
    assert "TypeError" in found.unavailable()[0].reason


def test_what_is_no_backend_is_named() -> None:
    entry: Any = _Entry("broken")
    entry.backend = dict
    assert "which is no portable.Backend" in _registry(entry).unavailable()[0].reason


@pytest.mark.parametrize(
    ("entries", "best"),
    [
        ([_Entry("simulator", SIMULATOR), _Entry("cpu", HOST), _Entry("opencl", GPU)], GPU),
        ([_Entry("simulator", SIMULATOR), _Entry("cpu", HOST), _Entry("sycl", SYCL_CPU)], HOST),
        ([_Entry("simulator", SIMULATOR), _Entry("opencl", CPU0), _Entry("cpu", HOST)], HOST),
    ],
    ids=["gpu", "cpu before sycl", "cpu before opencl"],
)
def test_the_best_device(
    monkeypatch: pytest.MonkeyPatch, entries: list[_Entry], best: Device
) -> None:
    monkeypatch.delenv("PORTABLE_BACKEND", raising=False)
    assert _registry(*entries).device() is best


def test_the_simulator_is_never_taken_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [_Entry("simulator", SIMULATOR), _Entry("cpu"), _Entry("opencl", CPU0)]
    monkeypatch.delenv("PORTABLE_BACKEND", raising=False)
    monkeypatch.setattr(console, "_told", set())
    said = r"thousands of times slower.*PORTABLE_BACKEND=simulator.*cpu: nothing is there"
    found = _registry(*entries)
    with pytest.warns(UserWarning, match=said):
        assert found.device() is SIMULATOR
    assert found.device() is SIMULATOR
    monkeypatch.setenv("PORTABLE_BACKEND", "simulator")
    assert _registry(*entries).device() is SIMULATOR


def test_devices_are_listed_best_first(plain: Registry) -> None:
    assert plain.devices() == (GPU, HOST, CPU0, CPU1, SIMULATOR)
    assert plain.devices()[0] is plain.device()


def test_no_device_at_all_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PORTABLE_BACKEND", raising=False)
    with pytest.raises(BackendUnavailableError, match="install something"):
        _registry(_Entry("cpu")).device()


def test_the_environment_names_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_BACKEND", "opencl:intel:1")
    assert _registry(_Entry("cpu", HOST), _Entry("opencl", GPU, CPU0, CPU1)).device() is CPU1


@pytest.mark.parametrize(
    ("value", "error"), [("opncl", DeviceError), ("cuda", BackendUnavailableError)]
)
def test_a_wrong_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str, error: type[Exception]
) -> None:
    monkeypatch.setenv("PORTABLE_BACKEND", value)
    with pytest.raises(error, match=f"PORTABLE_BACKEND='{value}'"):
        _registry(_Entry("cpu", HOST), _Entry("cuda")).device()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, plain: Registry) -> Registry:
    monkeypatch.setattr(registry, "registry", plain)
    return plain


def test_use_as_a_call_holds_for_the_process(installed: Registry) -> None:
    use("opencl:intel")
    seen: list[Device] = []
    thread = threading.Thread(target=lambda: seen.append(installed.device()))
    thread.start()
    thread.join()
    assert seen == [CPU0]
    use("cpu")
    assert installed.device() is HOST


def test_use_as_a_context_holds_for_the_block_in_this_thread(installed: Registry) -> None:
    use("cpu")
    with use("opencl:intel:1") as inner:
        assert inner is CPU1
        assert installed.device() is CPU1
        with use(GPU):
            assert installed.device() is GPU
        assert installed.device() is CPU1
        seen: list[Device] = []
        thread = threading.Thread(target=lambda: seen.append(installed.device()))
        thread.start()
        thread.join()
        assert seen == [HOST]
    assert installed.device() is HOST


def test_use_is_undone_by_an_error(installed: Registry) -> None:
    best = installed.device()

    def fail() -> None:
        with use("cpu"):
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert installed.device() is best


def test_threads_with_blocks_leave_the_default_alone(installed: Registry) -> None:
    best = installed.device()
    wrong: list[Device] = []

    def work(device: Device) -> None:
        for _ in range(200):
            with use(device):
                if installed.device() is not device:
                    wrong.append(device)

    threads = [threading.Thread(target=work, args=(d,)) for d in (HOST, CPU0, CPU1, GPU)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert installed.device() is best


def test_tasks_have_choices_of_their_own(installed: Registry) -> None:
    async def work(device: Device) -> bool:
        with use(device):
            await asyncio.sleep(0.001)
            return installed.device() is device

    async def both() -> tuple[bool, bool]:
        return await asyncio.gather(work(HOST), work(CPU0))

    assert all(asyncio.run(both()))


def test_blocks_concern_no_other_thread(installed: Registry) -> None:
    best, wrong, done = installed.device(), list[Device](), threading.Event()

    def work(device: Device) -> None:
        while not done.is_set():
            with use(device):
                pass

    threads = [threading.Thread(target=work, args=(d,)) for d in (HOST, CPU0, CPU1)]
    for thread in threads:
        thread.start()
    for _ in range(20_000):
        found = installed.device()
        if found is not best:
            wrong.append(found)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_task_keeps_the_device_of_the_block_that_it_began_in(installed: Registry) -> None:
    async def work() -> Device:
        await asyncio.sleep(0.001)
        return installed.device()

    async def begin() -> tuple[Device, Device]:
        with use(CPU1):
            task = asyncio.create_task(work())
        return await task, installed.device()

    best = installed.device()
    assert asyncio.run(begin()) == (CPU1, best)


def _with_block() -> None:
    with use(HOST):
        pass


def _with_nested_blocks() -> None:
    with use(HOST):
        _with_block()
        with use(CPU0), use(CPU1):
            pass


def _with_stack() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(use(HOST))


def _with_helper() -> None:
    with _chosen():
        pass


def _chosen() -> use:
    return use(HOST)


@pytest.mark.parametrize("run", [_with_block, _with_nested_blocks, _with_stack, _with_helper])
def test_interrupted_anywhere_a_block_leaves_nothing(
    installed: Registry, run: Callable[[], None]
) -> None:
    best, seen = installed.device(), list[Device]()
    for at in itertools.count():
        interrupted = _interrupted(run, at)
        gc.collect(1)  # ExitStack keeps what it was interrupted in until then
        thread = threading.Thread(target=lambda: seen.append(installed.device()))
        thread.start()
        thread.join()
        assert installed.device() is best, f"interrupted at instruction {at}"
        assert set(seen) == {best}, f"interrupted at instruction {at}"
        if not interrupted:
            break
    assert at > 50


def _interrupted(run: Callable[[], None], at: int) -> bool:
    """Runs it, raising KeyboardInterrupt before one instruction of ours; whether it got there."""
    left = at

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(("registry.py", "calls.py")):
            return None
        frame.f_trace_opcodes = True
        left -= 1
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_block_can_be_entered_again_within_itself(installed: Registry) -> None:
    block = use(HOST)
    with block:
        with block:
            assert installed.device() is HOST
        assert installed.device() is HOST
    assert installed.device() is GPU


@pytest.mark.parametrize("call", [lambda: [use(HOST)], lambda: use(HOST).device, _chosen])
def test_a_call_that_is_no_block_sets_the_process(
    installed: Registry, call: Callable[[], Any]
) -> None:
    call()
    seen: list[Device] = []
    thread = threading.Thread(target=lambda: seen.append(installed.device()))
    thread.start()
    thread.join()
    assert seen == [HOST]


def test_calls_without_end_take_no_memory(installed: Registry) -> None:
    for _ in range(100):
        use(HOST)
        use(CPU0)
    assert len(installed._claims) <= 2
    assert installed.device() is CPU0


def test_a_choice_taken_back_leaves_the_one_before(installed: Registry) -> None:
    use(HOST)
    kept = use(CPU0)
    assert installed.device() is CPU0
    with kept:
        pass
    assert installed.device() is HOST


def test_many_threads_load_a_backend_once() -> None:
    entry = _Entry("cpu", HOST)
    found = _registry(entry)
    threads = [threading.Thread(target=found.device, args=("cpu",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entry.backend.loads == 1  # type: ignore[attr-defined]


@pytest.mark.needs_processor
def test_the_processor_needs_no_gpu_library() -> None:
    program = (
        "import sys; from portable import registry; registry.device('cpu'); "
        "print(sorted({'cupy', 'dpnp', 'dpctl', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_is_no_name() -> None:
    with pytest.raises(TypeError, match=r"a device or its name is needed, .* not 3"):
        registry.device(3)  # type: ignore[arg-type]
