"""Recipes: steps worked out for some arrays and run on others."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable.array.base.operations import OPERATIONS
from portable.backend import Device
from portable.dtypes import float32
from portable.primitives.base.recipe import Recipe
from portable.primitives.maps.engine import applied, recorded


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


def test_arrays_of_others_are_refused(simulated: Device) -> None:
    x = simulated.from_numpy(np.ones(8, np.float32))
    with pytest.raises(ValueError, match="its own arrays"):
        recorded(Recipe(x), OPERATIONS["negative"], simulated.from_numpy(np.ones(8, np.float32)))
