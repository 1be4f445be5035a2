"""Reductions are cut as the table says, and what is searched is right."""

from __future__ import annotations

import numpy as np

import portable as pt
from portable.backend import Device
from portable.dtypes import float32
from portable.primitives.base.borrowed import stored
from portable.primitives.reductions import tuning
from portable.primitives.reductions.axis import cut
from portable.primitives.reductions.reduce_tunable import TUNABLE
from tests.support.capabilities import made_up


def test_every_device_has_a_choice() -> None:
    for alone in (False, True):
        shares = tuning.shares_for(made_up(lone_work_items=alone, max_workgroup=64))
        assert shares.group == (1 if alone else 64)


def test_choices_are_tried(device: Device) -> None:
    chosen = [
        choice
        for choice in TUNABLE.space.choices(float32, device.capabilities)
        if (choice["AHEAD"], choice["VECTORS"]) == (2, 1024)
    ][:2]
    problem = TUNABLE.problem(device.for_arrays(), float32, (30_001,))
    own = device.for_arrays()
    x = stored(own, pt.asarray(np.ones(1 << 20, np.float32), device=own))
    for choice in chosen:
        problem.run(choice)
        assert problem.error() < 1
        with tuning.trying(choice):
            assert tuning.shares_for(device.capabilities).vectors == 1024
            assert cut(x, 1).section >= 1024
    assert tuning.shares_for(device.capabilities).vectors != 1024
