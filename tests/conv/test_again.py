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

from .reference import Case, gradients, results

CASE = Case((2, 8, 8, 7), (8, 8, 3, 3), padding=(1, 1))


def arrays(device: Device, seed: int) -> tuple[Any, Any, Any, Any]:
    """Images and filters, on the host and on a device."""
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 8, 8, 7), (8, 8, 3, 3)))
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


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("which", ["images", "filters"])
@pytest.mark.parametrize(("taps", "stride", "groups"), [(3, 1, 1), (3, 2, 8), (1, 2, 1)])
def test_gradients_read_their_own_arrays(
    device: Device, layout: Any, which: str, taps: int, stride: int, groups: int
) -> None:
    last = layout == "NHWC"
    case = Case(
        (2, 8, 6, 7), (8, 8 // groups, taps, taps), (stride, stride), (taps // 2,) * 2,
        groups=groups,
    )  # fmt: skip
    rng = np.random.default_rng(4)
    for _ in range(7):
        x, w = (rng.standard_normal(shape).astype(np.float32) for shape in (case.x, case.w))
        dy = rng.standard_normal(results(case, x, w).shape).astype(np.float32)
        images, slopes = (
            device.from_numpy(np.ascontiguousarray(a.transpose(0, 2, 3, 1)) if last else a)
            for a in (x, dy)
        )
        filters, settings = device.from_numpy(w), {"layout": layout, **case.settings}
        by_images, by_filters = gradients(case, x, w, dy)
        if which == "filters":
            found = conv.conv2d_weight_gradient(images, slopes, w.shape, **settings)
            expected = by_filters
        else:
            found = conv.conv2d_input_gradient(slopes, filters, images.shape, **settings)
            expected = by_images.transpose(0, 2, 3, 1) if last else by_images
        np.testing.assert_allclose(device.to_numpy(found), expected, atol=1e-4)


def test_prepared_gradients_read_their_arrays_at_each_call(device: Device) -> None:
    x, w, images, filters = arrays(device, 6)
    dy = np.random.default_rng(7).standard_normal(x.shape).astype(np.float32)
    slopes = device.from_numpy(dy)
    out = [device.from_numpy(np.zeros_like(a)) for a in (x, w)]
    again = (
        conv.prepare_input_gradient(slopes, filters, out=out[0], padding=1),
        conv.prepare_weight_gradient(images, slopes, out=out[1], padding=1),
    )
    slopes[...] = device.from_numpy(2 * dy)
    for call in again:
        call()
    for found, expected in zip(out, gradients(CASE, x, w, 2 * dy), strict=True):
        np.testing.assert_allclose(device.to_numpy(found), expected, atol=1e-3)


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
