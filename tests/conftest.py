"""The `device` fixture: one suite, run on every device that is found here.

``PORTABLE_TEST_DEVICES`` chooses devices by name, separated by commas; ``all`` is every one. Unset,
each backend and each compiler is there, but not each with each. A test says with a marker, or by
asking for a fixture, what it needs of a device. It is not collected for devices that lack it; the
last lines of a run count what was left out, by device and reason. Where all devices lack it, the
test is skipped by that name.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import pytest

from portable import registry
from portable.array.creation import is_ours
from portable.backend import Capabilities, Device
from portable.errors import UnsupportedError


def _has_namespace(device: Device) -> bool:
    try:
        device.namespace()
    except UnsupportedError:
        return False
    return True


def _has(test: Callable[[Capabilities], bool]) -> Callable[[Device], bool]:
    return lambda device: test(device.capabilities)


def _has_our_arrays(device: Device) -> bool:
    return is_ours(device.for_arrays())


_NEEDS: Final[dict[str, tuple[str, Callable[[Device], bool]]]] = {
    "needs_float64": ("double precision", _has(lambda c: c.float64)),
    "needs_native_half": ("arithmetic in half precision", _has(lambda c: c.native_half)),
    "needs_sub_groups": ("sub-groups", _has(lambda c: c.sub_group_size > 1)),
    "needs_acq_rel": ("ordered atomics", _has(lambda c: c.memory_orders == "acq_rel")),
    "needs_forward_progress": ("forward progress", _has(lambda c: c.forward_progress)),
    "needs_compiler": ("a compiler", lambda device: not device.interprets),
    "needs_namespace": ("an Array API namespace", _has_namespace),
}
"""By marker."""

_NEEDS_OF_FIXTURES: Final[dict[str, tuple[str, Callable[[Device], bool]]]] = {
    "ours": ("arrays of portable.array", _has_our_arrays),
    "simulated": (
        "an interpreter, which takes many shapes without compiling any",
        lambda device: device.interprets and _has_our_arrays(device),
    ),
}

_left_out: Final[Counter[str]] = Counter()
"""Tests that were not collected, by device and reason."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("needs_processor") and not registry.devices_of_backend("cpu"):
        pytest.skip("no runtime for the processor was found, which runs NumPy's arrays")


def _device_names() -> list[str]:
    chosen = os.environ.get("PORTABLE_TEST_DEVICES", "")
    names = [name.strip() for name in chosen.split(",") if name.strip()]
    found = [device for device in registry.devices() if not _is_double(device)]
    if names == ["all"]:
        return [device.name for device in found]
    return names or [device.name for device in _each_path_and_runtime(found)]


def _each_path_and_runtime(found: list[Device]) -> list[Device]:
    """Devices that cover every backend and every compiler, but not each with each.

    Where two backends have two runtimes in common, one is run through one of them, the other
    through the other: a compiler's fault shows whichever way its text comes.
    """
    runtimes: set[tuple[str, str]] = set()
    kept: list[Device] = []
    for backend in dict.fromkeys(device.backend for device in found):
        own = [device for device in found if device.backend == backend]
        fresh = [device for device in own if _runtime(device) not in runtimes]
        kept.append((fresh or own)[0])
        runtimes.add(_runtime(kept[-1]))
    for device in found:
        if _runtime(device) not in runtimes:
            kept.append(device)
            runtimes.add(_runtime(device))
    return kept


def _runtime(device: Device) -> tuple[str, str]:
    return device.capabilities.name, device.capabilities.driver


def _is_double(device: Device) -> bool:
    """Whether it only gives another device its arrays, on which `tests/array` runs it."""
    return any(d.for_arrays() is device for d in registry.devices() if d is not device)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", _devices_for(metafunc), indirect=True)


def _devices_for(metafunc: pytest.Metafunc) -> list[str]:
    """Those that have what a test needs; one that lacks it, to say so, if none does."""
    names = _device_names()
    markers = [marker.name for marker in metafunc.definition.iter_markers()]
    lacking = {
        name: _lacks(registry.device(name), markers, metafunc.fixturenames) for name in names
    }
    able = [name for name in names if not lacking[name]]
    _left_out.update(lacking[name] for name in names if able and lacking[name])
    return able or names[:1]


def _lacks(device: Device, markers: list[str], fixtures: list[str]) -> str:
    """What a device lacks of what a test needs, in words; empty if nothing."""
    needs = [_NEEDS[name] for name in markers if name in _NEEDS]
    needs += [_NEEDS_OF_FIXTURES[name] for name in fixtures if name in _NEEDS_OF_FIXTURES]
    return next(
        (f"{device.name} lacks {what}" for what, supplied in needs if not supplied(device)), ""
    )


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn; skipped where it lacks what the test needs."""
    found = registry.device(request.param)
    markers = [marker.name for marker in request.node.iter_markers()]
    if lacking := _lacks(found, markers, request.fixturenames):
        pytest.skip(lacking)
    if _name_of_dtype(request) in ("float64", "complex128") and not found.capabilities.float64:
        pytest.skip(f"{found.name} lacks double precision")
    return found


def _name_of_dtype(request: pytest.FixtureRequest) -> str:
    """That of the test's parameter, if it has one."""
    callspec = getattr(request.node, "callspec", None)
    given = callspec.params.get("dtype", "") if callspec else ""
    return str(getattr(given, "name", given))


# -- what was not collected is counted at the end -------------------------------------------------


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the counts of a worker of pytest-xdist to the process that reports."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes them; all workers collect alike."""
    _left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}) if not _left_out else {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason, count in sorted(_left_out.items()):
        terminalreporter.write_line(f"not collected: {count} tests, since {reason}")
