"""Which cases there are, and a run of them that lists what failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from portable.array.base.defaults import is_ours
from portable.backend import Device
from tests.support.ordinary.arrays import array_functions
from tests.support.ordinary.checks import failure, lacking
from tests.support.ordinary.model import Case, Function
from tests.support.ordinary.others import other_functions


def functions() -> list[Function]:
    """All that are known here."""
    return [*array_functions(), *other_functions()]


def cases(named: str = "", whole: bool = False) -> Iterator[Case]:
    """Functions, whose names hold a word, by dtypes by shapes, of which some do unless `whole`."""
    turn = 0
    for function in functions():
        for dtype in function.dtypes():
            turn += 1
            if named in function.name:
                for shape in function.shapes(turn, whole):
                    yield Case(function, dtype, shape)


@dataclass
class Outcome:
    """What a run found.

    Attributes
    ----------
    passed : int
        Cases that are as NumPy's.
    left_out : int
        Those that the device has no function or dtype for.
    failed : list of (Case, str)
        The others, and what is wrong.
    slowest : list of (float, Case)
        Seconds of each.
    """

    passed: int = 0
    left_out: int = 0
    failed: list[tuple[Case, str]] = field(default_factory=list)
    slowest: list[tuple[float, Case]] = field(default_factory=list)


def run(
    device: Device,
    chosen: Sequence[Case],
    told: Callable[[str], object] = print,
    seconds: float = float("inf"),
) -> Outcome:
    """Runs cases on a device and tells of each that fails; stops when the time is up."""
    outcome, until = Outcome(), time.monotonic() + seconds
    ours = is_ours(device.for_arrays())
    for case in chosen:
        if time.monotonic() > until:
            break
        if lacking(case, device, ours):
            outcome.left_out += 1
            continue
        begun = time.monotonic()
        fault = failure(case, device.for_arrays() if ours else device)
        outcome.slowest.append((time.monotonic() - begun, case))
        if fault:
            outcome.failed.append((case, fault))
            told(f"FAILED {case}: {fault}")
        else:
            outcome.passed += 1
    outcome.slowest.sort(key=lambda item: -item[0])
    return outcome
