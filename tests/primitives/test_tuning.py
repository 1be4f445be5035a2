"""Primitives are cut as suits work-items that are alone, or workgroups."""

from __future__ import annotations

import pytest

from portable.array.fourier.one_axis import halves_for
from portable.primitives import tuning
from tests.support.capabilities import made_up

CUT = {
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


@pytest.mark.parametrize("kernel", CUT)
@pytest.mark.parametrize("alone", [False, True])
def test_every_device_has_a_choice(kernel: str, alone: bool) -> None:
    found = CUT[kernel](made_up(single_work_items=alone, max_workgroup=1024))
    assert (found.group == 1) == alone


def test_workgroups_are_no_larger_than_a_device_has_them() -> None:
    small = made_up(single_work_items=False, max_workgroup=64)
    for found in (tuning.shares_for, tuning.columns_for, tuning.row_shares_for):
        assert found(small).group == 64
