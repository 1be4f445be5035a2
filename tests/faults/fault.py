"""What a planted fault is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Detector = Literal[
    "race", "bounds", "uninitialised", "divergence", "wait", "copy", "uniform", "promise", "result"
]
"""What finds faults: checks of the simulator by the kind of its error, and wrong results."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place in a function, and what stands there instead.

    Attributes
    ----------
    where : str
        ``"module:function"``: a kernel, a helper of kernels, or a function of the host.
    old, new : str
        A statement or an expression, and what takes its place; layout and comments do not matter.
        Of a statement to be left out, `new` is ``"pass"``.
    which, of : int
        Which of so many places that read alike, counted from 0.
    """

    where: str
    old: str
    new: str
    which: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and how it is found.

    Attributes
    ----------
    name : str
        What is wrong, in words.
    change : Change
        The fault.
    run : str
        The run of `tests.faults.runs` that shows it.
    found_by : Detector
        What reports it first.
    checks : mapping
        Settings of the simulator that the run needs, such as a seed.
    """

    name: str
    change: Change
    run: str
    found_by: Detector
    checks: Mapping[str, Any] = field(default_factory=dict)


BARRIER: Final = "kl.barrier()"


def fault(
    name: str,
    where: str,
    old: str,
    new: str,
    run: str,
    found_by: Detector,
    *,
    which: int = 0,
    of: int = 1,
    **checks: Any,
) -> Fault:
    """A fault in one line of arguments; `checks` are settings of the simulator."""
    return Fault(name, Change(where, old, new, which, of), run, found_by, checks)


def without_barrier(
    where: str, which: int, of: int, name: str, run: str, found_by: Detector = "race"
) -> Fault:
    """A barrier left out, one of so many of a function."""
    return fault(name, where, BARRIER, "pass", run, found_by, which=which, of=of)
