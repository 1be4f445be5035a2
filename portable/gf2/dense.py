"""Matrices over GF(2) given element by element, as arrays of any library."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from portable.gf2.matrix import BitMatrix

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def takes_dense(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Makes an operation take arrays of bools or numbers, too, and give such arrays of the library.

    What is not 0 is 1. Matrices in results are then arrays of bools, like the first array given.
    """

    @wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        arrays = [x for x in args if not isinstance(x, BitMatrix) and hasattr(x, "shape")]
        if not arrays:
            return function(*args, **kwargs)
        packed = [BitMatrix.from_dense(x) if hasattr(x, "shape") else x for x in _opened(args)]
        result = cast(Callable[..., _Result], function)(*packed, **kwargs)
        return cast(_Result, _like(result, arrays[0]))

    return call


def _opened(args: tuple[Any, ...]) -> list[Any]:
    """The arguments; bit matrices beside arrays as what they hold."""
    return [x.to_dense() if isinstance(x, BitMatrix) else x for x in args]


def _like(words: Any, sample: Any) -> Any:
    if isinstance(words, BitMatrix):
        return words.to_dense(like=None if isinstance(sample, np.ndarray) else sample)
    if isinstance(words, tuple) and hasattr(words, "_fields"):
        return type(words)(*(_like(part, sample) for part in words))
    return words
