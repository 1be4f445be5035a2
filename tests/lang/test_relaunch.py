"""Launches recognised as like an earlier one hand the device what a first launch of them would."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable as pt
from portable import lang as kl
from portable.backend import ArrayView, Device, Executable, ViewCode
from portable.errors import LaunchError
from portable.lang.launch.launch import Launcher
from portable.lang.launch.packing import ArgumentText, Packing
from portable.lang.launch.plan import Bound, Text

LIKE = 5
"""Launches after which more of them are recognised where the device says how."""


@pt.kernel
def probe(a, x, y, kind, *, STEP=1, AS=None):
    """Whatever changes of its arguments changes its result or the program."""
    i = kl.global_id(0)
    if i < y.shape[0]:
        extra = 0 if kind is None else 1
        y[i] = a * x[i] + STEP + extra


@pt.kernel
def complex_probe(z, y):
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = z.real + z.imag


# -- what the device is handed --------------------------------------------------------------------


class _Recorder(Executable):
    """An executable that notes its launches."""

    def __init__(self, made_of: Any, launches: list[Any]) -> None:
        self._made_of = made_of
        self._launches = launches

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        self._launches.append((id(self._made_of), groups, [_comparable(x) for x in arguments]))


def _comparable(x: Any) -> Any:
    """A program's argument as a value: memory by its address."""
    for name in ("svm_ptr", "_pointer"):
        if hasattr(x, name):
            return getattr(x, name)
    if isinstance(x, np.ndarray):
        return x.__array_interface__
    return (type(x), x) if isinstance(x, int | float) else x


@contextmanager
def _recorded(device: Device) -> Iterator[list[Any]]:
    """The device with executables that note their launches and do nothing else."""
    launches: list[Any] = []
    name = "interpret" if device.interprets else "compile"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, name, lambda program: _Recorder(program, launches))
        with pt.use(device):
            yield launches


def _arrays(device: Device) -> list[Any]:
    """Arrays that differ in dtype, extent, strides, alignment, overlap, writability."""
    found: list[Any] = []
    for dtype in (np.float32, np.float64, np.int32):
        base = device.from_numpy(np.arange(64).astype(dtype))
        other = device.from_numpy(np.arange(64).astype(dtype))
        found += [base, other, base[:32], base[32:], base[16:48], base[::2], base[1::2], base[::-1]]
        found += [base[1:33], base[2:34], other[:32], other[::2], base[:0]]
        found += [base[:32], other[:32]] * 3
    hosts = [np.frombuffer(bytes(64 * 4), np.float32), np.arange(64, dtype=">i4").astype("<i4")]
    hosts[1].flags.writeable = False
    return found + ([x for x in hosts if device.owns(x)] * 2)


_NUMBERS: list[Any] = [1, 2, True, 1.0, 2.5, 2**31, -(2**31) - 1, np.float32(1), np.int32(1)]
_CONSTANTS: list[dict[str, Any]] = [
    {},
    {"STEP": 1},
    {"STEP": 300},
    {"STEP": int("300")},
    {"STEP": True},
    {"STEP": 1.0},
    {"AS": None},
    {"AS": kl.f32},
    {"AS": 1},
    {"STEP": 1, "AS": None},
    {"AS": None, "STEP": 1},
    {"AS": (1, kl.f32)},
]


def _outcome(launches: list[Any], launch: Launcher, args: Any, constants: dict[str, Any]) -> Any:
    """What was handed to the device, or the refusal."""
    before = len(launches)
    try:
        launch(*args, **constants)
    except pt.errors.PortableError as error:
        return type(error), str(error)
    assert len(launches) == before + 1
    return launches[-1]


def _skip_unless_recognising(device: Device) -> None:
    with pt.use(device):
        if device.view_code(device.from_numpy(np.zeros(4, np.float32))) is None:
            pytest.skip(f"{device.name} describes arrays anew at each launch")


@settings(
    max_examples=30,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=False))
def test_a_sequence_of_launches_is_as_if_each_were_the_first(
    device: Device, random: Random
) -> None:
    _skip_unless_recognising(device)
    fresh = pt.kernel(probe.python)
    arrays = _arrays(device)
    with _recorded(device) as launches:
        warm = fresh[64, 32]
        args: list[Any] = [1.0, arrays[0], arrays[1], None]
        constants: dict[str, Any] = {}
        for _ in range(40):
            # Runs of launches alike, then one that differs a little.
            for _ in range(random.choice((1, LIKE))):
                cold = Launcher(fresh, warm._ndrange, warm._workgroup)
                expected = _outcome(launches, cold, args, constants)
                assert _outcome(launches, warm, args, constants) == expected
            place = random.randrange(5)
            if place == 4:
                constants = random.choice(_CONSTANTS)
            else:
                choices = (_NUMBERS, arrays, arrays, [None, None, kl.f32])[place]
                args = [*args[:place], random.choice(choices), *args[place + 1 :]]


def test_launches_alike_are_not_described_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_unless_recognising(device)
    fresh = pt.kernel(probe.python)
    x, y = (device.from_numpy(np.zeros(64, np.float32)) for _ in range(2))
    with _recorded(device) as launches:
        for _ in range(LIKE):
            fresh[64, 32](1.0, x, y, None, STEP=2)
        monkeypatch.setattr(device, "view", None)
        fresh[64, 32](7.5, y, x, None, STEP=2)
        arguments = launches[-1][2]
        assert arguments[0] == (float, 7.5)
        assert launches[0][2][1:] != arguments[1:]


def test_launches_go_to_the_queue_that_another_library_works_on() -> None:
    """Of arrays that say which it is, as PyTorch's tensors do."""
    launched: list[Any] = []
    queue = iter(range(7, 20))
    names = {"queue": queue.__next__}
    parts = {"handle": "{x}[0]", "address": "{x}_handle", "offset": "0", "owner": "None"}
    code = ViewCode(list, "True", **parts, names=names, queue="queue()")
    text = Text()
    text.unpack(([32],))
    text.require_array("a0", code, ArrayView(np.dtype("f4"), (1,), (4,), 32, 32))
    text.require_constants({})
    words = ArgumentText("a{}_handle".format, "a{}_offset".format, "a{}".format, text.named)
    launch = Bound(lambda *given: launched.append(given), (1, 1, 1), Packing([None], [(0, 0)]))
    text.launch(launch, words)
    again = text.compiled(1)
    assert again(([64],), {})
    assert again(([128],), {})
    assert not again(((128,),), {})
    assert launched == [((1, 1, 1), [64], 7), ((1, 1, 1), [128], 8)]


def test_read_only_arrays_are_recognised_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    device = pt.device("cpu:native")
    fresh = pt.kernel(probe.python)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    x.flags.writeable = False
    for _ in range(LIKE):
        fresh[64, 32](1.0, x, y, None)
    monkeypatch.setattr(device, "view", None)
    fresh[64, 32](2.0, x, y, None)
    np.testing.assert_array_equal(y, 2 * x + 1)
    monkeypatch.undo()
    with pytest.raises(LaunchError, match="read-only"):
        fresh[64, 32](1.0, y, x, None)


def test_numpy_arrays_run_on_the_device_in_use(device: Device) -> None:
    x, y = (np.zeros(64, np.float32) for _ in range(2))
    if not device.owns(x):
        pytest.skip("NumPy arrays are passed")
    other = pt.device("simulator" if device.backend == "cpu" else "cpu")
    fresh = pt.kernel(probe.python)
    with _recorded(other) as elsewhere, _recorded(device) as launches:
        for _ in range(LIKE):
            fresh[64, 32](1.0, x, y, None)
        with pt.use(other):
            fresh[64, 32](1.0, x, y, None)
        assert (len(launches), len(elsewhere)) == (LIKE, 1)


def test_arrays_changed_in_place_are_seen_as_they_are(device: Device) -> None:
    x, y = (np.zeros(64, np.float32) for _ in range(2))
    if not device.owns(x):
        pytest.skip("NumPy arrays are passed")
    with pt.use(device):
        for _ in range(LIKE):
            probe[64, 32](1.0, x, y, None)
        y.flags.writeable = False
        with pytest.raises(LaunchError, match="read-only"):
            probe[64, 32](1.0, x, y, None)
        y.flags.writeable = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's from 2.5 on
            x.dtype = np.dtype(np.int32)  # type: ignore[misc]
        x[:] = range(64)
        probe[64, 32](1.0, x, y, None)
        device.synchronize()
    assert y.tolist() == [float(i + 1) for i in range(64)]


def test_no_array_is_kept(device: Device) -> None:
    x, y = (device.from_numpy(np.zeros(64, np.float32)) for _ in range(2))
    with pt.use(device):
        for _ in range(2 * LIKE):
            probe[64, 32](1.0, x, y, None)
        # The device's own bookkeeping may hold the arrays of its last launch.
        probe[64, 32](1.0, *(device.from_numpy(np.zeros(64, np.float32)) for _ in range(2)), None)
        device.synchronize()
    try:
        references = [weakref.ref(x), weakref.ref(y)]
    except TypeError:
        pytest.skip("these arrays cannot be watched")
    del x, y
    gc.collect()
    assert [r() for r in references] == [None, None]


@pytest.mark.parametrize("number", [3, 2.5, 1 + 2j, np.float32(1.5), np.complex64(2 + 4j)])
def test_numbers_are_those_of_each_launch(device: Device, number: Any) -> None:
    kernel = complex_probe if isinstance(number, complex | np.complexfloating) else probe
    x, y = (device.from_numpy(np.ones(8, np.float32)) for _ in range(2))
    with pt.use(device):
        for factor in range(2 * LIKE):
            z = type(number)(number * factor)
            if kernel is probe:
                probe[8, 8](z, x, y, None, STEP=0)
            else:
                complex_probe[8, 8](z, y)
        device.synchronize()
    expected = z if kernel is probe else z.real + z.imag
    np.testing.assert_array_equal(device.to_numpy(y), np.full(8, expected, np.float32))


def test_threads_that_launch_unlike_arrays_of_one_kernel(device: Device) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        dtype = (np.float32, np.int32)[number % 2]
        try:
            x = device.from_numpy(np.full(64, number, dtype))
            y = device.from_numpy(np.zeros(64, dtype))
            with pt.use(device):
                for i in range(4 * LIKE):
                    target, length = (y, 64) if i % 3 else (y[:8], 8)
                    probe[64, 32](i, x[:length], target, None)
                device.synchronize()
            last = 4 * LIKE - 1
            assert device.to_numpy(y)[8:].tolist() == [number * last + 1] * 56
        except BaseException as error:  # noqa: BLE001 - reported below, from the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
