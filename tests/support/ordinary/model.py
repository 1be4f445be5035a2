"""What an ordinary case is: a function with a dtype and a shape, and how near NumPy it must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

SHAPES: Final[tuple[Shape, ...]] = (
    (2**20,),
    (1024, 1024),
    (1000, 777),
    (3, 300000),
    (300000, 3),
    (64, 128, 100),
)
"""Long, square, oblong, flat, thin and of three dimensions."""

DTYPES: Final = (
    "float32",
    "float64",
    "float16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
)

_USUAL: Final = 3
"""Shapes for each dtype of a function, of six."""

Sizes = Literal["result", "largest"] | Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Function:
    """A public function, what NumPy makes of the same arrays, and of which arrays it is asked.

    Attributes
    ----------
    name : str
        The function's, with the options that it is given.
    call : callable
        ``call(xp, *operands)`` of a namespace and arrays.
    expected : callable or None
        ``expected(*operands)`` of NumPy's arrays; None: `call` with NumPy's namespace.
    operands : int
        How many arrays it takes, all of one dtype and shape.
    kinds : str
        Kinds of dtypes that it takes, as NumPy has them.
    low, high : float
        Between which the operands' numbers lie.
    second : (float, float) or None
        The same for operands behind the first.
    dims : tuple of int
        How many dimensions its operands may have.
    few : bool
        Whether one shape for each dtype, in turn, is enough: each element is made by itself.
    without : tuple of str
        Dtypes of these kinds that it refuses.
    most, least : int
        How much of each dimension is taken, and how much there has to be.
    units : float
        By how many roundings a result may differ.
    sizes : "result", "largest" or callable
        What the roundings are relative to: each result, the largest of all, or what NumPy makes of
        the operands.
    widened : bool
        Whether NumPy gets floats in double precision.
    longer : bool
        Whether it gets those of double precision in still more bits: its own long sums drift.
    arrays : bool
        Whether it belongs to `portable.array`, which some devices have another library for.
    """

    name: str
    call: Callable[..., Any]
    expected: Callable[..., Any] | None = None
    operands: int = 1
    kinds: str = "fiubc"
    low: float = -4
    high: float = 4
    second: tuple[float, float] | None = None
    dims: tuple[int, ...] = (1, 2, 3)
    few: bool = False
    without: tuple[str, ...] = ()
    most: int = 2**20
    least: int = 0
    units: float = 4
    sizes: Sizes = "result"
    widened: bool = True
    longer: bool = False
    arrays: bool = True

    def dtypes(self) -> Sequence[str]:
        """Those of its operands."""
        return [d for d in DTYPES if np.dtype(d).kind in self.kinds and d not in self.without]

    def shapes(self, turn: int, whole: bool) -> Sequence[Shape]:
        """Those of its operands: all, or some, as `turn` picks them.

        Dtypes take turns, so that some of the shapes for each are all of them for the function.
        """
        fit = [s for s in SHAPES if len(s) in self.dims and min(s) >= self.least]
        if not whole:
            count = 1 if self.few else _USUAL
            fit = [fit[(turn + 2 * i + i // 3) % len(fit)] for i in range(min(count, len(fit)))]
        return list(dict.fromkeys(tuple(min(n, self.most) for n in s) for s in fit))


@dataclass(frozen=True)
class Case:
    """A function, the dtype and the shape of its operands."""

    function: Function
    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.function.name} {self.dtype} {self.shape}"

    def operands(self) -> list[Array]:
        """Random numbers, the same in each run."""
        count, first = self.function.operands, (self.function.low, self.function.high)
        ranges = [first, *[self.function.second or first] * (count - 1)]
        return [_numbers(self.dtype, self.shape, *r, seed) for seed, r in enumerate(ranges)]


def _numbers(dtype: str, shape: Shape, low: float, high: float, seed: int) -> Array:
    random, kind = np.random.default_rng([seed, len(shape)]), np.dtype(dtype)
    if kind.kind == "b":
        return random.random(shape, np.float32) < 0.5
    if kind.kind in "iu":
        least = max(low, 0) if kind.kind == "u" else low
        return random.integers(int(np.ceil(least)), int(high) + 1, shape, kind)
    parts = [low + (high - low) * random.random(shape, np.float32) for _ in range(2)]
    return (parts[0] + 1j * parts[1] if kind.kind == "c" else parts[0]).astype(kind)
