"""Devices in processes that fork and that end while threads launch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from portable.backend import Device
from portable.errors import DeviceFaultError
from portable.system.locks import fork_safe_lock
from portable_backends.common.gate import Gate
from tests.support.patience import PATIENCE

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@needs_fork
@pytest.mark.needs_compiler
def test_a_forked_child_is_refused_and_the_end_of_launching_threads_is_waited_for(
    device: Device,
) -> None:
    if device.capabilities.dialect != "opencl":
        pytest.skip(f"the library of {device.name} says by itself what a forked child may do")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.support.process", device.name],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    launch, compiled, copy, simulator, child = done.stdout.splitlines()
    for line in (launch, compiled, copy):
        assert "cannot be used here: it was opened before this process was forked" in line
    assert simulator == "simulator: done"
    assert child == "child ended with 0"


@needs_fork
def test_locks_are_open_in_a_forked_child() -> None:
    lock, held, done = fork_safe_lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(blocking=False) else 1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert status == 0


def test_a_closed_gate_lets_only_the_thread_in_that_closed_it() -> None:
    drained: list[int] = []
    gate = Gate("abacus", lambda: drained.append(1))
    gate.close()
    gate.pass_through()
    inside: list[int] = []

    def enter() -> None:
        with gate.lock:
            inside.append(1)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert not inside
    assert drained == [1]
    gate.lock.__exit__(None, None, None)
    thread.join()
    assert inside


def test_a_driver_that_was_not_opened_is_not_spoilt() -> None:
    gate = Gate("abacus", lambda: None, opened=False)
    gate.refuse()
    gate.pass_through()
    gate.open()
    gate.refuse()
    with pytest.raises(DeviceFaultError, match="abacus cannot be used here"):
        gate.pass_through()
    gate.close()


@pytest.mark.needs_compiler
@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_ends_a_program_whose_kernel_does_not_end(device: Device) -> None:
    if device.backend != "cpu":
        pytest.skip(f"launches on {device.name} return before they are done")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.endless", device.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            for kernel in ("long", "endless"):
                assert process.stdout.readline() == f"{kernel}\n"
                process.send_signal(signal.SIGINT)
                assert process.stdout.readline() == "heard\n"  # it is given time to end
                if kernel == "long":
                    process.stdin.write("end\n")
                    process.stdin.flush()
                    assert process.stdout.readline() == "ended True\n"
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()
        said = process.stderr.read()
    assert "InterruptedLaunchError" in said
    assert "kernel waiting still runs" in said
