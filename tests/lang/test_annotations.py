"""What parameters are annotated with is a promise that launches are held to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.errors import KernelError


class Pair(NamedTuple):
    first: Any
    second: Any


@pt.kernel
def scaled(a: kl.Scalar, x: kl.Array, y: kl.Array | None, out: kl.Array) -> None:
    i = kl.global_id(0)
    out[i] = a * x[i]
    if y is not None:
        out[i] += y[i]


@pt.kernel
def total(parts: tuple[kl.Array, ...], out: kl.Array) -> None:
    i = kl.global_id(0)
    sums = 0.0
    for part in parts:
        sums += part[i]
    out[i] = sums


@pt.kernel
def gathered(out: kl.Array, *parts: kl.Array) -> None:
    i = kl.global_id(0)
    out[i] = parts[0][i] + parts[1][i]


@pt.kernel
def held(pair: Pair, out: kl.Array) -> None:
    out[kl.global_id(0)] = pair.first * pair.second[kl.global_id(0)]


def ones() -> np.ndarray[Any, Any]:
    return np.ones(300, np.float32)


def test_kept_promises_change_nothing() -> None:
    x, out = ones(), ones()
    scaled[300](2.0, x, None, out)
    np.testing.assert_array_equal(out, 2)
    scaled[300](np.float32(2), x, x, out)
    np.testing.assert_array_equal(out, 3)
    total[300]((x, x, x), out)
    np.testing.assert_array_equal(out, 3)
    gathered[300](out, x, x)
    np.testing.assert_array_equal(out, 2)
    held[300](Pair(4.0, x), out)
    np.testing.assert_array_equal(out, 4)


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (lambda x: scaled[300](x, x, None, x), r"a is annotated kl.Scalar.* an array of float32"),
        (lambda x: scaled[300](None, x, None, x), "a is annotated kl.Scalar.* gave None"),
        (lambda x: scaled[300](1.0, 2.0, None, x), "x is annotated kl.Array.* gave a number"),
        (lambda x: scaled[300](1.0, x, 3.0, x), r"y is annotated kl.Array \| None.* a number"),
        (lambda x: scaled[300](1.0, None, x, x), "x is annotated kl.Array.* gave None"),
        (lambda x: scaled[300](1.0, (x,), x, x), "x is annotated kl.Array.* gave a tuple"),
        (lambda x: total[300]((x, 1.0), x), r"parts is annotated tuple.* a number in it"),
        (lambda x: total[300](x, x), r"parts is annotated tuple.* an array of float32"),
        (lambda x: gathered[300](x, x, 1.0), "parts is annotated kl.Array.* a number"),
        (lambda x: held[300](Pair(4.0, x), 1.0), "out is annotated kl.Array.* a number"),
    ],
)
def test_broken_promises_say_what_was_given(launch: Any, said: str) -> None:
    with pytest.raises(KernelError, match=said) as caught:
        launch(ones())
    assert "leave the annotation out" in str(caught.value)
    assert caught.value.location is not None
