"""Remarks on kernels: warnings with the line of what compiles and may not be meant."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.errors import Remark
from portable.system import console


@pytest.fixture(autouse=True)
def _nothing_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "_told", set())


def remarks_of(device: Device, kernel: Any, *args: Any) -> list[warnings.WarningMessage]:
    arrays = [pt.asarray(x, device=device) for x in args]
    with pt.use(device), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pt.kernel(kernel.python)[len(args[0])](*arrays)
    return caught


@pt.kernel
def narrowed(x, out):
    i = kl.global_id(0)
    out[i] = x[i] + 1


@pt.kernel
def narrowed_by_word(x, out):
    i = kl.global_id(0)
    out[i] = kl.i32(x[i] + 1)


def test_64_bits_stored_in_32_are_remarked(device: Device) -> None:
    wide, narrow = np.arange(4), np.zeros(4, np.int32)
    (found,) = remarks_of(device, narrowed, wide, narrow)
    assert found.category is Remark
    assert found.lineno == narrowed.python.__code__.co_firstlineno + 3
    assert "i64 value stored in i32 array out wraps" in str(found.message)
    assert "kl.i32(...)" in str(found.message)
    assert remarks_of(device, narrowed, wide, narrow) == []  # once


def test_what_is_meant_is_not_remarked(device: Device) -> None:
    wide, narrow, small = np.arange(4), np.zeros(4, np.int32), np.zeros(4, np.int8)
    assert remarks_of(device, narrowed_by_word, wide, narrow) == []
    assert remarks_of(device, narrowed, wide, wide.copy()) == []
    assert remarks_of(device, narrowed, narrow, small) == []
