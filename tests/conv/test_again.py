"""Calls of conv2d like earlier ones: what they give, and what they leave to the general way."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import conv
from portable.backend import Device
from portable.errors import ShapeError

from .reference import Case, results

CASE = Case((2, 8, 14, 13), (8, 8, 3, 3), padding=(1, 1))


def arrays(device: Device, seed: int) -> tuple[Any, Any, Any, Any]:
    """Images and filters, on the host and on a device."""
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 8, 14, 13), (8, 8, 3, 3)))
    return x, w, device.from_numpy(x), device.from_numpy(w)


@pytest.mark.parametrize("algorithm", ["direct", "winograd2"])
@pytest.mark.parametrize("fresh", [False, True])
def test_every_call_reads_its_own_arrays(device: Device, algorithm: Any, fresh: bool) -> None:
    out = None
    for seed in range(11):
        x, w, images, filters = arrays(device, seed)
        out = conv.conv2d(
            images, filters, padding=1, algorithm=algorithm, out=None if fresh else out
        )
        wanted = results(CASE, x, w)
        np.testing.assert_allclose(device.to_numpy(out), wanted, rtol=1e-4, atol=1e-4)


def test_what_earlier_calls_allowed_is_still_refused(device: Device) -> None:
    _, _, images, filters = arrays(device, 1)
    for _ in range(6):
        conv.conv2d(images, filters, padding=1, out=conv.conv2d(images, filters, padding=1))
    with pytest.raises(ShapeError, match="out overlaps x"):
        conv.conv2d(images, filters, padding=1, out=images)
    with pytest.raises(ShapeError, match="out has shape"):
        conv.conv2d(images, filters, padding=1, out=images[:1])


def test_a_residual_may_be_the_result_again(device: Device) -> None:
    x, w, images, filters = arrays(device, 2)
    out = device.from_numpy(np.zeros_like(x))
    for _ in range(9):
        conv.conv2d(images, filters, padding=1, residual=out, out=out)
    wanted = 9 * results(CASE, x, w)
    np.testing.assert_allclose(device.to_numpy(out), wanted, rtol=1e-3, atol=1e-3)


def test_threads_have_room_of_their_own() -> None:
    device, faults = pt.device("cpu:native"), []

    def work(seed: int) -> None:
        x, w, images, filters = arrays(device, seed)
        wanted = results(CASE, x, w)
        for _ in range(40):
            got = conv.conv2d(images, filters, padding=1, algorithm="winograd2")
            if not np.allclose(device.to_numpy(got), wanted, atol=1e-4):
                faults.append(seed)

    with pt.use(device):
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not faults


def test_a_call_like_earlier_ones_makes_few_calls_of_python() -> None:
    device = pt.device("cpu:native")
    _, _, images, filters = arrays(device, 3)
    out = conv.conv2d(images, filters, padding=(1, 1))
    for _ in range(6):
        conv.conv2d(images, filters, padding=1, out=out)
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(event) if event == "call" else None)
    try:
        conv.conv2d(images, filters, padding=1, out=out)
    finally:
        sys.setprofile(None)
    assert len(called) <= 40
