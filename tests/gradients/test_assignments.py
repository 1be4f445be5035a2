"""Gradients through ``x[key] = value``, and what is refused where arrays are made of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.errors import UnsupportedError
from tests.gradients.test_tape import differences, numbers

DEVICE = pt.device("cpu:native-arrays")
XP = pt.xp("cpu:native-arrays")
ROWS = XP.asarray(np.array([2, 0], np.int32))
SOME = XP.asarray(np.array([True, False, True]))


def great_ones(x: Any, _: Any) -> None:
    x[x > 0.5] = 0.25


def least_of_all(x: Any, y: Any) -> None:
    x[y < 0.5] = XP.min(y * y)
    x[y[:, 0] > 0.5] = np.float32(0.5)


def chosen(x: Any, y: Any) -> None:
    mask = y > 0.5
    x[mask] = y[mask] * x[mask]


def rows(x: Any, y: Any) -> None:
    x[ROWS] = y[1] * x[:2]
    x[SOME] *= y[:2]


def pairs(x: Any, y: Any) -> None:
    x[ROWS, XP.asarray(np.array([1, 3], np.int32))] = y[0, :2]


def repeated(x: Any, y: Any) -> None:
    """One of the values stays, which the loss need not know: all are alike."""
    x[XP.asarray(np.array([1, 1, 1], np.int32))] = y[2]


def blocks(x: Any, y: Any) -> None:
    x[1:, 1:3] = y[:2, 2:]
    x[::2, 0] = 0.5


@pytest.mark.parametrize(
    "change", [great_ones, least_of_all, chosen, rows, pairs, repeated, blocks]
)
def test_assignments_to_some_elements(change: Callable[[Any, Any], None]) -> None:
    weights = XP.asarray(numbers(3, 4, seed=2))

    def program(x: Any, y: Any) -> Any:
        z = x * y
        change(z, y)
        change(z, x * x)
        return XP.sum(z * z * weights)

    x, y = (DEVICE.from_numpy(numbers(3, 4, seed=seed)) for seed in (0, 1))
    with pt.Tape() as tape:
        loss = program(x, y)
    found = tape.gradient(loss, (x, y))

    def value(*given: Any) -> float:
        return float(program(*map(DEVICE.from_numpy, given)))

    wanted = differences(value, *map(pt.to_numpy, (x, y)))
    for ours, slope in zip(found, wanted, strict=True):
        np.testing.assert_allclose(pt.to_numpy(ours), slope, rtol=1e-6, atol=1e-8)


def test_one_value_by_a_mask_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be captured, as without a tape."""
    x = DEVICE.from_numpy(numbers(3, 4))
    with monkeypatch.context() as patch, pt.Tape(check=False) as tape:
        y = x * x
        patch.setattr(type(DEVICE), "to_numpy", None)
        y[x > 0.5] = 0.25
        loss = XP.sum(y)
    given = pt.to_numpy(x)
    wanted = np.where(given > 0.5, 0, 2 * given)
    np.testing.assert_allclose(pt.to_numpy(tape.gradient(loss, x)), wanted)


@pytest.mark.parametrize(
    "made",
    [
        lambda x: XP.asarray([x[2], x[1], x[0]]),
        lambda x: pt.asarray(pt.asarray(x, device="simulator"), device="cpu:native-arrays"),
        lambda x: XP.asarray(x.to_device("cpu")),
    ],
)
def test_copies_through_the_host_are_refused(made: Callable[[Any], Any]) -> None:
    """They would be constants to the tape, and the gradient lack a part."""
    x = DEVICE.from_numpy(numbers(3))
    with pt.Tape() as tape:
        loss = XP.sum(made(x) * x)
    with pytest.raises(UnsupportedError, match="copied through the host has no"):
        tape.gradient(loss, x)


def test_arrays_of_what_numpy_holds_are_refused() -> None:
    x = numbers(3)
    with pt.use("cpu:native"), pt.Tape() as tape:
        y = pt.primitives.copy(x)
        loss = pt.primitives.reduce(y)
        other = XP.sum(XP.asarray(y))
    assert np.array_equal(tape.gradient(loss, x), np.ones(3))
    with pytest.raises(UnsupportedError, match="copied through the host has no"):
        tape.gradient(other, x)


def test_columns_that_are_copied_through_the_host_share_memory_as_they_like() -> None:
    """Nothing goes back through them but what is refused."""
    data, weights = numbers(3, 4), DEVICE.from_numpy(numbers(3, seed=1))
    with pt.Tape() as tape:
        loss = XP.sum(XP.asarray(data[:, 0]) * weights)
        loss = loss + XP.sum(XP.asarray(data[:, 1]) * weights)
    found = pt.to_numpy(tape.gradient(loss, weights))
    np.testing.assert_allclose(found, data[:, 0] + data[:, 1])
    with pytest.raises(UnsupportedError, match="copied through the host has no"):
        tape.gradient(loss, data)
