"""The devices that the suite runs on, and what tests need of them.

``PORTABLE_TEST_DEVICES`` chooses devices by name, separated by commas; ``all`` is every one. Unset,
each backend and each compiler is there, but not each with each; and where two devices have a
compiler in common, only every fourth case of a test runs on the second of them, the first always.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from portable import registry
from portable.array.creation import is_ours
from portable.backend import Capabilities, Device
from portable.errors import UnsupportedError

__all__ = ["device_names", "lacks", "spared"]

_EVERY: Final = 4
"""One case in so many of each test runs where another device has the same compiler."""

Need = tuple[str, Callable[[Device], bool]]


def _has_namespace(device: Device) -> bool:
    try:
        device.namespace()
    except UnsupportedError:
        return False
    return True


def _has_our_arrays(device: Device) -> bool:
    return is_ours(device.for_arrays())


def _has(test: Callable[[Capabilities], bool]) -> Callable[[Device], bool]:
    return lambda device: test(device.capabilities)


_OF_MARKERS: Final[dict[str, Need]] = {
    "needs_float64": ("double precision", _has(lambda c: c.float64)),
    "needs_native_half": ("arithmetic in half precision", _has(lambda c: c.native_half)),
    "needs_sub_groups": ("sub-groups", _has(lambda c: c.sub_group_size > 1)),
    "needs_acq_rel": ("ordered atomics", _has(lambda c: c.memory_orders == "acq_rel")),
    "needs_forward_progress": ("forward progress", _has(lambda c: c.forward_progress)),
    "needs_compiler": ("a compiler", lambda device: not device.interprets),
    "needs_namespace": ("an Array API namespace", _has_namespace),
}

_OF_FIXTURES: Final[dict[str, Need]] = {
    "ours": ("arrays of portable.array", _has_our_arrays),
    "simulated": (
        "an interpreter, which takes many shapes without compiling any",
        lambda device: device.interprets and _has_our_arrays(device),
    ),
}


def lacks(device: Device, markers: Iterable[str], fixtures: Iterable[str]) -> str:
    """What a device lacks of what a test needs, in words; empty if nothing."""
    needs = [_OF_MARKERS[name] for name in markers if name in _OF_MARKERS]
    needs += [_OF_FIXTURES[name] for name in fixtures if name in _OF_FIXTURES]
    return next(
        (f"{device.name} lacks {what}" for what, supplied in needs if not supplied(device)), ""
    )


def device_names() -> list[str]:
    """The devices to run on."""
    found = [device for device in registry.devices() if not _is_double(device)]
    if _chosen() == ["all"]:
        return [device.name for device in found]
    return _chosen() or [device.name for device in _each_path_and_runtime(found)]


def spared(cases: Iterable[tuple[str, str]]) -> list[str]:
    """Which cases, given as test and device, are left to another device with the same compiler.

    Returns
    -------
    list of str
        For each case why, or nothing.
    """
    first = {} if _chosen() else _first_of_runtime(device_names())
    seen: Counter[tuple[str, str]] = Counter()
    reasons = []
    for test, name in cases:
        other = first.get(name, name)
        spare = other != name and seen[test, name] % _EVERY != 0
        seen[test, name] += 1
        reasons.append(f"{name} has the compiler of {other}, which runs them" if spare else "")
    return reasons


def _chosen() -> list[str]:
    chosen = os.environ.get("PORTABLE_TEST_DEVICES", "")
    return [name.strip() for name in chosen.split(",") if name.strip()]


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


def _first_of_runtime(names: list[str]) -> dict[str, str]:
    """For each device the first one with its compiler."""
    first: dict[tuple[str, str], str] = {}
    devices = [registry.device(name) for name in names]
    return {device.name: first.setdefault(_runtime(device), device.name) for device in devices}


def _runtime(device: Device) -> tuple[str, str]:
    return device.capabilities.name, device.capabilities.driver


def _is_double(device: Device) -> bool:
    """Whether it only gives another device its arrays, on which `tests/array` runs it."""
    return any(d.for_arrays() is device for d in registry.devices() if d is not device)
