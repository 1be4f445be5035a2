"""Programs that may crash their compiler, compiled in processes of their own."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Capabilities
from portable.backend.capabilities import INTEL_CPU, Fault
from portable.backend.program import Program
from portable.errors import BackendUnavailableError, CompileError, DeviceError
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable_backends.common.isolated_compiler import IsolatedCompiler
from tests.support.capabilities import made_up
from tests.support.launch import run

isolated_compiler = pytest.importorskip("portable_backends.common.isolated_compiler")
INTEL = made_up(faults=INTEL_CPU, dialect="opencl", vendor="intel", kind="cpu")


def meets_in_loops(x, out, n, *, LOOPS, PAIRS=1):
    i = kl.local_id(0)
    tile = kl.local(8, kl.i32)
    total = x[i]
    for _ in kl.static_range(LOOPS):
        for step in range(n):
            for _ in kl.static_range(PAIRS):
                tile[i] = total + step
                kl.barrier()
                total += tile[7 - i]
                kl.barrier()
    out[i] = total


def ends_anywhere(x, out, n, *, LOOPS, PAIRS=1):
    i = kl.local_id(0)
    total = x[i]
    for _ in kl.static_range(LOOPS):
        while total < n * PAIRS:
            total += i + 1
    out[i] = total


def program(
    loops: int,
    items: int = 8,
    capabilities: Capabilities = INTEL,
    pairs: int = 1,
    of: Any = meets_in_loops,
) -> Program:
    """The kernel as it is emitted for Intel's compiler."""
    array = ArraySpec(pt.int32, ("unit",))
    specs, constants = (array, array, ScalarSpec("int")), (("LOOPS", loops), ("PAIRS", pairs))
    wanted = Specialisation(specs, constants, (items, 1, 1), False, True, Options())
    return generate(translate(of, wanted, capabilities), capabilities)


def test_many_loops_with_barriers_are_a_hazard_where_the_fault_is_declared() -> None:
    assert program(3).hazards == {Fault.CRASHING_LOOPS}
    assert not program(2).hazards
    assert not program(3, items=1).hazards
    assert not program(3, capabilities=replace(INTEL, faults=frozenset())).hazards


def test_a_loop_with_many_barriers_is_a_hazard_too() -> None:
    assert program(1, pairs=4).hazards == {Fault.CRASHING_LOOPS}
    assert not program(1, pairs=3).hazards
    assert not program(1, items=1, pairs=4).hazards


def test_loops_that_end_by_conditions_are_a_hazard_too() -> None:
    assert program(4, of=ends_anywhere).hazards == {Fault.CRASHING_LOOPS}
    assert not program(3, of=ends_anywhere).hazards
    assert not program(4, items=1, of=ends_anywhere).hazards


def test_long_kernels_of_such_loops_are_compiled_as_they_are() -> None:
    long = program(80, of=ends_anywhere)
    assert long.hazards == {Fault.CRASHING_LOOPS, Fault.LOST_ROUNDS}
    tried: list[list[str]] = []

    def compiled(source: str, options: list[str]) -> tuple[int, bytes]:
        tried.append(options)
        return 0, b"code"

    compiler = object.__new__(IsolatedCompiler)
    compiler._compile = compiled  # type: ignore[method-assign]
    assert compiler.compile(long, ["-w"]) == (b"code", ["-w", "-cl-opt-disable"])
    assert compiler.compile(program(4, of=ends_anywhere), ["-w"]) == (b"code", ["-w"])
    assert tried == [["-w", "-cl-opt-disable"], ["-w"]]


@pytest.fixture
def intel() -> Any:
    try:
        return pt.device("opencl:intel")
    except (BackendUnavailableError, DeviceError) as error:
        pytest.skip(str(error))


def test_what_is_compiled_in_isolation_runs(intel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    seen = []
    compile_it = isolated_compiler.IsolatedCompiler.compile
    monkeypatch.setattr(
        isolated_compiler.IsolatedCompiler,
        "compile",
        lambda *given: seen.append(compile_it(*given)) or seen[-1],
    )
    x = np.arange(8, dtype=np.int32)
    found = run(intel, pt.kernel(meets_in_loops)[8, 8], x, x, 2, LOOPS=3)[1]
    expected = x.copy()
    for step in (0, 1) * 3:
        expected = expected + (expected + step)[::-1]
    np.testing.assert_array_equal(found, expected)
    ((binary, options),) = seen
    assert binary
    assert "-cl-opt-disable" not in options


class Crashing(isolated_compiler.IsolatedCompiler):  # type: ignore[misc]
    """A compiler whose processes end as they are told to."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = [*statuses]
        self.tried: list[list[str]] = []

    def _compile(self, source: str, options: list[str]) -> tuple[int, bytes]:
        self.tried.append(options)
        return self._statuses.pop(0), b"machine code"


def test_a_crash_is_followed_by_another_try_without_optimisations() -> None:
    compiler = Crashing(-signal.SIGSEGV, 0)
    with pytest.warns(UserWarning, match="crashes on kernel meets_in_loops.*slower"):
        found = compiler.compile(program(3), ["-w"])
    assert found == (b"machine code", ["-w", "-cl-opt-disable"])
    assert compiler.tried == [["-w"], ["-w", "-cl-opt-disable"]]


def test_a_compiler_that_always_crashes_is_an_error_that_says_what_to_change() -> None:
    compiler = Crashing(-signal.SIGSEGV, -signal.SIGABRT)
    with pytest.raises(CompileError, match="fewer such loops in one kernel"):
        compiler.compile(program(4), [])


@pytest.mark.parametrize("status", [1, 3])
def test_ordinary_errors_are_left_to_who_compiles_here(status: int) -> None:
    assert Crashing(status).compile(program(3), ["-w"]) == (b"", ["-w"])
