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
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import Storage, fetched, stored
from portable.primitives.maps.engine import applied, recorded
from portable.primitives.maps.work import Operation, conversion_to
from portable.primitives.masks.compaction import planned
from portable.primitives.reductions.axis import reduced
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.stateful import best_along_last, variance
from portable.primitives.scans.scanning import scanned
from portable.primitives.sorts.sorting import method_for
from portable.primitives.tuning import (
    best_for,
    columns_for,
    lines_for,
    moments_for,
    pieces_for,
    row_shares_for,
    rows_for,
    scanned_columns_for,
    sections_for,
    shares_for,
    squares_for,
)
from portable.tune.in_use import InUse
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

_MOST_ERROR: Final = 1e-4
_SQUARE: Final = Operation("square", "f", kl.square)


@dataclass(frozen=True, slots=True)
class Task:
    """An operation to tune, and what it comes to.

    Attributes
    ----------
    plan : callable
        What is to be done for arrays like one, as plans are made now; gives the result.
    expected : callable
        What NumPy makes of the same array, in double precision.
    mixes : bool
        Whether each element of the result comes of all that are given, so that those which happen
        to be small are no more exact than the others.
    """

    plan: Callable[[Storage], Callable[[Storage], Any]]
    expected: Callable[[np.ndarray[Any, Any]], Any]
    mixes: bool = False


class _Problem:
    """A task on an array of random numbers."""

    def __init__(
        self, in_use: InUse[Any], task: Task, device: Device, dtype: DType, size: Size
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
        with self._in_use.trying(choice):
            return self._task.plan(self._x)

    def error(self) -> float:
        """Of the last result, over what is allowed."""
        values, self._found = fetched(self._found).reshape(self._expected.shape), None
        sizes = np.abs(self._expected)
        least = np.sqrt(np.mean(sizes**2)) if self._task.mixes else 1.0
        return float((np.abs(values - self._expected) / (least + sizes)).max()) / _MOST_ERROR


# -- tasks --------------------------------------------------------------------------------------


def recorded_task(
    write: Callable[[Recipe, Storage], Any],
    expected: Callable[[np.ndarray[Any, Any]], Any],
    *,
    mixes: bool = False,
) -> Task:
    """A task whose steps are written into a recipe, which is given before the array.

    Parameters
    ----------
    write : callable
        ``write(recipe, x)`` returns what the recipe ends with.
    expected : callable
        What NumPy gives for the array.
    mixes : bool
        As of `Task`.
    """

    def plan(x: Storage) -> Callable[[Storage], Any]:
        recipe = Recipe(x)
        return recipe.finish(write(recipe, x))

    return Task(plan, expected, mixes)


def _sum_along(axis: int) -> Task:
    def write(recipe: Recipe, x: Storage) -> Any:
        return reduced(recipe, x, (axis,), Merge(kl.add, x.dtype.register, 0), x.dtype)

    return recorded_task(write, lambda host: host.sum(axis=axis))


def _totals_along(axis: int) -> Task:
    def write(recipe: Recipe, x: Storage) -> Any:
        out = recipe.empty(x.shape, x.dtype)
        total = Merge(kl.add, x.dtype.register, 0)
        scanned(recipe, _axis_last(x, axis), _axis_last(out, axis), total, 0)
        return out

    return recorded_task(write, lambda host: host.cumsum(axis=axis))


def _axis_last(x: Storage, axis: int) -> Storage:
    axes = [a for a in range(x.ndim) if a != axis] + [axis]
    return x.viewed(tuple(x.shape[a] for a in axes), tuple(x.strides[a] for a in axes))


def _write_variance(recipe: Recipe, x: Storage) -> Any:
    return variance(recipe, _axis_last(x, 0), x.dtype.register, x.shape[0], root=False)


def _write_argmax(recipe: Recipe, x: Storage) -> Any:
    return best_along_last(recipe, _axis_last(x, 0), largest=True)


def _plan_kept(x: Storage) -> Callable[[Storage], Any]:
    """Half of the elements, here and there."""
    mask = stored(x.device, x.device.from_numpy(fetched(x) < 0.5))
    keep = planned(mask, x)
    return lambda x: keep(mask, x)


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


def tunable_of(in_use: InUse[Any], task: Task, few: Size, many: Size) -> Tunable:
    """A task of a size for processors, and for devices that take more to be busy.

    Parameters
    ----------
    in_use : InUse
        What plans ask for the device's choice.
    task : Task
        What is tuned.
    few, many : tuple of int
        The shape of the array for processors, and for others.
    """
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

ARGMAX_COLUMNS: Final = tunable_of(
    best_for, recorded_task(_write_argmax, partial(np.argmax, axis=0)), *_MATRIX
)
"""Where the greatest elements of columns are."""
COMPACT: Final = tunable_of(
    sections_for, Task(_plan_kept, lambda host: host[host.astype(np.float32) < 0.5]), *_LINE
)
"""What is true in a mask."""
MAP: Final = tunable_of(row_shares_for, recorded_task(_write_squares, np.square), *_LINE)
"""Element-wise functions of a line."""
REDUCE: Final = tunable_of(shares_for, _sum_along(0), *_LINE)
"""The sum of a line."""
REDUCE_COLUMNS: Final = tunable_of(columns_for, _sum_along(0), *_MATRIX)
"""The sums of columns."""
SCAN: Final = tunable_of(lines_for, _totals_along(0), *_LINE)
"""Running totals of a line."""
SCAN_ROWS: Final = tunable_of(rows_for, _totals_along(1), *_MATRIX)
"""Running totals of rows."""
SCAN_COLUMNS: Final = tunable_of(scanned_columns_for, _totals_along(0), *_MATRIX)
"""Running totals of columns."""
SORT: Final = tunable_of(pieces_for, recorded_task(_write_sorted, np.sort), (1 << 21,), (1 << 24,))
"""Sorting a line."""
TRANSPOSE: Final = tunable_of(squares_for, recorded_task(_write_turned, np.transpose), *_MATRIX)
"""The transpose of a matrix, copied."""
VARIANCE_COLUMNS: Final = tunable_of(
    moments_for, recorded_task(_write_variance, partial(np.var, axis=0)), *_MATRIX
)
"""The variances of columns."""
