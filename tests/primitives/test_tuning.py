"""Primitives are cut as the table says, and what is searched is right."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import portable as pt
from portable.array.fourier.one_axis import TUNABLE as RFFT
from portable.array.fourier.one_axis import halves_for
from portable.backend import Device
from portable.dtypes import float32
from portable.primitives import tunables, tuning
from portable.primitives.base.storage import stored
from portable.primitives.reductions.axis import cut
from portable.tune.tunable import Tunable
from tests.support.capabilities import made_up

TABLED = {
    "argmax_columns": tuning.best_for,
    "compact": tuning.sections_for,
    "map": tuning.row_shares_for,
    "reduce": tuning.shares_for,
    "rfft": halves_for,
    "reduce_columns": tuning.columns_for,
    "scan": tuning.lines_for,
    "scan_columns": tuning.scanned_columns_for,
    "sort": tuning.pieces_for,
    "transpose": tuning.squares_for,
    "variance_columns": tuning.moments_for,
}


@pytest.mark.parametrize("kernel", TABLED)
@pytest.mark.parametrize("alone", [False, True])
def test_every_device_has_a_choice(kernel: str, alone: bool) -> None:
    found = TABLED[kernel](made_up(lone_work_items=alone, max_workgroup=1024))
    assert (found.group == 1) == alone


def test_workgroups_are_no_larger_than_a_device_has_them() -> None:
    small = made_up(lone_work_items=False, max_workgroup=64)
    for found in (tuning.shares_for, tuning.columns_for, tuning.rows_for, tuning.row_shares_for):
        assert found(small).group == 64


TUNABLES = {x.space.kernel: x for x in (*vars(tunables).values(), RFFT) if isinstance(x, Tunable)}
SIZES = {
    "compact": (30_001,),
    "map": (3_001,),
    "reduce": (30_001,),
    "rfft": (1, 4_112),
    "scan": (70_001,),
    "sort": (30_001,),
}


@pytest.mark.parametrize("name", TUNABLES)
def test_choices_are_tried(device: Device, name: str) -> None:
    tunable = TUNABLES[name]
    chosen = list(islice(tunable.space.choices(float32, device.capabilities), 0, None))
    problem = tunable.problem(device, float32, SIZES.get(name, (70, 90)))
    for choice in (chosen[0], chosen[-1]):
        problem.run(choice)
        assert problem.error() < 1


@pytest.mark.needs_compiler
def test_long_transforms_are_right_where_they_happen_to_be_small(device: Device) -> None:
    problem = RFFT.problem(device, float32, (2, 1 << 21))
    problem.run(next(iter(RFFT.space.choices(float32, device.capabilities))))
    assert problem.error() < 1


def test_plans_are_made_with_what_is_tried(device: Device) -> None:
    own, shares_for = device.for_arrays(), tuning.shares_for
    x = stored(own, pt.asarray(np.ones(1 << 20, np.float32), device=own))
    choices = shares_for.space.choices(float32, device.capabilities)
    with shares_for.trying(next(c for c in choices if c["VECTORS"] == 1024)):
        assert shares_for(device.capabilities).vectors == 1024
        assert cut(x, 1).section >= 1024
    assert shares_for(device.capabilities).vectors != 1024
