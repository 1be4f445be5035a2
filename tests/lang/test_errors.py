"""What a user sees of an error: few lines, the kernel, and the calls that led to the place."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import errors
from portable import lang as kl


@pt.function
def inner(x):
    return x + kl.globalid(0)


@pt.function
def outer(x):
    return inner(x) * 2


@pt.kernel
def nested(x):
    x[0] = outer(x[0])


@pt.function
def one(x):
    return other(x) + 1


@pt.function
def other(x):
    return one(x + 1)


@pt.kernel
def circular(x):
    x[0] = one(x[0])


@pt.kernel
def outside(x):
    x[kl.global_id(0) + 7] = 1


@pt.function
def factorial(n):
    return 1 if n == 0 else n * factorial(n - 1)


@pt.kernel
def counted(x):
    x[0] = factorial(5)


def _raised(kernel: Any) -> tuple[errors.PortableError, str]:
    with pt.use("simulator"), pytest.raises(errors.PortableError) as caught:
        kernel[1, 1](np.zeros(3, np.float32))
    return caught.value, "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kernel", [nested, circular, outside])
def test_tracebacks_are_short(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> None:
    _, text = _raised(kernel)
    assert len(text.splitlines()) <= 14
    assert "KeyError" not in text
    monkeypatch.setenv("PORTABLE_TRACEBACK", "full")
    assert len(_raised(kernel)[1].splitlines()) > 20


def test_the_calls_from_the_kernel_to_the_place() -> None:
    error, _ = _raised(nested)
    calls = str(error).splitlines()[-3:]
    assert [line.split()[:2] for line in calls[:2]] == [["in", "inner,"], ["in", "outer,"]]
    assert calls[2] == "  in the kernel nested"
    assert str(error).splitlines()[3] == "  did you mean global_id?"


@pt.function
def stored_beyond(x):
    x[7] = 1


@pt.kernel
def faulty(x):
    stored_beyond(x)


@pt.kernel
def divided(x):
    x[0] = kl.workgroup_broadcast(x[0], kl.local_id(0))


def test_what_the_simulator_reports_of_helpers_names_the_calls() -> None:
    assert "\n  in stored_beyond, called at " in str(_raised(faulty)[0])
    with pt.use("simulator"), pytest.raises(errors.SimulationError) as caught:
        divided[16, 16](np.zeros(3, np.float32))
    calls = str(caught.value).splitlines()
    assert [x for x in calls if "in broadcast, called at" in x and "test_errors.py" in x]


def test_recursion_is_refused_at_once_unless_constants_end_it() -> None:
    error, _ = _raised(circular)
    assert "one calls itself without end: one -> other -> one" in str(error)
    x = np.zeros(3, np.float32)
    with pt.use("simulator"):
        counted[1, 1](x)
    assert x[0] == 120
