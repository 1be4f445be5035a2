"""The devices that the suite runs on, and what tests need of them.

``PORTABLE_TEST_DEVICES`` chooses devices by name, separated by commas; ``all`` is every one. Unset,
each backend and each compiler is there, but not each with each. Every case of a test runs on the
simulator, on GPUs and on one of the processor's devices; on the others of the processor the first
case of each test and one in sixteen of the rest. Tests of the language, of gradients and of
operations are on one of those others the first of a file every day, the rest on one day of four,
by ``PORTABLE_TEST_DAY`` (today, where that is unset): all come to all within some days. Tests of
operations, whose kernels are large, do with less on processors: of several cases that the simulator
runs all, every twelfth is compiled there; and of the others that have the first one's compiler it
is the first case alone. Pages and examples run on the simulator and on one
of the processor's backends in turn. Tests of the printer of programs take runtimes for the
processor instead, and are chosen as if these were devices.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Final
from zlib import crc32

from portable import registry
from portable.array.base.defaults import is_ours
from portable.backend import Capabilities, Device
from portable.errors import UnsupportedError

_DAY: Final = "PORTABLE_TEST_DAY"
_EVERY: Final = 16
"""One case in so many of each test runs on the processor's further devices."""

_EVERY_FIRST: Final = 12
_MANY: Final = 2
"""One case in so many runs on its first device, of operations' tests with at least this many."""

_DAYS: Final = 4
"""The processor's further devices have a test, not the first of a file, on one day of so many."""

_OTHERS_TURN: Final = "it is the turn of another device of the processor than {}"

_SIMULATOR: Final = "simulator"
_LEAD: Final = "cpu:native-arrays"

_OF_USERS: Final = ("tests/docs/", "tests/test_examples.py")
"""Tests of which every case runs on one of the processor's backends."""

_OF_LANGUAGE: Final = ("tests/lang/", "tests/emit/", "tests/gradients/")
"""Tests that all run on the simulator and the processor's first device, and on others in turn."""

_OF_OPERATIONS: Final = tuple(
    f"tests/{room}/"
    for room in (
        "array",
        "conv",
        "gf2",
        "linalg",
        "nn",
        "numerics",
        "primitives",
        "random_numbers",
        "bench",
    )
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


@cache
def device_names() -> list[str]:
    """The devices to run on, first the one of the processor that runs all cases."""
    found = [device for device in registry.devices() if not _is_double(device)]
    if _chosen() == ["all"]:
        return [device.name for device in found]
    return _chosen() or [device.name for device in _each_path_and_runtime(found)]


def spared(cases: Sequence[tuple[str, str]]) -> list[str]:
    """Which cases, given as a test's name in full and its device, are left to other devices.

    Returns
    -------
    list of str
        For each case why, or nothing.
    """
    names = [] if _chosen() else _of_processor(device_names())
    if not names:
        return [""] * len(cases)
    first, further = names[0], names[1:]
    alike = [name for name in further if _compiler(name) == _compiler(first)]
    by_backend = {name.partition(":")[0]: name for name in reversed(names)}
    backends = [name for name in names if name in by_backend.values()]
    leading = {_file(case): _function(case) for case, _ in reversed(cases)}
    totals = Counter((_function(case), name) for case, name in cases)
    seen: Counter[tuple[str, str]] = Counter()
    reasons = []
    for case, name in cases:
        test = _function(case)
        seen[test, name] += 1
        is_first, large = seen[test, name] == 1, test.startswith(_OF_OPERATIONS)
        simulated = totals[test, _SIMULATOR] >= totals[test, name] >= _MANY
        reason = ""
        if test.startswith(_OF_USERS):
            reason = "" if name not in names else _of_users(case, name, backends)
        elif name in (late := out_of_turn(test, leads=leading[_file(case)] == test)):
            reason = late[name]
        elif (
            not is_first and name in further and ((large and name in alike) or _draw(case, _EVERY))
        ):
            reason = f"{name} is not the processor's first device"
        elif not is_first and name == first and large and simulated and _draw(case, _EVERY_FIRST):
            reason = f"{name} compiles them, and {_SIMULATOR} runs them all"
        reasons.append(reason)
    return reasons


@cache
def out_of_turn(test: str, *, leads: bool) -> Mapping[str, str]:
    """The processor's further devices whose turn a test is not, and what is said of each.

    Parameters
    ----------
    test : str
        Its name in full, without parameters.
    leads : bool
        Whether it is the first of its file.
    """
    first, *further = ([] if _chosen() else _of_processor(device_names())) or [""]
    if not further or not test.startswith((*_OF_OPERATIONS, *_OF_LANGUAGE)):
        return {}
    in_turn = [*further, *[first] * ((0 if leads else _DAYS - 1) * len(further))]
    turn = in_turn[(crc32(test.encode()) + day()) % len(in_turn)]
    return {name: _OTHERS_TURN.format(name) for name in further if name != turn}


def compiled_by(vendor: str) -> str:
    """The first of the processor's devices that has this vendor's compiler; empty if none has."""
    names = _of_processor(device_names())
    return next((name for name in names if _compiler(name) == vendor), "")


def keep_no_binaries(device: Device) -> None:
    """Has PoCL's devices keep no programs on disk, which takes half of what compiling one does.

    Those who test what is kept set it otherwise.
    """
    if device.capabilities.vendor == "pocl":
        device._runtime.keeps = False  # type: ignore[attr-defined]


def _of_users(case: str, name: str, backends: Sequence[str]) -> str:
    """Why a case is not for one of the processor's devices, whose backends take turns."""
    if name not in backends:
        return f"{name} is not its backend's first device"
    turn = backends[crc32(case.replace(name, "").encode()) % len(backends)]
    return "" if name == turn else _OTHERS_TURN.format(name)


def day() -> int:
    """Which one it is in the order in which devices have tests, the same for all processes."""
    return int(os.environ.setdefault(_DAY, str(date.today().toordinal())))


def of_today(*choices: str) -> list[str]:
    """One of several that come to the same, another one each day."""
    return [choices[day() % len(choices)]]


def _function(case: str) -> str:
    return case.partition("[")[0]


def _file(case: str) -> str:
    return case.partition("::")[0]


def _draw(case: str, of: int) -> bool:
    """Whether a case is drawn to be left out; one in so many is not, whatever its parameters."""
    return crc32(case.encode()) % of != 0


def _chosen() -> list[str]:
    chosen = os.environ.get("PORTABLE_TEST_DEVICES", "")
    return [name.strip() for name in chosen.split(",") if name.strip()]


def _each_path_and_runtime(found: list[Device]) -> list[Device]:
    """Devices that cover every backend and every compiler, but not each with each.

    First comes one of the processor on which all tests can run, arrays of `portable.array`
    included: that by LLVM, which compiles fastest.
    """
    lead = [*_by_llvm(), *(d for d in found if _is_processor(d) and _has_our_arrays(d))][:1]
    paths, runtimes = set[tuple[str, str]](), {_runtime(d) for d in lead}
    kept = list(lead)
    for device in found:
        path = device.backend, device.capabilities.dialect
        if device not in kept and (path not in paths or _runtime(device) not in runtimes):
            kept.append(device)
            paths.add(path)
            runtimes.add(_runtime(device))
    return kept


def _by_llvm() -> list[Device]:
    """The one that has arrays of `portable.array`, where kernels can be compiled by LLVM."""
    names = [device.name for device in registry.devices_of_backend("cpu")]
    return [registry.device(_LEAD)] if _LEAD.removesuffix("-arrays") in names else []


def _of_processor(names: list[str]) -> list[str]:
    return [name for name in names if _is_processor(registry.device(name))]


def _is_processor(device: Device) -> bool:
    return device.capabilities.kind == "cpu"


def _runtime(device: Device) -> tuple[str, str]:
    return device.capabilities.name, device.capabilities.driver


def _compiler(name: str) -> str:
    return registry.device(name).capabilities.vendor


def _is_double(device: Device) -> bool:
    """Whether it only gives another device its arrays, on which `tests/array` runs it."""
    return any(d.for_arrays() is device for d in registry.devices() if d is not device)
