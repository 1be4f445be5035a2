"""Whether arrays overlap."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.linalg.base.operands import views_overlap


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_one_array(seed: int) -> None:
    """As NumPy finds out, of blocks and their transposes in two and three dimensions."""
    device = portable.device("cpu")
    rng = np.random.default_rng(seed)
    for _ in range(200):
        whole = np.empty(rng.integers(1, 9, 2 + seed % 2), np.float32)
        x, y = (_block(whole, rng) for _ in range(2))
        assert _overlap(device, x, y) == np.shares_memory(x, y)


def test_blocks_side_by_side_take_no_time() -> None:
    """Where NumPy's search gives up, which counts as an overlap."""
    device, whole = portable.device("cpu"), np.empty((1256, 1256), np.float32)
    assert not _overlap(device, whole[:263, :64], whole[64:327, 64:327])
    assert _overlap(device, whole[:263, :65], whole[64:327, 64:327])


def _overlap(device: Device, x: np.ndarray, y: np.ndarray) -> bool:
    return views_overlap(device.view(x), device.view(y))


def _block(whole: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    starts = [int(rng.integers(0, extent)) for extent in whole.shape]
    block = whole[
        tuple(
            slice(a, int(rng.integers(a + 1, n + 1)))
            for a, n in zip(starts, whole.shape, strict=True)
        )
    ]
    return block.swapaxes(-1, -2) if rng.random() < 0.3 else block
