"""Gradients through functions of elements of several arrays, and of their positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import primitives
from portable.backend import Device
from portable.errors import UnsupportedError
from tests.gradients.test_tape import assert_taped, numbers

pytestmark = pytest.mark.needs_float64


@dataclass(frozen=True)
class Polar:
    radius: Any
    angle: Any


def squared_difference(z):
    return (z[0] - z[1]) ** 2


def by_position(x, i):
    return x * x * i


def cartesian(z):
    return z.radius * kl.cos(z.angle), z.radius * kl.sin(z.angle)


def to_structs(x: Any, y: Any) -> Any:
    made = primitives.map(cartesian, Polar(x, y), dtype=("float64", "float64"))
    return primitives.reduce(made, each=squared_difference, neutral=0.0)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "several": lambda x, y: primitives.reduce(primitives.map(squared_difference, (x, y))),
    "twice the same": lambda x, y: primitives.reduce(
        primitives.map(lambda z: z[0] * z[1] * z[2], (x, y, x))
    ),
    "positions": lambda x, y: primitives.reduce(
        primitives.map(lambda z, i: z[0] * z[1] + i * z[0], (x, y))
    ),
    "sum": lambda x, y: primitives.reduce((x, y), each=squared_difference, neutral=0.0),
    "sum with positions": lambda x, y: primitives.reduce(
        primitives.map(squared_difference, (x, y)), each=by_position, neutral=0.0
    ),
    "structs": to_structs,
}


@pytest.mark.parametrize("shape", [(13,), (3, 5)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_beside_differences(device: Device, program: str, shape: tuple[int, ...]) -> None:
    assert_taped(device, PROGRAMS[program], numbers(*shape), numbers(*shape, seed=1))


def test_none_of_nothing(device: Device) -> None:
    x = device.from_numpy(np.zeros(0))
    with pt.Tape() as tape:
        loss = primitives.reduce((x, x), each=squared_difference, neutral=0.0)
    assert tape.gradient(loss, x).shape == (0,)


def test_what_arrays_in_a_tuple_go_through_is_refused(device: Device) -> None:
    """Beside another way to the loss, which alone would give a wrong gradient."""
    x, y = (device.from_numpy(numbers(7, seed=k).astype(np.float32)) for k in range(2))
    with pt.Tape() as tape:
        most, _ = primitives.reduce(
            (x, y), lambda a, b: (a[0] + b[0], a[1] * b[1]), neutral=(0.0, 1.0)
        )
        loss = primitives.reduce(
            primitives.map(lambda z: z[0] * z[1], (most, primitives.reduce(x)))
        )
    with pytest.raises(UnsupportedError, match="reduce by this operation"):
        tape.gradient(loss, x)
