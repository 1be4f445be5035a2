"""Which algorithm suits a convolution."""

from __future__ import annotations

from math import prod
from typing import Final

from portable.conv.geometry import Geometry
from portable.conv.points import transforms
from portable.conv.settings import Algorithm
from portable.conv.winograd import TAPS, suits
from portable.dtypes import DType, float16, float64
from portable.errors import UnsupportedError

__all__ = ["chosen"]

_WORD: Final = 24.0
"""Operations in the time that an element of a transformed tile takes to be written and read."""

_GATHERED: Final = 1.5
"""How much longer a product takes whose operand is gathered from images."""

_ACCURATE: Final = {float64: (2, 4, 6)}
"""Tiles that are chosen by themselves: the larger, the larger the transforms' errors."""


def chosen(algorithm: Algorithm, shape: Geometry, kind: DType) -> Algorithm:
    """The algorithm itself, or for "auto" the one that a model of the work prefers.

    Raises
    ------
    UnsupportedError
        If Winograd's is asked for a window other than 3 x 3 without strides and dilation.
    """
    if algorithm == "auto":
        return _best(shape, kind)
    if algorithm.startswith("winograd") and not suits(shape):
        window = shape.window
        raise UnsupportedError(
            f"algorithm={algorithm!r} takes filters of 3 x 3 with stride 1 and dilation 1, not "
            f"{window.taps[0]} x {window.taps[1]} with stride {window.stride} and dilation "
            f'{window.dilation}; use "direct" or "auto"'
        )
    return algorithm


def _best(shape: Geometry, kind: DType) -> Algorithm:
    """Half precision goes direct, since matrix units gain more than fewer products do."""
    if kind is float16 or not suits(shape):
        return "direct"
    costs: dict[Algorithm, float] = {"direct": _direct_cost(shape)}
    for results in _ACCURATE.get(kind, (2, 4)):
        costs[_named(results)] = _winograd_cost(shape, results)
    return min(costs, key=costs.__getitem__)


def _named(results: int) -> Algorithm:
    names: dict[int, Algorithm] = {2: "winograd2", 4: "winograd4", 6: "winograd6"}
    return names[results]


def _direct_cost(shape: Geometry) -> float:
    return _GATHERED * 2.0 * shape.depth * shape.filters * prod(shape.result)


def _winograd_cost(shape: Geometry, results: int) -> float:
    height, width = shape.result
    elements = -(-height // results) * -(-width // results) * transforms(results, TAPS).inputs ** 2
    products = 2.0 * shape.channels // shape.groups * shape.filters
    return elements * (products + _WORD * (shape.channels + shape.filters))
