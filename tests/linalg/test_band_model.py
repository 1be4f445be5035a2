"""The model of the chase: what it says of every device, and beside times that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portable import dtypes
from portable.backend import profiles
from portable.dtypes import DType
from portable.linalg.bands.model import predicted
from portable.linalg.bands.shapes import plan_for


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("name", profiles.names())
def test_every_device_is_given_a_time_that_grows(name: str, dtype: DType) -> None:
    can = profiles.load(name).capabilities
    for u in (2, 32, 130):
        times = [predicted(plan_for(u, n, dtype, can), n, can) for n in (1000, 4000, 16000)]
        assert 0 < times[0] < times[1] < times[2] < 1e4


def test_a_bidiagonal_matrix_takes_no_time() -> None:
    can = profiles.load("h200").capabilities
    assert predicted(plan_for(1, 1000, dtypes.float32, can), 1000, can) == 0


def test_packs_wait_for_each_other_or_for_units() -> None:
    can = profiles.load("h200").capabilities
    plan = plan_for(32, 32768, dtypes.float32, can)
    few, many, endless = (
        predicted(plan, 32768, replace(can, compute_units=units)) for units in (20, 2000, 20000)
    )
    assert few > 3 * many
    assert many == pytest.approx(endless, rel=0.01)


def test_one_pack_has_a_unit_to_itself() -> None:
    can = profiles.load("h200").capabilities
    for dtype in (dtypes.float32, dtypes.float64):
        ring = plan_for(32, 8192, dtype, can).stages[-1].ring
        room = max(can.local_memory, can.local_memory_opt_in)
        assert room / 2 < ring.elements * dtype.itemsize <= room


def test_two_small_panels_share_a_unit_at_most() -> None:
    can = profiles.load("h200").capabilities
    for dtype in (dtypes.float32, dtypes.float64):
        shape = plan_for(64, 8192, dtype, can).stages[0].panel_shape
        room = max(can.local_memory, can.local_memory_opt_in)
        assert room / 3 < shape.elements * dtype.itemsize <= room / 2


_MEASURED = {
    "h200": [
        (8192, 128, dtypes.float32, 42.7),
        (8192, 128, dtypes.float64, 57.5),
        (32768, 96, dtypes.float64, 238),
        (32768, 128, dtypes.float32, 187),
        (32768, 128, dtypes.float64, 251),
        (32768, 256, dtypes.float32, 314),
        (32768, 256, dtypes.float64, 416),
        (32768, 512, dtypes.float32, 681),
    ],
    "nvidia-opencl": [
        (8192, 32, dtypes.float32, 22.1),
        (32768, 32, dtypes.float32, 95),
        (8192, 64, dtypes.float32, 35),
        (8192, 128, dtypes.float32, 38.5),
        (8192, 32, dtypes.float64, 32.2),
        (8192, 64, dtypes.float64, 48.7),
        (8192, 128, dtypes.float64, 56.7),
    ],
    "intel-cpu": [
        (8192, 8, dtypes.float32, 150),
        (8192, 32, dtypes.float32, 260),
        (4096, 64, dtypes.float32, 111),
        (2048, 128, dtypes.float32, 52.5),
        (4096, 128, dtypes.float32, 169),
        (2048, 256, dtypes.float32, 77.5),
        (8192, 8, dtypes.float64, 184),
        (8192, 32, dtypes.float64, 414),
        (4096, 64, dtypes.float64, 180),
        (2048, 128, dtypes.float64, 69.5),
        (4096, 128, dtypes.float64, 247),
        (2048, 256, dtypes.float64, 112),
    ],
}
"""Milliseconds on an H200, through NVIDIA's OpenCL there, and on two cores of a Xeon."""


@pytest.mark.parametrize(
    ("name", "n", "u", "dtype", "measured"),
    [(name, *case) for name, cases in _MEASURED.items() for case in cases],
)
def test_bands_take_what_is_predicted(
    name: str, n: int, u: int, dtype: DType, measured: float
) -> None:
    can = profiles.load(name).capabilities
    if name == "intel-cpu":
        can = replace(can, compute_units=2)
    predicted_ms = 1e3 * predicted(plan_for(u, n, dtype, can), n, can)
    assert predicted_ms == pytest.approx(measured, rel=0.2)
