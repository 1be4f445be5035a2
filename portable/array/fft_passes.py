"""The passes over memory of a transform, written down as launches."""

from __future__ import annotations

from math import prod
from typing import Any

from portable.array.fft_ends import Ends, Pass
from portable.array.fft_together import launch_together, parts_together
from portable.array.fft_vectors import launch_in_vectors, parts_in_vectors
from portable.array.recipe import Recipe
from portable.dtypes import DType

__all__ = ["transform"]


def transform(recipe: Recipe, x: Any, out: Any, n: int, kind: DType, ends: Ends) -> None:
    """The transform of `n` numbers along the last axis of `x` into that of `out`.

    A line too long for one pass is cut as in D. H. Bailey, "FFTs in external or hierarchical
    memory", Journal of Supercomputing 4 (1990).

    Parameters
    ----------
    recipe : Recipe
        What gets the launches.
    x, out : Storage
        Of the same shape but for the last axis.
    n : int
        Length, all of whose prime factors have a butterfly.
    kind : DType
        The complex type to compute in.
    ends : Ends
        What else is to be done.
    """
    together = x.device.capabilities.kind != "cpu"
    launch = launch_together if together else launch_in_vectors
    parts = (parts_together if together else parts_in_vectors)(x, out, n, kind)
    if len(parts) == 1:
        launch(recipe, x, out, Pass(n, 1, 1, False, ends), kind)
        return
    rows = prod(x.shape[:-1])
    source, now, done, left = x, ends.first(), 1, n
    for part in parts[:-1]:
        # What earlier passes found tells rows apart; each row is transformed by the rest.
        held = recipe.empty((rows * done, left), kind)
        left //= part
        launch(recipe, source, held, Pass(part, left, left, True, now), kind)
        done *= part
        source = held.viewed((rows * done, left), (left * kind.itemsize, kind.itemsize))
        now = Ends()
    source = _by_first_part(held, rows, parts, kind)
    launch(recipe, source, out, Pass(left, 1, done, False, ends.last()), kind)


def _by_first_part(held: Any, rows: int, parts: tuple[int, ...], kind: DType) -> Any:
    """The last pass's lines in the order of its results, in which the first part is fastest."""
    n = prod(parts)
    steps, left = [], n
    for part in parts[:-1]:
        left //= part
        steps.append(left * kind.itemsize)
    shape = (rows, *parts[-2::-1], parts[-1])
    return held.viewed(shape, (n * kind.itemsize, *steps[::-1], kind.itemsize))
