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


@pt.kernel
def unguarded(x, limit):
    i, j = kl.global_id(0), kl.global_id(1)
    x[j, i] = 1
    if limit > 3:
        x[j, i] += 1


@pt.kernel
def left_early(x, limit):
    if limit > 3:
        return
    x[kl.global_id(1), kl.global_id(0)] = 1


@pt.kernel
def guarded(x):
    i, j = kl.global_id(0), kl.global_id(1)
    if i < x.shape[1] and kl.group_id(1) * kl.local_size(1) + kl.local_id(1) < x.shape[0]:
        x[j, i] = 1


@pytest.mark.needs_compiler
def test_work_items_that_leave_an_array_are_remarked(device: Device) -> None:
    """Those asked for, on devices that do not look at each index, unless something limits them."""
    room = pt.asarray(np.zeros((8, 16), np.float32), device=device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        unguarded[(16, 8), None].lower(room, 1)
        guarded[(100, 100), (4, 4)].lower(room)
        left_early[(100, 100), (4, 4)].lower(room, 4)
        assert caught == []
        unguarded[(20, 8), None].lower(room, 1)
    first = unguarded.python.__code__.co_firstlineno
    assert {x.lineno - first for x in caught} == {3}
    text = str(caught[0].message)
    assert "over 20 work-items along dimension 0" in text
    assert "leave x, whose extent is 16" in text
    assert "later; launch 16, or write if kl.global_id(0) < x.shape[1]: around it" in text


@pytest.mark.needs_compiler
def test_launches_over_an_empty_array_are_to_be_skipped(device: Device) -> None:
    """No launch is of 0 work-items."""
    empty = pt.asarray(np.zeros((8, 0), np.float32), device=device)
    with pytest.warns(Remark, match="whose extent is 0, .* later; skip the launch, or write if"):
        unguarded[(1, 8), None].lower(empty, 1)
