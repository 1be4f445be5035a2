"""Every special case that the standard lists for real numbers, of every element-wise function.

Those of complex numbers are in `tests/lang/test_complex.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device

Numbers = np.ndarray[Any, Any]

ODD_TO_INFINITY = "nan nan, +0 +0, -0 -0, +inf +inf, -inf -inf"
LOGARITHM = "nan nan, <0 nan, 0 -inf, 1 +0, +inf +inf"
WHOLE = f"whole x, {ODD_TO_INFINITY}"
UNARY = {
    "acos": "nan nan, >1 nan, <-1 nan, 1 +0",
    "acosh": "nan nan, <1 nan, 1 +0, +inf +inf",
    "asin": "nan nan, >1 nan, <-1 nan, +0 +0, -0 -0",
    "asinh": ODD_TO_INFINITY,
    "atan": "nan nan, +0 +0, -0 -0, +inf pi/2, -inf -pi/2",
    "atanh": "nan nan, <-1 nan, >1 nan, -1 -inf, 1 +inf, +0 +0, -0 -0",
    "ceil": WHOLE,
    "cos": "nan nan, 0 1, inf nan",
    "cosh": "nan nan, 0 1, inf +inf",
    "exp": "nan nan, 0 1, +inf +inf, -inf +0",
    "expm1": "nan nan, +0 +0, -0 -0, +inf +inf, -inf -1",
    "floor": WHOLE,
    "log": LOGARITHM,
    "log1p": "nan nan, <-1 nan, -1 -inf, -0 -0, +0 +0, +inf +inf",
    "log2": LOGARITHM,
    "log10": LOGARITHM,
    "round": WHOLE,
    "sign": "nan nan, <0 -1, 0 0, >0 1",
    "signbit": "-0 1, +0 0, >0 0, <0 1, +nan 0, -nan 1",
    "sin": "nan nan, +0 +0, -0 -0, inf nan",
    "sinh": ODD_TO_INFINITY,
    "sqrt": "nan nan, <0 nan, +0 +0, -0 -0, +inf +inf",
    "tan": "nan nan, +0 +0, -0 -0, inf nan",
    "tanh": "nan nan, +0 +0, -0 -0, +inf 1, -inf -1",
    "trunc": WHOLE,
}
"""By function: what an argument is, and what the result is."""

EITHER_NAN = "nan * nan, * nan nan"
QUOTIENT = (
    f"{EITHER_NAN}, inf inf nan, 0 0 nan, +0 >0 +0, -0 >0 -0, +0 <0 -0, -0 <0 +0, >0 +0 +inf, "
    ">0 -0 -inf, <0 +0 -inf, <0 -0 +inf, +inf positive +inf, +inf negative -inf, "
    "-inf positive -inf, -inf negative +inf, positive +inf +0, negative -inf +0, "
    "positive -inf -0, negative +inf -0"
)
BINARY = {
    "add": f"{EITHER_NAN}, +inf -inf nan, -inf +inf nan, +inf +inf +inf, -inf -inf -inf, "
    "+inf finite +inf, -inf finite -inf, finite +inf +inf, finite -inf -inf, -0 -0 -0, "
    "-0 +0 +0, +0 -0 +0, +0 +0 +0, 0 nonzero y, nonzero 0 x, nonzero -x +0",
    "atan2": f"{EITHER_NAN}, >0 0 pi/2, <0 0 -pi/2, +0 >0 +0, +0 +0 +0, +0 -0 pi, +0 <0 pi, "
    "-0 >0 -0, -0 +0 -0, -0 -0 -pi, -0 <0 -pi, positive +inf +0, positive -inf pi, "
    "negative +inf -0, negative -inf -pi, +inf finite pi/2, -inf finite -pi/2, +inf +inf pi/4, "
    "+inf -inf 3pi/4, -inf +inf -pi/4, -inf -inf -3pi/4",
    "copysign": "* <0 -|x|, * -0 -|x|, * -nan -|x|, * >0 |x|, * +0 |x|, * +nan |x|",
    "divide": QUOTIENT,
    "floor_divide": QUOTIENT,
    "logaddexp": f"{EITHER_NAN}, +inf !nan +inf, !nan +inf +inf",
    "maximum": EITHER_NAN,
    "minimum": EITHER_NAN,
    "multiply": f"{EITHER_NAN}, inf 0 nan, 0 inf nan, +inf >0 +inf, +inf <0 -inf, -inf >0 -inf, "
    "-inf <0 +inf, >0 +inf +inf, <0 +inf -inf, >0 -inf -inf, <0 -inf +inf, +0 positive +0, "
    "+0 negative -0, -0 positive -0, -0 negative +0, +0 -0 -0, -0 -0 +0",
    "nextafter": f"{EITHER_NAN}, -0 +0 +0, +0 -0 -0",
    "pow": "!1 nan nan, * 0 1, nan !0 nan, beyond +inf +inf, beyond -inf +0, unit inf 1, 1 !nan 1, "
    "within +inf +0, within -inf +inf, +inf >0 +inf, +inf <0 +0, -inf >0&odd -inf, "
    "-inf >0&!odd +inf, -inf <0&odd -0, -inf <0&!odd +0, +0 >0 +0, +0 <0 +inf, -0 >0&odd -0, "
    "-0 >0&!odd +0, -0 <0&odd -inf, -0 <0&!odd +inf, negative finite&!whole nan",
    "remainder": f"{EITHER_NAN}, inf inf nan, 0 0 nan, 0 >0 +0, 0 <0 -0, >0 0 nan, <0 0 nan, "
    "inf finite nan, positive +inf x, positive -inf y, negative +inf y, negative -inf x",
    "subtract": f"{EITHER_NAN}, +inf +inf nan, -inf -inf nan, +0 +0 +0, -0 +0 -0, +0 -0 +0, "
    "-0 -0 +0, +inf finite +inf, finite +inf -inf",
}
"""By function: what the two arguments are, and what the result is."""

WORDS = {
    "*": lambda v: np.ones(v.shape, bool),
    "inf": np.isinf,
    "0": lambda v: v == 0,
    "+nan": lambda v: np.isnan(v) & ~np.signbit(v),
    "-nan": lambda v: np.isnan(v) & np.signbit(v),
    "finite": np.isfinite,
    "nonzero": lambda v: np.isfinite(v) & (v != 0),
    "positive": lambda v: np.isfinite(v) & (v > 0),
    "negative": lambda v: np.isfinite(v) & (v < 0),
    "whole": lambda v: np.isfinite(v) & (v == np.trunc(v)),
    "odd": lambda v: np.isfinite(v) & (np.abs(v) % 2 == 1),
    "beyond": lambda v: np.abs(v) > 1,
    "unit": lambda v: np.abs(v) == 1,
    "within": lambda v: np.abs(v) < 1,
}
ANGLES = {"pi": math.pi, "pi/2": math.pi / 2, "pi/4": math.pi / 4, "3pi/4": 3 * math.pi / 4}
ARGUMENTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, 3.0, -3.5, 7.0, -30.0, 1e-3, 6e4,
             math.inf, -math.inf, math.nan, -math.nan]  # fmt: skip


def holds(word: str, v: Numbers) -> Numbers:
    """Where a number is what a word says; words are joined by ``&`` and denied by ``!``."""
    found = np.ones(v.shape, bool)
    for part in word.split("&"):
        name = part.removeprefix("!")
        with np.errstate(invalid="ignore"):
            if name in WORDS:
                one = WORDS[name](v)
            elif name[0] == ">":
                one = v > float(name[1:])
            elif name[0] == "<":
                one = v < float(name[1:])
            else:
                one = alike(v, np.full(v.shape, float(name), v.dtype))
        found &= ~one if part != name else one
    return found


def alike(v: Numbers, w: Numbers) -> Numbers:
    """Equal with the signs of zeros, or both NaN."""
    return ((v == w) & (np.signbit(v) == np.signbit(w))) | (np.isnan(v) & np.isnan(w))


def agrees(found: Numbers, word: str, x: Numbers, y: Numbers) -> Numbers:
    """Where a result is what a word says."""
    angle = ANGLES.get(word.removeprefix("-"))
    if angle is not None:
        return np.isclose(found, -angle if word[0] == "-" else angle, rtol=2e-3)
    if word.endswith("|x|"):  # NaN has a sign here
        return (np.signbit(found) == (word[0] == "-")) & alike(np.abs(found), np.abs(x))
    if word in ("x", "y"):
        return alike(found, x if word == "x" else y)
    if word == "0":
        return found == 0
    return alike(found, np.full(found.shape, float(word), found.dtype))


def dtypes_for(device: Device) -> list[str]:
    return ["float32"] if not device.interprets else ["float16", "float32", "float64"]


def check(name: str, row: str, x: Numbers, y: Numbers, found: Numbers) -> None:
    first, second, result = (row if name in BINARY else row.replace(" ", " * ")).split()
    here = holds(first, x) & (x == -y if second == "-x" else holds(second, y))
    assert here.any(), f"no argument is {row}"
    wrong = here & ~agrees(found, result, x, y)
    assert not wrong.any(), f"{name}: {x[wrong]}, {y[wrong]} give {found[wrong]}, not {result}"


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_special_cases(ours: Device, name: str) -> None:
    for dtype in dtypes_for(ours):
        line = np.array(ARGUMENTS).astype(dtype)
        grid = np.meshgrid(line, line, indexing="ij") if name in BINARY else (line, line)
        x, y = (v.reshape(-1) for v in grid)
        arguments = (x, y) if name in BINARY else (x,)
        found = getattr(xp, name)(*[ours.from_numpy(v) for v in arguments])
        for row in (BINARY if name in BINARY else UNARY)[name].split(", "):
            check(name, row, x, y, portable.to_numpy(found).astype(dtype))


def test_clip_keeps_nan(ours: Device) -> None:
    x, low, high = np.meshgrid(*[np.array([1.0, math.nan, -2.0])] * 3)
    found = portable.to_numpy(xp.clip(*map(ours.from_numpy, (x, low, high))))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x) | np.isnan(low) | np.isnan(high))
