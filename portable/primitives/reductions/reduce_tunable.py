"""What ``portable tune reduce`` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.dtypes import DType, float32
from portable.primitives.base.borrowed import fetched, stored
from portable.primitives.base.recipe import Recipe
from portable.primitives.reductions.axis import reduced
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.tuning import SPACE, trying
from portable.tune.space import Parameters
from portable.tune.tunable import Size, Tunable, parse_extents

__all__ = ["TUNABLE"]

_MOST_ERROR: Final = 1e-5


class _Sum:
    """The sum of a line of numbers, against one in double precision."""

    def __init__(self, device: Device, dtype: DType, size: Size) -> None:
        host = np.random.default_rng(1).random(size, np.float32).astype(dtype.numpy)
        self._x = stored(device, device.from_numpy(host))
        self._expected = float(host.sum(dtype=np.float64))
        self._runs: dict[tuple[Any, ...], Callable[[Any], Any]] = {}
        self._found: Any = None

    def run(self, choice: Parameters) -> None:
        """Enqueues it."""
        key = tuple(choice.values())
        if key not in self._runs:
            self._runs[key] = self._written(choice)
        self._found = self._runs[key](self._x)

    def _written(self, choice: Parameters) -> Callable[[Any], Any]:
        kind = self._x.dtype
        recipe = Recipe(self._x)
        with trying(choice):
            found = reduced(recipe, self._x, (0,), Merge(kl.add, kind.register, 0), kind)
        return recipe.finish(found)

    def error(self) -> float:
        """Of the last sum, over what is allowed."""
        found, self._found = float(fetched(self._found).item()), None
        return abs(found / self._expected - 1) / _MOST_ERROR


def _sizes(capabilities: Capabilities) -> Sequence[Size]:
    return [(1 << 23,)] if capabilities.lone_work_items else [(1 << 26,)]


def _additions(size: Size) -> float:
    return float(size[0])


def _problem(device: Device, dtype: DType, size: Size) -> Any:
    return _Sum(device, dtype, size)


_parse: Final = partial(parse_extents, axes="N", example="16777216")

TUNABLE: Final = Tunable(SPACE, (float32,), _sizes, _parse, _additions, _problem)
"""Workgroups and vectors of reductions along a line."""
