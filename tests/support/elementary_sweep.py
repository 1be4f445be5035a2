"""Errors of the language's own functions of one single-precision number, over all its values.

What a device itself finds in double precision is taken to be exact. All 2^32 arguments of every
function take some minutes:

    python -m tests.support.elementary_sweep cpu:intel
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl
from portable.backend import Device
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.library.elementary import ELEMENTARY
from tests.support.launch import run

UNARY = tuple(name for name in ELEMENTARY if FUNCTIONS[name].arity == 1)
_ITEMS = 2**14


@pt.function
def ulps(found: Any, exact: Any) -> Any:
    """How many units in the last place of single precision a number is off; infinite if wrong."""
    wide = kl.f64(found)
    exponent = ((kl.bitcast(exact, kl.i64) >> 52) & 2047) - 1023
    exponent = kl.where(exponent < -126, -126, kl.where(exponent > 127, 127, exponent))
    unit = kl.bitcast((exponent - 23 + 1023) << 52, kl.f64)
    both_large = kl.isinf(found) & (kl.abs(exact) > 3.4028235e38) & ((wide > 0) == (exact > 0))
    both_nan = kl.isnan(found) & kl.isnan(exact)
    off = kl.abs(wide - exact) / unit
    wrong_zero = (found == 0) & (kl.signbit(found) != kl.signbit(exact))
    off = kl.where(kl.isnan(off) | wrong_zero, np.inf, off)
    return kl.where(both_large | both_nan, 0.0, off)


@pt.kernel(contract=False)
def measured(worst, at, step, *, FUNCTION, EXACT):
    """The greatest error among each work-item's arguments, every so many bit patterns."""
    item = kl.global_id(0)
    greatest: kl.f64 = 0.0
    where: kl.u32 = 0
    place = kl.u64(item) * kl.u64(step)
    while place < 2**32:
        number = kl.bitcast(kl.u32(place), kl.f32)
        off = ulps(FUNCTION(number), EXACT(kl.f64(number)))
        if off > greatest:
            greatest = off
            where = kl.u32(place)
        place += kl.u64(step) * kl.u64(kl.global_size(0))
    worst[item] = greatest
    at[item] = where


def greatest_error(device: Device, name: str, step: int = 1) -> tuple[float, float]:
    """The greatest error in units in the last place, and of which argument."""
    function, exact = ELEMENTARY[name], getattr(kl, name)
    worst, at = np.zeros(_ITEMS), np.zeros(_ITEMS, np.uint32)
    launcher = measured[_ITEMS, 64]
    worst, at = run(device, launcher, worst, at, np.uint32(step), FUNCTION=function, EXACT=exact)
    place = int(worst.argmax())
    return float(worst[place]), float(at[place : place + 1].view(np.float32)[0])


if __name__ == "__main__":
    for wanted in sys.argv[2:] or UNARY:
        error, argument = greatest_error(pt.device(sys.argv[1]), wanted)
        bound = FUNCTIONS[wanted].ulp32
        sys.stdout.write(f"{wanted:6} {error:.3f} ulp at {argument!r}; the bound is {bound}\n")
        sys.stdout.flush()
