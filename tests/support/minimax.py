"""Makes the coefficients of `portable.lang.library.elementary.coefficients`: minimax polynomials.

E. Remez' exchange in 50 digits, for a polynomial that is multiplied by a weight before it is
compared, so that relative errors of the whole function are levelled (J.-M. Muller, *Elementary
Functions*, 2016, chapter 3). The errors given include those of rounding the coefficients.

    python -m tests.support.minimax > portable/lang/library/elementary/coefficients.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import mpmath as mp
import numpy as np

Real = Any
_DIGITS: Final = 50
_NODES: Final = 600
_WIDTH: Final = 100
"""Columns of a line."""


@dataclass(frozen=True)
class Polynomial:
    """What a polynomial is to come near to.

    Attributes
    ----------
    name : str
        Of the constant.
    what : str
        The function, as a formula with the polynomial ``P``.
    wanted : callable
        What `P` itself would be without error.
    weight : callable
        Factor, not negative, from errors of `P` to relative errors of the function.
    low, high : str
        The interval, as formulas.
    counts : (int, int)
        How many coefficients in single and double precision; 0 for none.
    """

    name: str
    what: str
    wanted: Callable[[Real], Real]
    weight: Callable[[Real], Real]
    low: str
    high: str
    counts: tuple[int, int]


@dataclass(frozen=True)
class Fit:
    """Coefficients, the lowest power first, and the greatest relative error of the function."""

    coefficients: tuple[float, ...]
    error: float


def _by_atanh(z: Real) -> Real:
    if abs(z) < mp.mpf(10) ** -18:
        return mp.mpf(2) / 3
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s) / s**3


def _odd(function: Callable[[Real], Real], third: Real) -> Callable[[Real], Real]:
    """``(f(x) - x) / x ** 3`` as a function of ``z = x ** 2``."""

    def wanted(z: Real) -> Real:
        if abs(z) < mp.mpf(10) ** -18:
            return mp.mpf(third)
        x = mp.sqrt(z)
        return (function(x) - x) / x**3

    return wanted


def _odd_weight(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda z: mp.sqrt(z) ** 3 / function(mp.sqrt(z)) if z else mp.mpf(0)


def _after_two(function: Callable[[Real], Real], first: Real) -> Callable[[Real], Real]:
    """``(f(x) - x) / x ** 2``."""
    return lambda x: (function(x) - x) / x**2 if abs(x) > mp.mpf(10) ** -18 else mp.mpf(first)


def _cosine(z: Real) -> Real:
    if abs(z) < mp.mpf(10) ** -12:
        return mp.mpf(1) / 24 - z / 720
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


_HALF_STEP: Final = "log(2) / 2 * 1.0001"
_SQUARED_OCTANT: Final = "(pi / 4) ** 2 * 1.0001"

POLYNOMIALS: Final = (
    Polynomial(
        "EXPM1",
        "expm1(x) = x + x ** 2 * P(x)",
        _after_two(mp.expm1, 0.5),
        lambda x: abs(x**2 / mp.expm1(x)) if x else mp.mpf(0),
        f"-{_HALF_STEP}",
        _HALF_STEP,
        (5, 11),
    ),
    Polynomial(
        "LOG1P",
        "log1p(x) = x + x ** 2 * P(x)",
        _after_two(mp.log1p, -0.5),
        lambda x: abs(x**2 / mp.log1p(x)) if x else mp.mpf(0),
        "sqrt(0.5) - 1",
        "sqrt(2) - 1",
        (8, 0),
    ),
    Polynomial(
        "LOG",
        "log((1 + s) / (1 - s)) = 2 * s + s ** 3 * P(s ** 2)",
        _by_atanh,
        lambda z: mp.sqrt(z) ** 3 / (2 * mp.atanh(mp.sqrt(z))) if z else mp.mpf(0),
        "0",
        "(sqrt(2) - 1) ** 4",
        (0, 7),
    ),
    Polynomial(
        "LOG2",
        "log2(1 + x) = x * P(x)",
        lambda x: mp.log(1 + x, 2) / x if abs(x) > mp.mpf(10) ** -18 else 1 / mp.log(2),
        lambda x: x / mp.log(1 + x, 2) if x else mp.log(2),
        "sqrt(0.5) - 1",
        "sqrt(2) - 1",
        (0, 14),
    ),
    Polynomial(
        "LOG_TAIL",
        "log((1 + s) / (1 - s)) = 2 * s + 2 / 3 * s ** 3 + s ** 5 * P(s ** 2)",
        lambda z: (_by_atanh(z) - mp.mpf(2) / 3) / z if z > mp.mpf(10) ** -15 else mp.mpf("0.4"),
        lambda z: mp.sqrt(z) ** 5 / (2 * mp.atanh(mp.sqrt(z))) if z else mp.mpf(0),
        "0",
        "(sqrt(2) - 1) ** 4",
        (0, 9),
    ),
    Polynomial(
        "SIN",
        "sin(x) = x + x ** 3 * P(x ** 2)",
        _odd(mp.sin, mp.mpf(-1) / 6),
        _odd_weight(mp.sin),
        "0",
        _SQUARED_OCTANT,
        (3, 6),
    ),
    Polynomial(
        "COS",
        "cos(x) = 1 - x ** 2 / 2 + x ** 4 * P(x ** 2)",
        _cosine,
        lambda z: z**2 / mp.cos(mp.sqrt(z)),
        "0",
        _SQUARED_OCTANT,
        (3, 6),
    ),
    Polynomial(
        "ASIN",
        "asin(x) = x + x ** 3 * P(x ** 2)",
        _odd(mp.asin, mp.mpf(1) / 6),
        _odd_weight(mp.asin),
        "0",
        "0.25",
        (5, 12),
    ),
    Polynomial(
        "ATAN",
        "atan(x) = x + x ** 3 * P(x ** 2)",
        _odd(mp.atan, mp.mpf(-1) / 3),
        _odd_weight(mp.atan),
        "0",
        "tan(pi / 8) ** 2 * 1.0001",
        (5, 12),
    ),
)


def _value(formula: str) -> Real:
    return mp.mpf(eval(formula, {"__builtins__": {}}, vars(mp)))


def fit(sought: Polynomial, count: int, kind: type[np.floating[Any]]) -> Fit:
    """The coefficients in one precision.

    Parameters
    ----------
    sought : Polynomial
    count : int
        How many coefficients.
    kind : type
        ``numpy.float32`` or ``numpy.float64``.
    """
    with mp.workdps(_DIGITS):
        low, high = _value(sought.low), _value(sought.high)
        places = [
            (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * i / (_NODES - 1))
            for i in range(_NODES)
        ]
        weights = [sought.weight(x) for x in places]
        wanted = [sought.wanted(x) for x in places]
        found = [float(kind(float(c))) for c in _exchanged(places, wanted, weights, count)]
        errors = [
            abs(w * (y - _polynomial(found, x)))
            for x, y, w in zip(places, wanted, weights, strict=True)
        ]
        return Fit(tuple(found), float(max(errors)))


def _polynomial(coefficients: Iterable[Real], x: Real) -> Real:
    return mp.fsum(c * x**power for power, c in enumerate(coefficients))


def _exchanged(
    places: list[Real], wanted: list[Real], weights: list[Real], count: int
) -> list[Real]:
    """The best coefficients, by Remez' exchange on given places."""
    usable = [i for i, w in enumerate(weights) if w != 0]
    step = (len(usable) - 1) / count
    at = [usable[round(i * step)] for i in range(count + 1)]
    best: list[Real] = []
    for _ in range(12):
        matrix, right = mp.matrix(count + 1, count + 1), mp.matrix(count + 1, 1)
        for row, i in enumerate(at):
            for power in range(count):
                matrix[row, power] = places[i] ** power * weights[i]
            matrix[row, count] = (-1) ** row
            right[row] = wanted[i] * weights[i]
        solved = mp.lu_solve(matrix, right)
        best, level = [solved[i] for i in range(count)], abs(solved[count])
        errors = {i: weights[i] * (wanted[i] - _polynomial(best, places[i])) for i in usable}
        if max(map(abs, errors.values())) <= level * mp.mpf("1.0005"):
            break
        at = _extrema(usable, errors, count + 1)
    return best


def _extrema(usable: list[int], errors: dict[int, Real], count: int) -> list[int]:
    """Where the error is greatest, its sign alternating, at as many places as are needed."""
    runs: list[int] = []
    for i in usable:
        if runs and (errors[i] > 0) == (errors[runs[-1]] > 0):
            if abs(errors[i]) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    if len(runs) < count:
        raise ArithmeticError(f"the error alternates {len(runs)} times only, not {count}")
    return runs


_HEAD: Final = '''\
"""Coefficients of minimax polynomials, the lowest power first; made by `tests.support.minimax`.

The errors are relative ones of the whole function in exact arithmetic with these coefficients.
"""

from typing import Final

__all__ = ["Coefficients"]

Coefficients = tuple[float, ...]
'''


_CONSTANTS: Final = {
    "LN2": "log(2)",
    "LOG2_E": "1 / log(2)",
    "LOG10_E": "1 / log(10)",
    "LOG10_2": "log(2) / log(10)",
    "HALF_PI": "pi / 2",
    "TWO_THIRDS": "mpf(2) / 3",
}
"""Constants that are held as sums of numbers."""

_PARTS: Final = {"HALF_PI_64": 3, "TWO_THIRDS_32": 0}
"""How many, if not two."""


def _parts(formula: str, kind: type[np.floating[Any]], count: int) -> list[float]:
    """A constant as so many numbers, each of what the ones before it leave."""
    left = mp.mpf(_value(formula))
    made = []
    for _ in range(count):
        made.append(float(kind(float(left))))
        left -= made[-1]
    return made


_TWO_OVER_PI: Final = '''\
_TWO_OVER_PI: Final = int(
{lines}    "",
    16,
)
"""The first 1200 bits of 2 / pi behind the point."""

TWO_OVER_PI_48: Final[Coefficients] = tuple(
    (_TWO_OVER_PI >> 48 * i & 2**48 - 1) / 2.0**48 for i in range(24, -1, -1)
)
"""2 / pi, 48 bits at a time, each chunk as a number below 1."""

TWO_OVER_PI_WORDS: Final = tuple(_TWO_OVER_PI >> 1168 - 32 * i & 2**32 - 1 for i in range(7))
"""2 / pi, 32 bits at a time."""
'''


def _bits() -> str:
    """The bits of 2 / pi behind the point, and chunks of them."""
    with mp.workdps(500):
        digits = f"{int(mp.floor(2 / mp.pi * mp.mpf(2) ** 1200)):0300x}"
    lines = [f'    "{digits[i : i + 75]}"\n' for i in range(0, 300, 75)]
    return _TWO_OVER_PI.format(lines="".join(lines).rstrip("\n") + ",\n").replace('    "",\n', "")


def text() -> str:
    """The module of coefficients."""
    parts = [_HEAD]
    with mp.workdps(_DIGITS * 2):
        for name, formula in _CONSTANTS.items():
            for kind, bits in ((np.float32, 32), (np.float64, 64)):
                count = _PARTS.get(f"{name}_{bits}", 2)
                if count:
                    numbers = _parts(formula, kind, count)
                    parts.append(_defined(f"{name}_{bits}", numbers, f"{formula}."))
    parts.append(_bits())
    for x in POLYNOMIALS:
        for count, kind, bits in zip(x.counts, (np.float32, np.float64), (32, 64), strict=True):
            if count:
                made = fit(x, count, kind)
                about = f"{x.what}; error {made.error:.1e}."
                parts.append(_defined(f"{x.name}_{bits}", made.coefficients, about))
    return "\n".join(parts)


def _defined(name: str, numbers: Iterable[float], about: str) -> str:
    line = f"{name}: Final[Coefficients] = ({', '.join(map(repr, numbers))})"
    if len(line) > _WIDTH:
        lines = "".join(f"    {x!r},\n" for x in numbers)
        line = f"{name}: Final[Coefficients] = (\n{lines})"
    return f'{line}\n"""{about}"""\n'


if __name__ == "__main__":
    sys.stdout.write(text())
