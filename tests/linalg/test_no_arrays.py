"""What is no array is refused in one way by every operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from portable.linalg import band_to_bidiagonal, bidiagonal_svdvals, dense_to_band, gemm, svdvals

pytestmark = pytest.mark.needs_processor

MATRIX = np.eye(3, dtype=np.float32)

CALLS: dict[str, Callable[[Any], Any]] = {
    "gemm a": lambda x: gemm(x, MATRIX),
    "gemm b": lambda x: gemm(MATRIX, x),
    "gemm out": lambda x: gemm(MATRIX, MATRIX, out=x),
    "svdvals": svdvals,
    "dense_to_band": lambda x: dense_to_band(x, 1),
    "band_to_bidiagonal": band_to_bidiagonal,
    "bidiagonal_svdvals": lambda x: bidiagonal_svdvals(x, MATRIX[0, :2]),
}


@pytest.mark.parametrize("thing", [3, 2.5, np.float32(1), "text", [[1.0]]], ids=repr)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_array_is_refused(call: str, thing: Any) -> None:
    with pytest.raises(TypeError, match=f"{type(thing).__name__} is no array"):
        CALLS[call](thing)


@pytest.mark.parametrize("call", [name for name in CALLS if name != "gemm out"])
def test_nothing_is_no_array(call: str) -> None:
    with pytest.raises(TypeError, match="NoneType is no array"):
        CALLS[call](None)
