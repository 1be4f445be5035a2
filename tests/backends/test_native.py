"""The processor by LLVM: what compiles, and the threads that run what was compiled."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Argument, Program
from portable.dtypes import bool_, float16, float32, float64, int8, int32, int64, uint32
from portable.errors import CompileError, DeviceError, LaunchError
from portable.lang.kernel import kernel
from portable.system import cache
from portable_backends.common.native_compiler import Compiler, Target, compiler
from portable_backends.cpu import processor
from portable_backends.cpu.native_device import NativeDevice, NativeExecutable, why_not
from portable_backends.cpu.native_pool import pool, pool_text
from tests.support.native_programs import COUNT, ROOM, SLOW, WAITS, launch, program
from tests.support.patience import PATIENCE

pytest.importorskip("llvmlite")


@pytest.fixture(scope="module")
def native() -> NativeDevice:
    return NativeDevice()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# -- compiling ------------------------------------------------------------------------------------


def test_text_that_is_none_is_refused_with_what_llvm_says(native: NativeDevice) -> None:
    with pytest.raises(CompileError, match="LLVM refused kernel entry") as caught:
        native.compile(program("define void @entry() { ret i32 0 }"))
    assert "ret i32 0" in caught.value.source
    assert "value doesn't match function result type" in caught.value.log


def test_a_symbol_that_nobody_defines_is_an_error(native: NativeDevice, folder: Path) -> None:
    calling = COUNT.replace("  %old =", "  call void @nowhere_at_all()\n  %old =")
    with pytest.raises(CompileError, match="nowhere_at_all"):
        native.compile(program(f"{calling}\ndeclare void @nowhere_at_all()"))


def test_objects_are_kept_and_damaged_ones_compiled_again(
    native: NativeDevice, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native.compile(program(COUNT))
    name = compiler.name_of(COUNT)
    kept = cache.load(name)
    assert kept
    with monkeypatch.context() as patch:
        patch.setattr(Compiler, "compile", None)
        native.compile(program(COUNT))
    cache.store(name, kept[: len(kept) // 2])  # whole as a file, and no object
    x = np.zeros(5, np.int32)
    launch(native, native.compile(program(COUNT)), x)
    assert (x == 1).all()
    assert cache.load(name) == kept


def test_objects_are_told_apart_by_processor_and_features() -> None:
    plain = Target("x86_64-unknown-linux-gnu", "x86-64", "")
    others = (plain._replace(features="+avx2"), plain._replace(processor="znver4"))
    names = {Compiler(target).name_of(COUNT) for target in (plain, *others)}
    assert len(names) == 3


@pytest.mark.parametrize(
    ("target", "machine", "system", "magic"),
    [
        (Target("arm64-apple-macosx13", "apple-m1", ""), "aarch64", "macos", "cffaedfe0c000001"),
        (Target("x86_64-pc-windows-msvc", "x86-64", ""), "x86_64", "windows", "6486"),
        (Target("aarch64-pc-windows-msvc", "generic", ""), "aarch64", "windows", "64aa"),
        (Target("aarch64-linux-gnu", "neoverse-n1", ""), "aarch64", "linux", "7f454c46020101"),
        (Target("x86_64-linux-gnu", "znver4", ""), "x86_64", "linux", "7f454c46020101"),
    ],
)
def test_objects_for_other_systems_begin_as_theirs_do(
    target: Target, machine: str, system: str, magic: str
) -> None:
    by = Compiler(target)
    for text in (pool_text(machine, system), COUNT):
        assert by.compile(text, "it").hex().startswith(magic)
    elf_machine = {"x86_64": 62, "aarch64": 183}[machine]
    if system == "linux":
        assert int.from_bytes(by.compile(COUNT, "it")[18:20], "little") == elf_machine


def relocations(image: bytes) -> set[int]:
    """The kinds of them in an object file of Windows."""
    kinds = set()
    for header in range(20, 20 + 40 * int.from_bytes(image[2:4], "little"), 40):
        (first,) = struct.unpack_from("<I", image, header + 24)
        (count,) = struct.unpack_from("<H", image, header + 32)
        kinds |= {struct.unpack_from("<H", image, first + 10 * n + 8)[0] for n in range(count)}
    return kinds


SCALED = """
define double @scaled(double %x) {
  %y = call double @fmod(double %x, double 0x3FF3C0CA428C59FB)
  ret double %y
}
declare double @fmod(double, double)
"""


@pytest.mark.parametrize(
    ("target", "machine", "not_linked"),
    [
        # Nothing near the image's base, and under x86-64 nothing but whole addresses.
        (Target("x86_64-pc-windows-msvc", "x86-64-v3", ""), "x86_64", set(range(20)) - {1}),
        (Target("aarch64-pc-windows-msvc", "generic", ""), "aarch64", {2}),
    ],
)
def test_windows_linker_knows_what_objects_ask_of_it(
    target: Target, machine: str, not_linked: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    by = Compiler(target)
    for text in (pool_text(machine, "windows"), SCALED):
        found = relocations(by.compile(text, "it", passes=False))
        assert found
        assert not found & not_linked
    linkers: list[bool] = []
    monkeypatch.setattr(
        "llvmlite.binding.create_lljit_compiler",
        lambda machine, *, use_jit_link: linkers.append(use_jit_link),
    )
    assert by._linker is None
    assert linkers == [False]


@pytest.mark.parametrize(
    ("system", "python", "named", "bits", "machine"),
    [
        ("win32", "win-amd64", "ARM64", 64, "x86_64"),
        ("win32", "win-arm64", "ARM64", 64, "aarch64"),
        ("darwin", "macosx-11.0-universal2", "arm64", 64, "aarch64"),
        ("linux", "linux-aarch64", "aarch64", 32, None),
        ("linux", "linux-riscv64", "riscv64", 64, None),
    ],
)
def test_kernels_are_made_for_this_python_not_for_what_it_runs_on(
    system: str,
    python: str,
    named: str,
    bits: int,
    machine: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(sys, "maxsize", 2 ** (bits - 1) - 1)
    monkeypatch.setattr("sysconfig.get_platform", lambda: python)
    monkeypatch.setattr("platform.machine", lambda: named)
    assert processor.machine() == machine
    assert ("not made for" in why_not()) == (machine is None)


def test_packages_of_machine_code_are_linked(native: NativeDevice) -> None:
    code = native.export(program(COUNT))
    x = np.zeros(3, np.int32)
    launch(native, native.load(program(""), code), x)
    assert (x == 1).all()
    assert {"driver", "architecture", "triple", "features"} == set(native.program_facts())
    with pytest.raises(DeviceError, match="does not link"):
        native.load(program(""), code[:100])


def test_llvm_is_not_imported_to_list_devices() -> None:
    code = (
        "import sys; from portable_backends.cpu.native_device import NativeDevice; "
        "print(NativeDevice().capabilities.compute_units); assert 'llvmlite' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


# -- arguments ------------------------------------------------------------------------------------


def test_arguments_are_eight_bytes_each(native: NativeDevice) -> None:
    """The kernel copies them as they are."""
    kinds = (int8, bool_, float16, int32, uint32, float32, int64, float64)
    values = (-3, True, 1.5, -7, 2**32 - 1, 0.1, -(2**40), 0.2)
    text = """
define void @entry(ptr %arguments, ptr %launch, i64 %first, i64 %last, ptr %room) {
  %out = load ptr, ptr %arguments
  %from = getelementptr i64, ptr %arguments, i64 1
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %from, i64 64, i1 false)
  %behind = getelementptr i64, ptr %out, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %behind, ptr %launch, i64 48, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
    arguments = (
        Argument("pointer", 0, 0, int64),
        *(Argument("scalar", i + 1, 0, kind) for i, kind in enumerate(kinds)),
    )
    made = native.compile(Program(text, "entry", "llvm", arguments, (4, 2, 1), 0, False, ()))
    out = np.zeros(14, np.int64)
    made.launch((1, 1, 1), [native.view(out).handle, *values])
    for kind, value, slot in zip(kinds, values, out, strict=False):
        held = np.array([slot]).view(np.uint8 if kind is bool_ else kind.numpy)[0]
        assert held == np.array(value, kind.numpy)
    np.testing.assert_array_equal(out[8:], [1, 1, 1, 4, 2, 1])
    with pytest.raises(LaunchError, match="launching entry"):
        made.launch((1, 1, 1), [native.view(out).handle, 1000, *values[1:]])


def test_rooms_grow_and_begin_on_a_line(native: NativeDevice) -> None:
    for nbytes in (64, 4096, 200_000, 1000):
        made = native.compile(program(ROOM, nbytes))
        for groups in (1, 300):
            x = np.full(groups, -1, np.int32)
            for _ in range(3):
                launch(native, made, x, nbytes // 4)
                assert not x.any()


# -- threads --------------------------------------------------------------------------------------


def test_every_workgroup_runs_once_in_launches_of_all_sizes(native: NativeDevice) -> None:
    made = native.compile(program(COUNT))
    rng = np.random.default_rng(1)
    for groups in (*range(1, 40), *rng.integers(1, 100_000, 60)):
        x = np.zeros(int(groups), np.int32)
        for _ in range(5):
            launch(native, made, x)
        assert (x == 5).all()


def test_threads_launch_at_once(native: NativeDevice) -> None:
    made = native.compile(program(SLOW))
    arrays = [np.zeros(50 + i, np.int32) for i in range(6)]

    def work(x: np.ndarray[Any, Any]) -> None:
        for _ in range(200):
            launch(native, made, x, 50)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((x == 200).all() for x in arrays)


def test_long_launches_are_shared(native: NativeDevice) -> None:
    if processor.threads() < 2:
        pytest.skip("one core alone")
    text = SLOW.replace("@entry", "@shared_entry")  # a launch that nothing is known of
    arguments = program(text).arguments
    made = native.compile(Program(text, "shared_entry", "llvm", arguments, (1, 1, 1), 0, False, ()))
    pool.start()
    before = pool.state.generation
    launch(native, made, np.zeros(64, np.int32), 10_000)
    assert pool.state.generation > before
    assert pool.state.workers == processor.threads() - 1


@pytest.mark.parametrize(("groups", "launches"), [(2, 300), (3, 300), (1000, 20)])
def test_workgroups_may_wait_for_those_before_them(
    native: NativeDevice, groups: int, launches: int
) -> None:
    made = native.compile(program(WAITS))
    for _ in range(launches):
        x = np.zeros(groups, np.int32)
        launch(native, made, x)
        assert x.all()


@kernel
def in_turn(turns: kl.Array) -> None:
    """Each workgroup waits for the one before it."""
    while kl.atomic_load(turns, 0, order="acquire") < kl.group_id(0):
        pass
    kl.atomic_add(turns, 0, 1, order="release")


@kernel
def halvings(counts: kl.Array) -> None:
    """How often numbers can be halved, by loops that wait for nobody."""
    i, number, count = kl.group_id(0), counts[kl.group_id(0)], 0
    while number > 1:
        number, count = number // 2, count + 1
    counts[i] = count


def test_loops_that_wait_leave_the_processor_to_others() -> None:
    with portable.use("cpu:native"):
        turns, counts = np.zeros(1, np.int32), np.array([1, 2, 9, 1000], np.int32)
        in_turn[portable.groups(500), 1](turns)
        halvings[portable.groups(4), 1](counts)
    assert turns[0] == 500
    assert counts.tolist() == [0, 1, 3, 9]
    lingers = "call void @portable_linger(i32"
    assert lingers in str(kl.source(in_turn, turns, device="cpu:native"))
    assert lingers not in str(kl.source(halvings, counts, device="cpu:native"))


def test_no_time_is_spent_between_launches(native: NativeDevice) -> None:
    made = native.compile(program(SLOW))
    x = np.zeros(64, np.int32)
    for _ in range(20):
        launch(native, made, x, 20_000)
    time.sleep(0.05)  # in which they look for work no longer
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.05


def test_a_forked_child_has_threads_of_its_own(native: NativeDevice) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    code = """
import os, sys
import numpy as np
from portable_backends.cpu.native_device import NativeDevice
from portable_backends.cpu.native_pool import pool
from tests.support.native_programs import SLOW, launch, program

native = NativeDevice()
made = native.compile(program(SLOW))
def run():
    x = np.zeros(100, np.int32)
    for _ in range(5):
        launch(native, made, x, 10_000)
    return (x == 5).all()
assert run() and pool.state.stand_ins
child = os.fork()
if not child:
    fresh = not pool.state.stand_ins
    done = run() and run()
    other = native.compile(program(SLOW.replace("monotonic", "seq_cst")))
    x = np.zeros(9, np.int32)
    launch(native, other, x, 5)
    os._exit(0 if fresh and done and pool.state.stand_ins and x.all() else 1)
assert os.waitpid(child, 0)[1] == 0
assert run()
"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    subprocess.run(command, check=True, timeout=PATIENCE)


def _threads_of(**environment: str) -> str:
    code = (
        "from portable_backends.cpu.native_device import NativeDevice; "
        "print(NativeDevice().capabilities.compute_units)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_threads_are_limited_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(processor.THREADS, raising=False)
    assert _threads_of(PORTABLE_CPU_THREADS="1") == "1"
    assert _threads_of(PORTABLE_CPU_THREADS="100000") == str(processor.threads())
    for wrong in ("0", "-1", "many"):
        assert "PORTABLE_CPU_THREADS is" in _threads_of(PORTABLE_CPU_THREADS=wrong)


def test_threads_are_limited_by_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(processor.THREADS, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 7}, raising=False)
    assert processor.threads() == 3
    monkeypatch.setenv(processor.THREADS, "2")
    assert processor.threads() == 2


# -- Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("familiar", [False, True])
@pytest.mark.parametrize("prepared", [False, True])
def test_ctrl_c_stops_between_workgroups(
    native: NativeDevice, familiar: bool, prepared: bool
) -> None:
    """Half a minute of workgroups of a millisecond, of which few run once it was pressed."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are heard by the main thread alone")
    made = native.compile(program(SLOW))
    assert isinstance(made, NativeExecutable)
    if familiar:
        launch(native, made, np.zeros(3, np.int32), 10)
    x = np.zeros(50_000, np.int32)
    arguments = [native.view(x).handle, 1_000_000]
    run = made.prepare((len(x), 1, 1), arguments) if prepared else None
    timer = threading.Timer(0.3, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        run() if run else made.launch((len(x), 1, 1), arguments)
    assert time.perf_counter() - start < 5
    now = x.copy()
    assert 0 < now.sum() < len(x)
    time.sleep(0.05)
    np.testing.assert_array_equal(x, now)
    launch(native, made, y := np.zeros(9, np.int32), 10)
    assert (y == 1).all()


def test_a_process_ends_while_threads_launch() -> None:
    code = """
import threading, time
import numpy as np
from portable_backends.cpu.native_device import NativeDevice
from tests.support.native_programs import SLOW, launch, program

native = NativeDevice()
made = native.compile(program(SLOW))
def work():
    x = np.zeros(200, np.int32)
    while True:
        launch(native, made, x, 2000)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_launch_of_one_workgroup_starts_one_thread_at_most() -> None:
    code = """
import numpy as np
from portable_backends.cpu.native_device import NativeDevice
from portable_backends.cpu.native_pool import pool
from tests.support.native_programs import COUNT, launch, program

native = NativeDevice()
made = native.compile(program(COUNT))
assert (pool.state.stand_ins, pool.state.workers) == (0, 0)
launch(native, made, np.zeros(1, np.int32))
print(pool.state.stand_ins, pool.state.workers)
made = native.compile(program(COUNT))
launch(native, made, np.zeros(2, np.int32))
print(pool.state.stand_ins, pool.state.workers)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "0", "1", str(processor.threads() - 1)]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at Linux's threads")
def test_workers_are_kept_off_the_processor_of_whoever_wakes_them() -> None:
    """Only while they wake: afterwards they may be on all of their processors."""
    if processor.threads() < 2 or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one processor")
    code = """
import os, time
import numpy as np
from portable_backends.cpu.native_device import NativeDevice
from portable_backends.cpu.native_pool import pool
from tests.support.native_programs import SLOW, launch, program

native = NativeDevice()
made = native.compile(program(SLOW))
whole = os.sched_getaffinity(0)
first = sum(1 << number for number in whole if number < 64)
until = time.monotonic() + 60
while time.monotonic() < until:
    launch(native, made, np.zeros(100, np.int32), 10_000)
    time.sleep(0.01)  # the worker sleeps
    kept = pool.state.seats[16] == first
    allowed = [os.sched_getaffinity(int(task)) for task in os.listdir("/proc/self/task")]
    if kept and all(each == whole for each in allowed):
        print("kept off, and free again")
        break
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "kept off, and free again\n"
