"""Plans for bands: what the kernels take for granted is asserted, and every device's plans hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portable import dtypes
from portable.backend import profiles
from portable.dtypes import DType
from portable.linalg.bands.plan import Plan, Stage
from portable.linalg.bands.shapes import plan_for

RING = Stage(8, 8, "ring", items=16, sweeps=2)
ALONE = Stage(8, 8, "vectors", lanes=4, rows=2)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ({"reflector": 1}, "2 elements"),
        ({"reflector": 9}, "at most the bandwidth"),
        ({"sweeps": 0}, "1 at least"),
        ({"residency": "ring", "items": 16, "reflector": 4}, "blocks leave a bidiagonal"),
        ({"residency": "ring", "items": 8}, "two blocks"),
        ({"residency": "ring", "items": 16, "bandwidth": 9, "reflector": 9}, "whole parts"),
        ({"residency": "panels", "items": 24, "parts": 3, "sweeps": 3}, "whole strips"),
        ({"residency": "vectors", "reflector": 4}, "bidiagonal"),
        ({"residency": "vectors", "lanes": 3}, "whole vectors"),
        ({"residency": "vectors", "lanes": 8, "rows": 4}, "whole parts"),
        ({"sweeps": 2}, "one sweep"),
        ({"residency": "vectors", "items": 2}, "a sweep to itself"),
        ({"residency": "products", "reflector": 5, "rows": 3}, "whole tiles"),
        ({"residency": "products", "reflector": 5, "rows": 4, "lanes": 3}, "whole tiles"),
        ({"residency": "products", "reflector": 5, "rows": 4, "items": 2}, "a panel to itself"),
    ],
)
def test_stages_that_no_kernel_holds_for_are_refused(stage: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stage(**{"bandwidth": 8, "reflector": 8, "residency": "items", **stage})


@pytest.mark.parametrize(
    ("stages", "persistent", "message"),
    [
        ((RING,), False, "wait for each other"),
        ((Stage(12, 4, "items"), RING), True, "all that the one before leaves"),
        ((Stage(12, 5, "items"),), True, "last stage leaves"),
        ((Stage(12, 5, "items"), ALONE), True, "follow products alone"),
        ((Stage(6, 6, "vectors", lanes=2),), True, "3 b apart"),
    ],
)
def test_stages_that_do_not_follow_are_refused(
    stages: tuple[Stage, ...], persistent: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Plan(stages, persistent, dtypes.float32)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("name", profiles.names())
def test_every_device_has_plans_that_hold(name: str, dtype: DType) -> None:
    capabilities = profiles.load(name).capabilities
    for u in (0, 1, 2, 3, 4, 5, 8, 12, 31, 32, 33, 48, 49, 64, 130, 1000):
        for n in (u + 1, 5000):
            plan = plan_for(u, n, dtype, capabilities)
            assert bool(plan.stages) == (u > 1)
            assert not plan.stages or plan.stages[0].bandwidth >= u


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_processors_make_wide_bands_narrow_first(dtype: DType) -> None:
    capabilities = profiles.load("intel-cpu").capabilities
    residencies = [
        [stage.residency for stage in plan_for(u, 2048, dtype, can).stages]
        for u, can in (
            (32, capabilities),
            (128, capabilities),
            (128, replace(capabilities, forward_progress=False)),
        )
    ]
    assert residencies[:2] == [["vectors"], ["products", "vectors"]]
    assert set(residencies[2]) <= {"panels", "items"}  # which do not wait for each other


def test_one_pack_has_a_unit_to_itself() -> None:
    can = profiles.load("h200").capabilities
    for dtype in (dtypes.float32, dtypes.float64):
        ring = plan_for(32, 8192, dtype, can).stages[-1].ring
        assert can.local_memory_most / 2 < ring.elements * dtype.itemsize <= can.local_memory_most


def test_two_small_panels_share_a_unit_at_most() -> None:
    can = profiles.load("h200").capabilities
    for dtype in (dtypes.float32, dtypes.float64):
        size = plan_for(64, 8192, dtype, can).stages[0].panel_shape.elements * dtype.itemsize
        assert can.local_memory_most / 3 < size <= can.local_memory_most / 2


@pytest.mark.parametrize(
    ("name", "u", "residencies"),
    [
        ("h200", 40, "ring"),
        ("h200", 512, "panels panels ring"),
        ("a100", 128, "panels direct"),
        ("mi300", 128, "panels items"),
        ("apple-opencl", 64, "items items"),
        ("native-cpu", 256, "products products vectors"),
    ],
)
def test_devices_narrow_bands_by_what_they_have(name: str, u: int, residencies: str) -> None:
    can = profiles.load(name).capabilities
    stages = plan_for(u, 8192, dtypes.float32, can).stages
    assert [stage.residency for stage in stages] == residencies.split()
