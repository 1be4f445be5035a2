"""The devices that the suite runs on, and what tests need of them.

``PORTABLE_TEST_DEVICES`` chooses devices by name, separated by commas; ``all`` is every one. Unset,
each backend and each compiler is there, but not each with each. Every case of a test runs on the
simulator, on GPUs and on one of the processor's devices; on the others of the processor the first
case of each test and every eighth of the rest. Those others that have the first one's compiler
take turns in tests of operations, whose kernels are large: what differs there is how kernels are
launched, which each operation goes through in one test or another.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final
from zlib import crc32

from portable import registry
from portable.array.creation import is_ours
from portable.backend import Capabilities, Device
from portable.errors import UnsupportedError

__all__ = ["device_names", "lacks", "spared"]

_EVERY: Final = 8
"""One case in so many of each test runs on the processor's further devices."""

_OF_OPERATIONS: Final = tuple(
    f"tests/{room}/"
    for room in ("array", "conv", "gf2", "linalg", "nn", "numerics", "primitives", "random_numbers")
)

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
    """The devices to run on, first the one of the processor that runs all cases."""
    found = [device for device in registry.devices() if not _is_double(device)]
    if _chosen() == ["all"]:
        return [device.name for device in found]
    return _chosen() or [device.name for device in _each_path_and_runtime(found)]


def spared(cases: Iterable[tuple[str, str]]) -> list[str]:
    """Which cases, given as test and device, are left to another device of the processor.

    Returns
    -------
    list of str
        For each case why, or nothing.
    """
    first, *further = [""] if _chosen() else _of_processor(device_names()) or [""]
    alike = [name for name in further if _same_compiler(name, first)]
    seen: Counter[tuple[str, str]] = Counter()
    reasons = []
    for test, name in cases:
        count = seen[test, name]
        seen[test, name] += 1
        reason = ""
        if name in alike and test.startswith(_OF_OPERATIONS):
            turn = alike[crc32(test.encode()) % len(alike)]
            reason = "" if name == turn else f"{name} and {turn} take turns"
        # Each device takes other cases, so that together they come to most.
        if not reason and count and name in further and (count + further.index(name)) % _EVERY:
            reason = f"{name} is not the processor's first device"
        reasons.append(reason)
    return reasons


def _chosen() -> list[str]:
    chosen = os.environ.get("PORTABLE_TEST_DEVICES", "")
    return [name.strip() for name in chosen.split(",") if name.strip()]


def _each_path_and_runtime(found: list[Device]) -> list[Device]:
    """Devices that cover every backend and every compiler, but not each with each.

    First comes one of the processor on which all tests can run, arrays of `portable.array`
    included.
    """
    lead = [d for d in found if _is_processor(d) and _has_our_arrays(d)][:1]
    backends, runtimes = {d.backend for d in lead}, {_runtime(d) for d in lead}
    kept = list(lead)
    for device in found:
        if device.backend not in backends or _runtime(device) not in runtimes:
            kept.append(device)
            backends.add(device.backend)
            runtimes.add(_runtime(device))
    return kept


def _of_processor(names: list[str]) -> list[str]:
    return [name for name in names if _is_processor(registry.device(name))]


def _same_compiler(one: str, other: str) -> bool:
    return _runtime(registry.device(one)) == _runtime(registry.device(other))


def _is_processor(device: Device) -> bool:
    return device.capabilities.kind == "cpu"


def _runtime(device: Device) -> tuple[str, str]:
    return device.capabilities.name, device.capabilities.driver


def _is_double(device: Device) -> bool:
    """Whether it only gives another device its arrays, on which `tests/array` runs it."""
    return any(d.for_arrays() is device for d in registry.devices() if d is not device)
