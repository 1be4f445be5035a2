"""Each way of an operation through each of its doors, and nothing without a case.

By default each way goes through its first door, each door is gone through, and of the rest some
cases are drawn, on devices in turn; where ``PORTABLE_TEST_DEVICES`` names devices, each way goes
through each door on each of these that takes it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import pytest

import portable
from portable import registry
from portable.array.base.defaults import is_ours
from portable.backend import Device
from portable.lang.kernel import Kernel
from portable.tune.ways import TABLES
from tests.doors.doors import SETTINGS, Door, Setting, doors_of
from tests.doors.ways import ELSEWHERE, PROFILES, STEPS, WAYS, Way
from tests.support.devices import device_names, keep_no_binaries

_ROOMS: Final = ("array", "conv", "gf2", "linalg", "numerics", "primitives", "random", "sparse")
"""Packages of operations, whose kernels are ways or steps of them."""

_EVERY: Final = 4
"""One case in so many runs, where no devices are named."""

Case = tuple[str, Way, Door, Setting]


# -- which cases there are ------------------------------------------------------------------------


@cache
def _devices() -> tuple[Device, ...]:
    """Those of the run that have arrays of `portable.array`, and the simulator's profiles."""
    found = [registry.device(name) for name in (*device_names(), *PROFILES)]
    return tuple(d.for_arrays() for d in found if is_ours(d.for_arrays()))


def _takers(way: Way) -> list[Device]:
    double = way.dtype in ("float64", "complex128")
    return [d for d in _devices() if way.taken(d) and (d.capabilities.float64 or not double)]


def _cases() -> Iterator[Case]:
    chosen = bool(os.environ.get("PORTABLE_TEST_DEVICES"))
    for way in WAYS:
        takers = _takers(way)
        for door, setting in doors_of(way.operation):
            turn = crc32(f"{_name(way)} {door.name} {setting.name}".encode())
            for device in takers if chosen else takers[turn % len(takers) :][:1] if takers else []:
                yield device.name, way, door, setting


def _name(way: Way) -> str:
    return f"{way.operation.name} {way.name}"


def _identity(case: Case) -> str:
    device, way, door, setting = case
    return f"{device}, {_name(way)}, {door.name}, {setting.name}"


def _drawn(cases: list[Case]) -> list[Case]:
    """The first case of each way, of each door and of each setting, and some of the others."""
    seen: set[tuple[str, str]] = set()
    drawn = []
    for case in cases:
        _, way, door, setting = case
        parts = {("way", _name(way)), ("door", door.name), ("setting", setting.name)}
        if parts - seen or crc32(_identity(case).encode()) % _EVERY == 0:
            drawn.append(case)
        seen |= parts
    return drawn


_CASES: Final = list(_cases())
_RUN: Final = _CASES if os.environ.get("PORTABLE_TEST_DEVICES") else _drawn(_CASES)


# -- the test -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", _RUN, ids=map(_identity, _RUN))
def test_a_way_through_a_door(case: Case) -> None:
    """The result is NumPy's, and the kernels are those of the way."""
    name, way, door, setting = case
    device = registry.device(name)
    keep_no_binaries(device)
    with portable.use(device), portable.profile() as profile:
        result, operands = setting.run(device, door, way.operands())
        found = portable.to_numpy(result)
    expected = np.asarray(way.operation.expected(*map(_wide, operands)))
    assert found.shape == expected.shape
    allowed = 64 * np.finfo(found.dtype).eps if found.dtype.kind in "fc" else 0
    least = allowed * abs(expected).max(initial=0) * 4
    np.testing.assert_allclose(found, expected, rtol=allowed, atol=least)
    if setting.same_way and not door.own_way:
        launched = {s.entry.name for s in profile.spans if s.entry.kind == "launch"}
        assert way.kernels <= launched


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kinds = {"f": np.float64, "c": np.complex128}
    return x.astype(kinds.get(x.dtype.kind, x.dtype))


# -- nothing is left out --------------------------------------------------------------------------


def _kernels() -> Iterator[tuple[str, str]]:
    """Modules and names of all kernels of operations."""
    for room in _ROOMS:
        package = importlib.import_module(f"portable.{room}")
        path = getattr(package, "__path__", ())
        further = [x.name for x in pkgutil.walk_packages(path, f"{package.__name__}.")]
        for module in (package, *map(importlib.import_module, further)):
            for thing in vars(module).values():
                if not isinstance(thing, Kernel) or thing.__module__ != module.__name__:
                    continue
                if not thing.__name__.startswith("_"):  # those are made anew for each function
                    yield module.__name__, thing.__name__


def _listed() -> set[str]:
    elsewhere = {name for names in ELSEWHERE for name in names.split()}
    return {*STEPS, *elsewhere, *(name for way in WAYS for name in way.kernels)}


def test_each_kernel_is_a_way_or_a_step() -> None:
    """A new one has to come with a case, or with the word where its tests are."""
    new = sorted(f"{module}.{name}" for module, name in _kernels() if name not in _listed())
    assert not new, f"kernels that tests/doors/ways.py has no case for: {new}"


def test_nothing_is_listed_that_is_gone() -> None:
    assert _listed() <= {name for _, name in _kernels()}
    assert all(Path(test).is_file() for test in ELSEWHERE.values())


def test_each_way_of_a_table_has_a_case() -> None:
    """Its kernels are those of a way here, or tested where `ELSEWHERE` says."""
    elsewhere = {name for names in ELSEWHERE for name in names.split()}
    known = {name for _, name in _kernels()}
    for operation, table in TABLES.items():
        for way in table.ways:
            kernels = set(way.kernels.split())
            case = any(x.kernels <= kernels for x in WAYS)
            assert kernels <= known, f"{operation} {way.name}: no such kernels"
            assert case or kernels & elsewhere or not kernels, f"{operation} {way.name}: no case"


def test_each_way_is_taken_somewhere() -> None:
    """By a device that the whole run has, or by the simulator in the place of one."""
    if os.environ.get("PORTABLE_TEST_DEVICES", "all") != "all":
        pytest.skip("some devices alone were chosen")
    reached = {_name(way) for _, way, *_ in _CASES}
    assert reached == {_name(way) for way in WAYS}


def test_each_setting_is_used() -> None:
    assert {setting.name for *_, setting in _RUN} == {setting.name for setting in SETTINGS}
