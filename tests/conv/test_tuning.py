"""The table of tuned parameters decides by which algorithm and with which tiles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.conv import prepare
from portable.conv.conv_tunable import TUNABLE, TUNABLE_WEIGHTS
from portable.conv.direct.gathered import tiles_for
from portable.conv.tuning import entry_of, tiles_of_blocks
from portable.tune.table import device_keys, record, state, user_table
from portable.tune.tunable import Tunable


@pytest.fixture(autouse=True)
def _own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_TUNING", str(tmp_path / "tuning.json"))
    user_table().write_text("{}", encoding="utf-8")


def ones(device: Device, shape: tuple[int, ...]) -> Any:
    return pt.asarray(np.ones(shape, np.float32), device=device)


def choice(device: Device, **others: Any) -> dict[str, Any]:
    """One that every device takes."""
    return {name: TUNABLE.space.left_out.get(name) for name in TUNABLE.space.values} | others


def test_gathered_products_take_tiles_that_a_device_has_room_for() -> None:
    device = pt.device("simulator:intel-cpu")
    found = tiles_for(device, pt.float32, "register", (1024, 1024, 1))
    assert found
    for tile in found:
        slots = 2 * (tile["BM"] + tile["BN"]) * tile["BK"] * pt.float32.itemsize
        assert slots <= device.capabilities.local_memory


def test_an_entry_for_a_shape_is_for_that_shape(device: Device) -> None:
    x, w = (2, 64, 20, 20), ones(device, (64, 64, 3, 3))
    more = (3, *x[1:])
    known, before = prepare(x, w).algorithm, prepare(more, w).algorithm
    other = "winograd2" if known != "winograd2" else "winograd4"
    key = device_keys(device.capabilities)[0]
    record(
        "conv", pt.float32, key, [entry_of((64, 20, 20, 64, 2), choice(device, ALGORITHM=other))]
    )
    assert prepare(x, w).algorithm == other
    assert prepare(more, w).algorithm == before


def test_blocks_are_as_the_table_has_them(device: Device) -> None:
    shape = prepare((2, 8, 9, 9), ones(device, (8, 8, 3, 3)))._route.method.shape
    key = device_keys(device.capabilities)[0]
    entry = entry_of((8, 9, 9, 8, 2), choice(device, ALGORITHM="winograd4", T=64))
    record("conv", pt.float32, key, [entry])
    assert tiles_of_blocks(device.capabilities, pt.float32, shape, state()) == (64,)


@pytest.mark.parametrize("algorithm", ["direct", "winograd2"])
@pytest.mark.parametrize("tunable", [TUNABLE, TUNABLE_WEIGHTS], ids=["results", "weights"])
def test_what_is_tuned_is_verified(device: Device, tunable: Tunable, algorithm: str) -> None:
    problem = tunable.problem(device, pt.float32, (3, 6, 7, 4, 2))
    problem.run(choice(device, ALGORITHM=algorithm))
    assert problem.error() <= 1
    assert not problem.error() <= 1, "the result is to be cleared"


def test_what_is_not_read_is_not_searched() -> None:
    """Of Winograd's method the algorithm, and on processors the tiles of a block alone."""
    core, gpu = (pt.device(f"simulator:{name}") for name in ("intel-cpu", "h200"))
    fits, usual = TUNABLE.space.fits, choice(core, ALGORITHM="winograd4")
    assert fits(usual, pt.float32, gpu.capabilities)
    assert not fits(usual | {"T": 64}, pt.float32, gpu.capabilities)
    for tiles in (16, 64, 128):
        assert fits(usual | {"T": tiles}, pt.float32, core.capabilities)
    assert not fits(usual | {"T": 64}, pt.float16, core.capabilities)
    assert TUNABLE_WEIGHTS.space.fits(usual, pt.float32, core.capabilities)
    assert not TUNABLE_WEIGHTS.space.fits(usual | {"T": 64}, pt.float32, core.capabilities)
    for other in ({"BM": 24}, {"BN": 16}, {"BK": 32}):
        assert not fits(usual | other, pt.float32, core.capabilities)


def test_sizes_and_choices(device: Device) -> None:
    can = device.capabilities
    for dtype in TUNABLE.dtypes:
        assert TUNABLE.flops(TUNABLE.sizes(can)[0]) > 0
        assert next(TUNABLE.space.choices(dtype, can))
    assert TUNABLE.parse_size("3x8x9x4x1") == (3, 8, 9, 4, 1)
    assert np.isclose(TUNABLE.flops((1, 3, 3, 1, 1)), 18)
