"""The `device` fixture: one suite, run on every device that is found here.

``PORTABLE_TEST_DEVICES`` chooses devices by name, separated by commas; ``all`` is every one. Unset,
each backend and each compiler is there, but not each with each. A test says with a marker
what it needs of a device, and is skipped by that name where the device lacks it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from portable import registry
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


_NEEDS: dict[str, tuple[str, Callable[[Device], bool]]] = {
    "needs_float64": ("double precision", _has(lambda c: c.float64)),
    "needs_native_half": ("arithmetic in half precision", _has(lambda c: c.native_half)),
    "needs_sub_groups": ("sub-groups", _has(lambda c: c.sub_group_size > 1)),
    "needs_acq_rel": ("ordered atomics", _has(lambda c: c.memory_orders == "acq_rel")),
    "needs_forward_progress": ("forward progress", _has(lambda c: c.forward_progress)),
    "needs_compiler": ("a compiler", lambda device: not device.interprets),
    "needs_namespace": ("an Array API namespace", _has_namespace),
}


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
        metafunc.parametrize("device", _device_names(), indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """Each device in turn; skipped where it lacks what the test's markers say that it needs."""
    found = registry.device(request.param)
    for marker in request.node.iter_markers():
        if marker.name in _NEEDS:
            what, supplied = _NEEDS[marker.name]
            if not supplied(found):
                pytest.skip(f"{found.name} lacks {what}")
    if _name_of_dtype(request) in ("float64", "complex128") and not found.capabilities.float64:
        pytest.skip(f"{found.name} lacks double precision")
    return found


def _name_of_dtype(request: pytest.FixtureRequest) -> str:
    """That of the test's parameter, if it has one."""
    callspec = getattr(request.node, "callspec", None)
    given = callspec.params.get("dtype", "") if callspec else ""
    return str(getattr(given, "name", given))
