"""Recipes: steps worked out for some arrays and run on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.array.base.operations import OPERATIONS
from portable.backend import Device
from portable.dtypes import float32
from portable.primitives.base.recipe import Number, Recipe, repeatable
from portable.primitives.maps.elementwise import applied, recorded


class Line(NamedTuple):
    """A stretch of an array, its numbers beside an array as kernels' structs have them."""

    begin: Any
    values: Any
    step: Any


@dataclass(frozen=True)
class Both:
    """Two structs and a number between."""

    left: Line
    factor: Any
    right: Line


@portable.kernel
def weave(both: Both, outs: tuple[Any, Any], shift: Any) -> None:
    """Writes a weighted sum of two lines to one array, and their difference to another."""
    i = kl.global_id(0)
    total, difference = outs
    if i < total.shape[0]:
        x = both.left.values[both.left.begin + i * both.left.step]
        y = both.right.values[both.right.begin + i * both.right.step]
        total[i] = x + both.factor * y + shift
        difference[i] = x - y


def test_runs_on_views_of_other_buffers(ours: Device) -> None:
    a = np.arange(40, dtype=np.float32)
    first, other = ours.from_numpy(a), ours.from_numpy(-a)
    like = first[4:24]
    recipe = Recipe(like)
    doubled = recorded(recipe, OPERATIONS["multiply"], like, 2)
    out = recipe.empty((5, 4), float32)
    backwards = doubled.part(slice(None, None, -1)).viewed((5, 4), (-16, -4))
    applied(recipe, OPERATIONS["add"], backwards, 1, out=out)
    run = recipe.finish(out.part((slice(1, 3), slice(None))), doubled, like.part(slice(2, 4)))
    for x, b in ((like, a[4:24]), (other[4:24], -a[4:24]), (other[8:28], -a[8:28])):
        part, whole, given = (portable.to_numpy(v) for v in run(x))
        np.testing.assert_array_equal(whole, 2 * b)
        np.testing.assert_array_equal(part, (2 * b[::-1] + 1).reshape(5, 4)[1:3])
        np.testing.assert_array_equal(given, b[2:4])


def test_results_are_new_in_each_run(ours: Device) -> None:
    x = ours.from_numpy(np.ones(8, np.float32))
    recipe = Recipe(x)
    run = recipe.finish(recorded(recipe, OPERATIONS["negative"], x))
    one, two = run(x), run(x)
    one += 5
    np.testing.assert_array_equal(portable.to_numpy(two), -np.ones(8))


def test_arrays_may_be_asked_for(ours: Device) -> None:
    x = ours.from_numpy(np.ones(8, np.float32))
    tables = [ours.from_numpy(np.full(8, n, np.float32)) for n in range(3)]
    recipe = Recipe(x)
    table = recipe.found(lambda: tables[-1])
    run = recipe.finish(recorded(recipe, OPERATIONS["add"], x, table))
    for n in (2, 1):
        np.testing.assert_array_equal(portable.to_numpy(run(x)), np.full(8, 1 + n))
        tables.pop()


@pytest.mark.parametrize("made_elsewhere", [False, True])
def test_launches_take_structs(ours: Device, made_elsewhere: bool) -> None:
    """Arrays and numbers within tuples and structs, however deep, given or of the recipe's own."""
    a = np.arange(64, dtype=np.float32)
    x, y, n = ours.from_numpy(a), ours.from_numpy(10 * a), 16
    recipe = Recipe(x, y)
    own = recorded(recipe, OPERATIONS["multiply"], y, 2)
    total, difference = recipe.empty((n,), float32), recipe.empty((n,), float32)
    args = Both(Line(4, x, 3), 0.5, Line(2, own, 1)), (total, difference), 1.0
    if made_elsewhere:
        recipe.add(repeatable(weave[n, n], args, {}, disjoint=True), args)
    else:
        recipe.launch(weave, n, n, *args)
    run = recipe.finish(total, difference)
    for by in (1, 1, 7):
        found = (portable.to_numpy(v) for v in run(ours.from_numpy(by * a), ours.from_numpy(-a)))
        left, right = by * a[4 : 4 + 3 * n : 3], -2 * a[2 : 2 + n]
        np.testing.assert_array_equal(next(found), left + right / 2 + 1)
        np.testing.assert_array_equal(next(found), left - right)


def test_numbers_in_structs_are_those_of_the_call(ours: Device) -> None:
    x = ours.from_numpy(np.arange(64, dtype=np.float32))
    begin, n = Number(4), 16
    recipe = Recipe(x, begin)
    total, difference = recipe.empty((n,), float32), recipe.empty((n,), float32)
    recipe.launch(
        weave, n, n, Both(Line(begin, x, 1), 1.0, Line(0, x, 1)), (total, difference), 0.0
    )
    run = recipe.finish(difference)
    for first in (4, 9, 0):
        np.testing.assert_array_equal(portable.to_numpy(run(x, first)), np.full(n, first))


def test_arrays_of_others_are_refused(simulated: Device) -> None:
    x = simulated.from_numpy(np.ones(8, np.float32))
    with pytest.raises(ValueError, match="its own arrays"):
        recorded(Recipe(x), OPERATIONS["negative"], simulated.from_numpy(np.ones(8, np.float32)))
