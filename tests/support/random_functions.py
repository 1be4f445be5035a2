"""The text of random kernels of functions that round, each of an exact expression.

Results are compared with the simulator's, which are NumPy's, within what the functions promise;
so no function's result is worked with any further.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import numpy as np

from portable.lang.ir.elementwise import FUNCTIONS

ITEMS: Final = 24
ROWS: Final = 12
KINDS: Final = ("f32", "f64", "c64", "c128")
_ROUNDING: Final = [f for f in FUNCTIONS.values() if f.ulp32 and f.result == "same"]
_COMPOSED: Final = {"reciprocal": (1, 3.5), "divide": (2, 3.5), "logaddexp": (2, 16)}
"""What the front end makes of others: operands, and units in the last place."""
_LIMITS: Final = {"sin": 1e4, "cos": 1e4, "tan": 1e4, "pow": 8, "exp": 30, "cosh": 30, "sinh": 30}
"""How far from 0 functions are asked for, where rounding an argument otherwise shows."""
_DEFAULT_LIMIT: Final = 100.0

Row = tuple[str, str, float]
"""A function, the type that it is of, and by how many units in the last place it may be off."""


def _choice(random: Random, kind: str) -> tuple[str, int, float]:
    if kind[0] == "c":
        function = random.choice([f for f in _ROUNDING if f.complex_ulp and f.name != "pow"])
        assert function.complex_ulp is not None
        return function.name, 1, function.complex_ulp
    if random.randrange(6) == 0:
        name = random.choice(sorted(_COMPOSED))
        return name, *_COMPOSED[name]
    function = random.choice(_ROUNDING)
    return function.name, function.arity, max(function.ulp32, function.ulp64)


def _real(random: Random, kind: str, limit: float) -> str:
    """An exact expression within a limit."""
    place = f"x_{kind}[(i * {random.randrange(1, 9)} + {random.randrange(ITEMS)}) % {ITEMS}]"
    forms = [place, f"-{place}", f"kl.abs({place})", f"kl.floor({place})", f"{place} * 0.5"]
    bound = random.choice([n for n in range(-9, 9) if n])  # zeros of both signs: either
    forms += [f"kl.minimum({place}, kl.{kind}({bound}))", f"kl.rint({place})"]
    return f"kl.clip({random.choice(forms)}, {-limit}, {limit})"


def _argument(random: Random, kind: str, limit: float) -> str:
    if kind[0] != "c":
        return _real(random, kind, limit)
    part = {"c64": "f32", "c128": "f64"}[kind]
    return f"kl.complex({_real(random, part, limit)}, {_real(random, part, limit)})"


def random_functions(random: Random) -> tuple[str, list[Row]]:
    """The text of a module with one kernel, named ``kernel``, and what its outputs are."""
    lines, rows = [], []
    for row in range(ROWS):
        kind = random.choice(KINDS)
        name, arity, units = _choice(random, kind)
        limit = _LIMITS.get(name, _DEFAULT_LIMIT)
        arguments = ", ".join(_argument(random, kind, limit) for _ in range(arity))
        target = f"out_{kind}[{row}, i]"
        call = f"kl.{name}({arguments})"
        if random.randrange(3) == 0:
            lines += [f"    if {_real(random, 'f32', 9)} < 1:", f"        {target} = {call}"]
        else:
            lines.append(f"    {target} = {call}")
        rows.append((name, kind, units))
    head = (
        "import portable as pt\nfrom portable import lang as kl\n\n\n@pt.kernel(contract=False)\n"
    )
    head += "def kernel(x_f32, x_f64, out_f32, out_f64, out_c64, out_c128):\n"
    return head + "    i = kl.global_id(0)\n" + "\n".join(lines) + "\n", rows


def function_inputs() -> list[np.ndarray[Any, Any]]:
    """Ordinary and special numbers, and room for the results."""
    special = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e-3, 40.25]
    x = np.concatenate([special, np.random.default_rng(5).normal(0, 6, ITEMS - len(special))])
    reals = [x.astype(np.float32), x.astype(np.float32).astype(np.float64)]
    outs = [np.zeros((ROWS, ITEMS), dtype) for dtype in ("f4", "f8", "c8", "c16")]
    return [*reals, *outs]


def units_off(found: Any, wanted: Any) -> float:
    """The greatest difference, in units in the last place of the larger part.

    Where the result's exponent is the least or the greatest, and where parts of complex numbers
    are infinite or NaN, tests of the functions themselves say what has to come out.
    """
    parts = [(found.real, wanted.real), (found.imag, wanted.imag)]
    sizes = np.maximum(np.abs(wanted.real), np.abs(wanted.imag))
    info = np.finfo(wanted.real.dtype)
    usual = np.isfinite(sizes) & (sizes > 2 * info.tiny) & (sizes < info.max / 4)
    unit = np.spacing(np.where(usual, sizes, 1))
    worst = 0.0
    for have, want in parts:
        with np.errstate(invalid="ignore"):
            off = np.abs(have.astype(np.longdouble) - want.astype(np.longdouble)) / unit
        off = np.where(np.isnan(off), np.inf, off)
        worst = max(worst, float(np.where(usual, off, 0).max()))
    if wanted.dtype.kind == "f" and not np.array_equal(np.isnan(found), np.isnan(wanted)):
        return np.inf
    return worst
