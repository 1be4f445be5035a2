"""The gradients of convolutions are those of the plain sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.conv import conv2d_input_gradient, conv2d_weight_gradient
from portable.conv.direct.adding import add_up
from portable.errors import LaunchError, ShapeError

from .reference import Case, gradients, results

CASES = {
    "winograd": Case((2, 4, 6, 9), (6, 2, 3, 3), padding=(1, 2), groups=2),
    "strides": Case((3, 2, 9, 8), (3, 2, 3, 2), stride=(2, 3), padding=(1, 0), dilation=(2, 1)),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", CASES)
def test_gradients(device: Device, name: str, layout: Any) -> None:
    case = CASES[name]
    x, w = case.images(np.float32)
    dy = np.random.default_rng(5).standard_normal(results(case, x, w).shape).astype(np.float32)
    by_images, by_filters = gradients(case, x, w, dy)

    def there(a: Any) -> Any:
        if layout == "NHWC":
            a = np.ascontiguousarray(a.transpose(0, 2, 3, 1))
        return pt.asarray(a, device=device)

    gradient, images = there(dy), there(x)
    filters = pt.asarray(w, device=device)
    found = pt.to_numpy(
        conv2d_input_gradient(gradient, filters, images.shape, layout=layout, **case.settings)
    )
    if layout == "NHWC":
        found = found.transpose(0, 3, 1, 2)
    assert np.allclose(found, by_images, atol=1e-4)
    found = conv2d_weight_gradient(images, gradient, w.shape, layout=layout, **case.settings)
    assert np.allclose(pt.to_numpy(found), by_filters, atol=1e-4)


@pytest.mark.parametrize(("algorithm", "layout"), [("winograd2", "NHWC"), ("winograd4", "NCHW")])
def test_by_filters_by_winograds_method(device: Device, algorithm: Any, layout: Any) -> None:
    case = CASES["winograd"]
    x, w = case.images(np.float32)
    dy = np.random.default_rng(5).standard_normal(results(case, x, w).shape).astype(np.float32)
    _, expected = gradients(case, x, w, dy)
    _, largest = gradients(case, abs(x), w, abs(dy))
    images, gradient = (
        pt.asarray(
            np.ascontiguousarray(a.transpose(0, 2, 3, 1)) if layout == "NHWC" else a, device=device
        )
        for a in (x, dy)
    )
    found = conv2d_weight_gradient(
        images, gradient, w.shape, algorithm=algorithm, layout=layout, **case.settings
    )
    bound = {"winograd2": 1e-6, "winograd4": 1e-5}[algorithm]
    assert np.abs(pt.to_numpy(found) - expected).max() < bound * largest.max()


@pytest.mark.needs_processor
def test_parts_of_many_filters(device: Device) -> None:
    """Taps that are neighbours in memory are added up by one work-item, if there are enough."""
    filters, channels = 40, 1536 * device.capabilities.compute_units // 40 + 1
    parts = np.random.default_rng(3).integers(-9, 9, (3, 2, 2, filters, channels))
    there = pt.asarray(parts.astype(np.float32), device=device)
    out = pt.asarray(np.zeros((filters, channels, 2, 2), np.float32), device=device)
    add_up(device, there, device.namespace().permute_dims(out, (2, 3, 0, 1)))
    assert np.array_equal(pt.to_numpy(out), parts.sum(0).transpose(2, 3, 0, 1))


def test_mistakes() -> None:
    x, dy = np.zeros((1, 2, 5, 5), np.float32), np.zeros((1, 3, 3, 3), np.float32)
    w = np.zeros((3, 2, 3, 3), np.float32)
    with pt.use("cpu"):
        with pytest.raises(ValueError, match="a gradient of shape"):
            conv2d_weight_gradient(x, dy[:, :, 1:], w.shape)
        with pytest.raises(ValueError, match="out has shape"):
            conv2d_input_gradient(dy, w, x.shape, out=x[:, :1])
        with pytest.raises(TypeError, match=r"padding \(-1, -1\)"):
            conv2d_input_gradient(
                np.zeros((1, 3, 9, 9), np.float32), w, x.shape, padding=3, algorithm="winograd2"
            )
        same = dy.reshape(-1)[: dy.size - 9].reshape(1, 2, 3, 3)
        with pytest.raises(ShapeError, match="conv2d_input_gradient: out overlaps dy"):
            conv2d_input_gradient(dy, w[:, :, :1, :1], same.shape, out=same)
        w.flags.writeable = False
        with pytest.raises(LaunchError, match="conv2d_weight_gradient: out is read-only"):
            conv2d_weight_gradient(x, dy, w.shape, out=w)
