"""Kernels and fused functions mean what the names in them stand for when they are launched."""

from __future__ import annotations

import sys
import types
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device


class Scale(NamedTuple):
    by: float


class Colour(Enum):
    RED = 2.0
    BLUE = 3.0


class Settings:
    factor = 2.0


@pt.function
def twice(x):
    return 2 * x


@pt.function
def thrice(x):
    return 3 * x


def plain_twice(x):
    return 2 * x


def plain_thrice(x):
    return 3 * x


FACTOR: Any = 2
settings: Any = types.ModuleType("settings")


def helper(x):
    return deeper(x)


def deeper(x):
    return x * FACTOR


def by_number(x):
    return x * FACTOR


def by_item(x):
    return x * FACTOR[0]


def by_function(x):
    return FACTOR(x)


def by_struct(x):
    return x * FACTOR.by


def by_member(x):
    return x * FACTOR.value


def by_dtype(x):
    return x * kl.f32(FACTOR(2.5))


def by_module(x):
    return x * settings.FACTOR


def by_class(x):
    return x * Settings.factor


@pt.kernel
def applied(x, *, F):
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = F(x[i])


WAYS = [
    (by_number, 2, 3),
    (by_number, 2.0, 3.0),
    (by_number, np.float32(2), np.float32(3)),
    (by_number, np.int64(2), np.int64(3)),
    (helper, 2.0, 3.0),
    (by_item, (2.0,), (3.0,)),
    (by_function, twice, thrice),
    (by_function, plain_twice, plain_thrice),
    (by_struct, Scale(2.0), Scale(3.0)),
    (by_member, Colour.RED, Colour.BLUE),
    (by_dtype, kl.i32, kl.f32),
    (by_dtype, np.int32, np.float32),
    (by_module, 2.0, 3.0),
    (by_class, 2.0, 3.0),
]


@pytest.mark.parametrize(("way", "first", "second"), WAYS)
def test_kernels(
    device: Device, way: Any, first: Any, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, expected in [(first, 2), (second, 3), (second, 3), (first, 2), (second, 3)]:
        _set(monkeypatch, value)
        if way is by_dtype:
            expected = {2: 2, 3: 2.5}[expected]
        for size in (4, 4, 8):  # a launch like the last one, and another
            x = pt.asarray(np.full(size, 7, np.float32), device=device)
            applied[size, 4](x, F=way)
            assert pt.to_numpy(x).tolist() == [7 * expected] * size


def _set(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", value)
    monkeypatch.setattr(settings, "FACTOR", value, raising=False)
    monkeypatch.setattr(Settings, "factor", value)


@pytest.mark.parametrize(
    ("way", "first", "second"), [x for x in WAYS if x[0] not in (by_dtype, by_class)]
)
def test_fused_functions(
    device: Device, way: Any, first: Any, second: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if first is twice:
        pytest.skip("Python does not run what is marked")
    fused = pt.fuse(way)
    x = pt.asarray(np.full(8, 7, np.float32), device=device)
    for value, expected in [(first, 2), (second, 3), (first, 2)]:
        _set(monkeypatch, value)
        assert pt.to_numpy(fused(x)).tolist() == [7 * expected] * 8


def test_what_a_closure_holds(device: Device) -> None:
    factor = 2.0

    @pt.kernel
    def scale(x):
        i = kl.global_id(0)
        x[i] *= factor

    x = pt.asarray(np.full(4, 7, np.float32), device=device)
    scale[4, 4](x)
    factor = 3.0
    scale[4, 4](x)
    assert pt.to_numpy(x).tolist() == [42] * 4


def test_what_is_prepared_stays_as_it_is(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, 2.0)
    x = pt.asarray(np.full(4, 7, np.float32), device=device)
    again = applied[4, 4].prepare(x, F=by_number)
    _set(monkeypatch, 3.0)
    again()
    assert pt.to_numpy(x).tolist() == [14] * 4


def test_a_list_that_a_fused_function_names() -> None:
    numbers = [2.0]
    fused = pt.fuse(lambda x: x * numbers[0])
    assert fused(np.ones(3))[0] == 2
    numbers[0] = 3.0
    assert fused(np.ones(3))[0] == 3


@pt.function
def marked(x):
    return x * FACTOR


@pytest.mark.parametrize("function", [marked, helper])
def test_primitives(device: Device, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = pt.asarray(np.full(8, 7, np.float32), device=device)
    for value in (2.0, 3.0, 3.0, 2.0):
        _set(monkeypatch, value)
        assert pt.to_numpy(primitives.map(function, x)).tolist() == [7 * value] * 8
