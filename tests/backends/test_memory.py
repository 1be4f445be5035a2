"""What stays in memory of kernels that were compiled and launched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.lang import kernel as kernels
from portable.lang.arguments import arguments
from portable_backends.opencl.kept_programs import KeptPrograms
from tests.support.resident import measurable, resident

needs_measure = pytest.mark.skipif(not measurable(), reason="the system tells no resident memory")


@pt.kernel
def add_constant(x: kl.Array, *, C: int) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] += C


class _Program:
    def __init__(self) -> None:
        self.launched = True
        self.loaded = True

    def release(self) -> None:
        self.loaded = False


def test_programs_beyond_the_most_are_given_up_the_unused_first() -> None:
    kept, programs = KeptPrograms(3), [_Program() for _ in range(6)]
    for program in programs[:4]:
        kept.add(program)
    assert [p.loaded for p in programs[:4]] == [False, True, True, True]
    programs[1].launched = True
    kept.add(programs[4])
    assert [p.loaded for p in programs[1:5]] == [True, False, True, True]
    assert len(kept) == 3


def test_programs_that_nobody_has_any_more_are_not_counted_twice() -> None:
    kept, program = KeptPrograms(2), _Program()
    kept.add(program)
    for _ in range(5):
        kept.add(_Program())
    assert program.loaded
    assert len(kept) == 2


def test_one_program_that_is_loaded_stays_however_few_are_kept() -> None:
    kept, programs = KeptPrograms(1), [_Program(), _Program()]
    for program in programs:
        kept.add(program)
    assert [p.loaded for p in programs] == [False, True]


@pytest.fixture(params=[d.name for d in registry.devices() if hasattr(d, "_runtime")])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device on which few programs are kept."""
    device: Any = registry.device(request.param)
    monkeypatch.setattr(device._runtime, "programs", KeptPrograms(4))
    return device


def test_programs_that_were_given_up_run_as_before(few: Any) -> None:
    x = few.from_numpy(np.zeros(10, np.int32))
    with pt.use(few):
        prepared = add_constant[10].prepare(x, C=100)
        for _ in range(2):
            for c in range(6):
                add_constant[10](x, C=c)
        prepared()
    assert len(few._runtime.programs) == 4
    np.testing.assert_array_equal(few.to_numpy(x), 2 * 15 + 100)


@needs_measure
def test_specialisations_take_no_memory_beyond_those_that_are_kept(few: Any) -> None:
    if few.capabilities.vendor != "intel":
        pytest.skip(f"the compiler of {few.name} keeps memory of each program by itself")
    x = few.from_numpy(np.zeros(10, np.int32))
    with pt.use(few):
        _specialise(x, range(1000, 1006))
        before = resident()
        _specialise(x, range(2000, 2020))
    assert resident() - before < 20 * 150_000


def _specialise(x: Any, constants: range) -> None:
    for c in constants:
        add_constant[10](x, C=c)


@needs_measure
@pytest.mark.needs_compiler
def test_launches_take_no_memory(device: Device) -> None:
    """Of ten rounds one at least takes less than any object for each launch would."""
    x = device.from_numpy(np.zeros(10, np.int32))
    with pt.use(device):
        before = _after_launches(device, x, 2)
        for _ in range(10):
            after = _after_launches(device, x, 2)
            if after - before < 2_000 * 32:
                return
            before = after
    pytest.fail("each of ten rounds took more")


def _after_launches(device: Device, x: Any, thousands: int) -> int:
    """Bytes in memory after launches; what is enqueued and not done yet would count, too."""
    for _ in range(thousands):
        for _ in range(1000):
            add_constant[10](x, C=1)
        device.synchronize()
    return resident()


def test_a_kernel_forgets_its_oldest_specialisations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_MAX_SPECIALISATIONS", 5)
    monkeypatch.setattr(add_constant.renewed(), "compiled", {})
    with pt.use("simulator"):
        for c in range(5000, 5010):
            add_constant[10](np.zeros(10, np.int32), C=c)
    known = [dict(wanted.constants)["C"] for _, wanted, *_ in add_constant.state.compiled]
    assert known == list(range(5005, 5010))


def test_layouts_are_forgotten_beyond_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_layouts", {})
    monkeypatch.setattr(arguments, "_MOST_LAYOUTS", 10)
    kind = np.dtype(np.float32)
    numbers = [arguments.layout_number(kind, (n,), (4,), 0) for n in range(25)]
    assert len(set(numbers)) == 25
    assert len(arguments._layouts) <= 10
    assert arguments.layout_number(kind, (24,), (4,), 0) == numbers[24]
