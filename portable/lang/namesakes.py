"""Functions of Python, `math`, `operator` and NumPy that mean what a word means."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from portable.lang.words import compile_time, numbers

OTHERWISE_CALLED: Final = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}
"""Words that the Array API calls otherwise than NumPy and `math`."""

_OPERATORS: Final[dict[Callable[..., Any], str]] = {
    operator.add: "add",
    operator.and_: "bitwise_and",
    operator.mul: "multiply",
    operator.neg: "negative",
    operator.or_: "bitwise_or",
    operator.sub: "subtract",
    operator.xor: "bitwise_xor",
}
"""Python's operators as functions, which `functools.reduce` and the like are given."""

_DIFFERENT: Final = ("remainder",)
"""Of `math`: as a word it has the sign of the divisor."""


@cache
def namesakes() -> dict[Any, Callable[..., Any]]:
    """The word for each such function.

    `round`, `math.ceil`, `math.floor` and `math.trunc` give the same whole number, as a float.
    """
    words = {name: getattr(numbers, name) for name in numbers.__all__}
    in_math = [f for name, f in vars(math).items() if callable(f) and name not in _DIFFERENT]
    ufuncs = [f for f in vars(np).values() if isinstance(f, np.ufunc)]
    named = {f: OTHERWISE_CALLED.get(f.__name__, f.__name__) for f in (*in_math, *ufuncs)}
    alike = {f: words[name] for f, name in named.items() if name in words}
    functions = {getattr(np, name): words[name] for name in ("where", "clip", "round")}
    names = {complex: "complex", max: "maximum", min: "minimum", round: "round"} | _OPERATORS
    builtin = {print: compile_time.print, **{f: words[name] for f, name in names.items()}}
    return {**builtin, **functions, **alike}


def namesake(function: Any) -> Callable[..., Any] | None:
    """The word that means what a function of Python, `math` or NumPy does; None of others."""
    try:
        return namesakes().get(function)
    except TypeError:  # what has no hash is no function of theirs
        return None
