"""What ``portable tune`` runs of the primitives: ``map``, ``scan``, ``sort`` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, float32
from portable.primitives.base.borrowed import fetched, stored
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.maps.engine import applied, recorded
from portable.primitives.maps.operation import Operation, conversion_to
from portable.primitives.maps.tuning import shares_for as map_shares
from portable.primitives.maps.tuning import squares_for
from portable.primitives.reductions.axis import reduced
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.tuning import columns_for, shares_for
from portable.primitives.scans import tuning as scans
from portable.primitives.scans.scanning import scanned
from portable.primitives.sorts.sorting import method_for
from portable.primitives.sorts.tuning import pieces_for
from portable.tune.in_use import InUse
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

__all__ = [
    "MAP",
    "REDUCE",
    "REDUCE_COLUMNS",
    "SCAN",
    "SCAN_COLUMNS",
    "SCAN_ROWS",
    "SORT",
    "TRANSPOSE",
]

_MOST_ERROR: Final = 1e-4
_SQUARE: Final = Operation("square", "f", kl.square)


@dataclass(frozen=True, slots=True)
class _Task:
    """An operation to tune, and what it comes to.

    Attributes
    ----------
    write : callable
        The steps that it takes, of a recipe and an array of it; gives the result.
    expected : callable
        What NumPy makes of the same array, in double precision.
    """

    write: Callable[[Recipe, Storage], Any]
    expected: Callable[[np.ndarray[Any, Any]], Any]


class _Problem:
    """A task on an array of random numbers."""

    def __init__(
        self, in_use: InUse[Any], task: _Task, device: Device, dtype: DType, size: Size
    ) -> None:
        host = np.random.default_rng(1).random(size, np.float32).astype(dtype.numpy)
        self._in_use, self._task = in_use, task
        self._x = stored(device, device.from_numpy(host))
        self._expected = np.asarray(task.expected(host.astype(np.float64)))
        self._runs: dict[tuple[Any, ...], Callable[[Any], Any]] = {}
        self._found: Any = None

    def run(self, choice: Parameters) -> None:
        """Enqueues it."""
        key = tuple(choice.values())
        if key not in self._runs:
            self._runs[key] = self._written(choice)
        self._found = self._runs[key](self._x)

    def _written(self, choice: Parameters) -> Callable[[Any], Any]:
        recipe = Recipe(self._x)
        with self._in_use.trying(choice):
            found = self._task.write(recipe, self._x)
        return recipe.finish(found)

    def error(self) -> float:
        """Of the last result, over what is allowed."""
        found, self._found = fetched(self._found).reshape(self._expected.shape), None
        return float((np.abs(found - self._expected) / (1 + np.abs(self._expected))).max()) / (
            _MOST_ERROR
        )


# -- tasks --------------------------------------------------------------------------------------


def _sum_along(axis: int) -> _Task:
    def write(recipe: Recipe, x: Storage) -> Any:
        return reduced(recipe, x, (axis,), Merge(kl.add, x.dtype.register, 0), x.dtype)

    return _Task(write, lambda host: host.sum(axis=axis))


def _totals_along(axis: int) -> _Task:
    def write(recipe: Recipe, x: Storage) -> Any:
        out = recipe.empty(x.shape, x.dtype)
        axes = [a for a in range(x.ndim) if a != axis] + [axis]
        shape, *strides = (
            tuple(values[a] for a in axes) for values in (x.shape, x.strides, out.strides)
        )
        lines = [array.viewed(shape, steps) for array, steps in zip((x, out), strides, strict=True)]
        scanned(recipe, lines[0], lines[1], Merge(kl.add, x.dtype.register, 0), 0)
        return out

    return _Task(write, lambda host: host.cumsum(axis=axis))


def _write_sorted(recipe: Recipe, x: Storage) -> Any:
    return method_for(x)(recipe, x, False, values=True, order=False)[0]


def _write_turned(recipe: Recipe, x: Storage) -> Any:
    turned = x.viewed(x.shape[::-1], x.strides[::-1])
    out = recipe.empty(turned.shape, x.dtype)
    applied(recipe, conversion_to(x.dtype), turned, out=out)
    return out


def _write_squares(recipe: Recipe, x: Storage) -> Any:
    return recorded(recipe, _SQUARE, x)


# -- what is listed -----------------------------------------------------------------------------


def _sizes(few: Size, many: Size, capabilities: Capabilities) -> Sequence[Size]:
    return [few if capabilities.lone_work_items else many]


def _elements(size: Size) -> float:
    return float(prod(size))


def _tunable(in_use: InUse[Any], task: _Task, few: Size, many: Size) -> Tunable:
    """A task of a size for processors, and for devices that take more to be busy."""
    axes, example = ("N", str(many[0])) if len(few) == 1 else ("MxN", f"{many[0]}x{many[1]}")
    return Tunable(
        in_use.space,
        (float32,),
        partial(_sizes, few, many),
        partial(parse_extents, axes=axes, example=example),
        _elements,
        partial(_Problem, in_use, task),
    )


_LINE: Final = ((1 << 23,), (1 << 26,))
_MATRIX: Final = ((2048, 4096), (8192, 8192))

MAP: Final = _tunable(map_shares, _Task(_write_squares, np.square), *_LINE)
"""Element-wise functions of a line."""
REDUCE: Final = _tunable(shares_for, _sum_along(0), *_LINE)
"""The sum of a line."""
REDUCE_COLUMNS: Final = _tunable(columns_for, _sum_along(0), *_MATRIX)
"""The sums of columns."""
SCAN: Final = _tunable(scans.lines_for, _totals_along(0), *_LINE)
"""Running totals of a line."""
SCAN_ROWS: Final = _tunable(scans.rows_for, _totals_along(1), *_MATRIX)
"""Running totals of rows."""
SCAN_COLUMNS: Final = _tunable(scans.columns_for, _totals_along(0), *_MATRIX)
"""Running totals of columns."""
SORT: Final = _tunable(pieces_for, _Task(_write_sorted, np.sort), (1 << 21,), (1 << 24,))
"""Sorting a line."""
TRANSPOSE: Final = _tunable(squares_for, _Task(_write_turned, np.transpose), *_MATRIX)
"""The transpose of a matrix, copied."""
