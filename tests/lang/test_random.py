"""Random kernels agree between the simulator, every device, and Python itself.

``PORTABLE_FUZZ`` sets the number of kernels per device, then new ones in every run.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable as pt
from portable.backend import Device
from tests.support.launch import run
from tests.support.random_exchange import ITEMS, LANES, random_exchange
from tests.support.random_kernels import Recorder, evaluate, imported
from tests.support.random_text import KINDS, ROWS, STORED, random_kernel
from tests.support.random_workgroups import ITEMS as WORKGROUP
from tests.support.random_workgroups import TOTALS, random_workgroups

WORK_ITEMS = 5
FUZZ = int(os.environ.get("PORTABLE_FUZZ", "0"))
HELD = (*KINDS, *STORED)
NUMPY = {"i": "int", "u": "uint", "f": "float"}


def _profile(examples: int) -> settings:
    return settings(
        max_examples=FUZZ or examples,
        derandomize=not FUZZ,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def _dtype(kind: str) -> np.dtype[Any]:
    return np.dtype(NUMPY[kind[0]] + kind[1:])


def _inputs() -> list[np.ndarray[Any, Any]]:
    found = []
    for kind in HELD:
        if kind[0] == "f":
            some = np.array([-2.75, 0.1, 1e9 if kind != "f16" else 1e4, -3.0])
        else:
            some = np.array([3, 2**31 - 1, 10, 77])
        found.append(some.astype(_dtype(kind)))
        if kind[0] == "i":
            found[-1][2] = np.iinfo(found[-1].dtype).min
    return found


def _check(device: Device, text: str, folder: Path) -> None:
    inputs = _inputs()
    outs = [np.zeros((WORK_ITEMS, ROWS), _dtype(kind)) for kind in HELD]
    expected = [out.copy() for out in outs]
    loaded = [STORED.get(kind, kind) for kind in HELD]
    seen = [Recorder(a, k) for a, k in zip([*inputs, *expected], loaded * 2, strict=True)]
    evaluate(text, WORK_ITEMS, *seen)
    kernel = imported(text, folder).kernel
    found = run(device, kernel[WORK_ITEMS, 4], *inputs, *outs)
    for kind, ours, theirs in zip(HELD, found[len(HELD) :], expected, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=f"{kind} in\n{text}")


@pytest.mark.needs_float64
@_profile(12)
@given(random=st.randoms(use_true_random=False))
def test_random_kernels(device: Device, tmp_path: Path, random: Random) -> None:
    _check(device, random_kernel(random), tmp_path)


@_profile(60)
@given(random=st.randoms(use_true_random=False))
def test_many_random_kernels_in_the_simulator(tmp_path: Path, random: Random) -> None:
    _check(pt.device("simulator"), random_kernel(random), tmp_path)


@_profile(8)
@given(random=st.randoms(use_true_random=False))
def test_random_vectors_and_complex_numbers_exchanged(
    device: Device, tmp_path: Path, random: Random
) -> None:
    """Held against the simulator, which also looks for races and unwritten memory."""
    text = random_exchange(random)
    kernel = imported(text, tmp_path).kernel
    items = 2 * ITEMS
    x = np.arange(-30, 34, dtype=np.int32).reshape(items, LANES) * 1000003
    y = (np.arange(-30, 34, dtype=np.float32) / 8).reshape(items, LANES)
    outs = [np.zeros_like(x), np.zeros_like(y), np.zeros(items, np.complex64)]
    launcher = kernel[items, ITEMS]
    with np.errstate(all="ignore"):
        wanted = run(pt.device("simulator"), launcher, x, y, *outs)
    for found, want in zip(run(device, launcher, x, y, *outs), wanted, strict=True):
        np.testing.assert_array_equal(found, want, err_msg=text)


@pytest.mark.needs_float64
@_profile(3)
@given(random=st.randoms(use_true_random=False))
def test_random_workgroups(device: Device, tmp_path: Path, random: Random) -> None:
    """Held against the simulator too."""
    text = random_workgroups(random, nesting=2 if FUZZ else 1)
    items = 3 * WORKGROUP
    outs = [np.zeros((items, ROWS), _dtype(kind)) for kind in HELD]
    totals = [np.full(len(TOTALS), 1000, _dtype(kind)) for kind in KINDS[:4]]
    launcher = imported(text, tmp_path).kernel[items, WORKGROUP]
    with np.errstate(all="ignore"):
        wanted = run(pt.device("simulator"), launcher, *_inputs(), *outs, *totals)
    for found, want in zip(run(device, launcher, *_inputs(), *outs, *totals), wanted, strict=True):
        np.testing.assert_array_equal(found, want, err_msg=text)
