"""Lines, volumes and transposed convolutions are the sums of their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.signal import correlate

import portable as pt
from portable import registry
from portable.backend import Device
from portable.conv import (
    conv1d,
    conv1d_input_gradient,
    conv1d_weight_gradient,
    conv3d,
    conv3d_input_gradient,
    conv3d_weight_gradient,
    conv_transpose2d,
)
from portable.namespace import namespace_on

from .reference import Case, Host, gradients, results


def there(device: Device, x: Host) -> Any:
    return pt.asarray(x, device=device)


def correlated(x: Host, w: Host, steps: Any, zeros: Any, spread: Any, groups: int) -> Host:
    """In any number of dimensions, channels first."""
    padded = np.pad(x.astype(float), [(0, 0), (0, 0), *((p, p) for p in zeros)])
    wide = [d * (n - 1) + 1 for d, n in zip(spread, w.shape[2:], strict=True)]
    filters = np.zeros((*w.shape[:2], *wide))
    filters[(slice(None), slice(None), *(slice(None, None, d) for d in spread))] = w
    each = w.shape[0] // groups
    found = [
        [
            correlate(image[k // each * w.shape[1] :][: w.shape[1]], filters[k], mode="valid")[0]
            for k in range(w.shape[0])
        ]
        for image in padded
    ]
    return np.array(found)[(slice(None), slice(None), *(slice(None, None, s) for s in steps))]


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 2, 1, 1), (3, 1, 2, 2)])
def test_lines(
    device: Device, layout: Any, stride: int, padding: int, dilation: int, groups: int
) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((2, 4, 50)).astype(np.float32)
    w = random.standard_normal((6, 4 // groups, 5)).astype(np.float32)
    bias = random.standard_normal(6).astype(np.float32)
    given = np.ascontiguousarray(x.transpose(0, 2, 1)) if layout == "NWC" else x
    found = pt.to_numpy(
        conv1d(
            there(device, given),
            there(device, w),
            bias=there(device, bias),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            layout=layout,
        )
    )
    found = found.transpose(0, 2, 1) if layout == "NWC" else found
    expected = correlated(x, w, (stride,), (padding,), (dilation,), groups) + bias[:, None]
    assert np.allclose(found, expected, atol=1e-4)


def test_lines_of_the_same_length(device: Device) -> None:
    x, w = np.ones((1, 1, 9), np.float32), np.ones((1, 1, 4), np.float32)
    found = conv1d(there(device, x), there(device, w), padding="same")
    assert pt.to_numpy(found)[0, 0].tolist() == [3, 4, 4, 4, 4, 4, 4, 3, 2]


def test_volumes_that_are_elsewhere_than_the_device_in_use() -> None:
    x, w = np.ones((1, 1, 2, 2, 2), np.float32), np.ones((1, 1, 1, 1, 1), np.float32)
    given = [pt.asarray(a, device="cpu:native-arrays") for a in (x, w)]
    with pt.use("simulator"):
        found = conv3d(*given, padding=(1, 0, 0))
    assert pt.to_numpy(found)[0, 0, :, 0, 0].tolist() == [0, 1, 1, 0]


def test_volumes_where_a_library_makes_arrays_on_its_current_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As CuPy does, of which there may be several."""
    device = pt.device("simulator")
    space, current = device.namespace(), [0]

    @contextmanager
    def scope(_: Device) -> Iterator[None]:
        current[0] += 1
        yield
        current[0] -= 1

    def there(function: Any, *args: Any, **options: Any) -> Any:
        assert current[0], "an array is made on another device"
        return function(*args, **options)

    making = {name: partial(there, getattr(space, name)) for name in ("zeros", "concat", "stack")}
    monkeypatch.setattr(registry, "devices_of_backend", lambda _: (device, device))
    monkeypatch.setattr(type(device), "stream_scope", scope)
    monkeypatch.setattr(
        type(device), "namespace", lambda _: SimpleNamespace(**{**vars(space), **making})
    )
    x, w = np.ones((1, 1, 3, 2, 2), np.float32), np.ones((1, 1, 2, 1, 1), np.float32)
    namespace_on.cache_clear()
    try:
        with pt.use(device):
            found = conv3d(x, w, padding=(1, 0, 0))
            slope = conv3d_weight_gradient(x, found, w.shape, padding=(1, 0, 0))
    finally:
        namespace_on.cache_clear()
    assert found[0, 0, :, 0, 0].tolist() == [1, 2, 2, 1]
    assert slope.ravel().tolist() == [20, 20]


@pytest.mark.parametrize(("shape", "found"), [((1, 0), (1, 2)), ((0, 1), (0, 3))])
def test_volumes_without_planes_and_no_volumes(
    device: Device, shape: tuple[int, int], found: tuple[int, int]
) -> None:
    count, depth = shape
    x = device.from_numpy(np.ones((count, 1, depth, 3, 3), np.float32))
    w = device.from_numpy(np.ones((2, 1, 1, 1, 1), np.float32))
    made = pt.to_numpy(conv3d(x, w, padding=1))
    assert made.shape == (found[0], 2, found[1], 5, 5)
    assert not made.any()


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("stride", [1, (2, 1, 2)])
def test_volumes(device: Device, layout: Any, stride: Any) -> None:
    random = np.random.default_rng(2)
    x = random.standard_normal((2, 4, 6, 7, 8)).astype(np.float32)
    w = random.standard_normal((4, 2, 3, 2, 3)).astype(np.float32)
    padding, dilation = (1, 0, 2), (2, 1, 1)
    given = np.ascontiguousarray(x.transpose(0, 2, 3, 4, 1)) if layout == "NDHWC" else x
    found = pt.to_numpy(
        conv3d(
            there(device, given),
            there(device, w),
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=2,
            layout=layout,
        )
    )
    found = found.transpose(0, 4, 1, 2, 3) if layout == "NDHWC" else found
    steps = stride if isinstance(stride, tuple) else (stride,) * 3
    assert np.allclose(found, correlated(x, w, steps, padding, dilation, 2), atol=1e-4)


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_gradients_of_volumes(device: Device, layout: Any) -> None:
    """Beside those of the images of one plane and the adjoint of each element."""
    random = np.random.default_rng(8)
    x = random.standard_normal((2, 4, 5, 6, 5)).astype(np.float32)
    w = random.standard_normal((6, 2, 3, 2, 3)).astype(np.float32)
    how = {"stride": (2, 1, 2), "padding": (1, 0, 1), "dilation": (1, 2, 1), "groups": 2}
    last = layout == "NDHWC"

    def laid_out(a: Any) -> Any:
        return np.ascontiguousarray(a.transpose(0, 2, 3, 4, 1)) if last else a

    def plain(a: Any, b: Any) -> Any:
        return correlated(a, b, how["stride"], how["padding"], how["dilation"], 2)  # type: ignore[arg-type]

    dy = random.standard_normal(plain(x, w).shape).astype(np.float32)
    images, slopes, filters = (there(device, a) for a in (laid_out(x), laid_out(dy), w))
    by_x = conv3d_input_gradient(slopes, filters, images.shape, layout=layout, **how)
    by_w = conv3d_weight_gradient(images, slopes, w.shape, layout=layout, **how)
    found = pt.to_numpy(by_x), pt.to_numpy(by_w)
    by_images = found[0].transpose(0, 4, 1, 2, 3) if last else found[0]
    for _ in range(4):  # the adjoint of a linear function, along random directions
        a, b = (random.standard_normal(s).astype(np.float32) for s in (x.shape, w.shape))
        assert abs((plain(a, w) * dy).sum() - (a * by_images).sum()) < 1e-2
        assert abs((plain(x, b) * dy).sum() - (b * found[1]).sum()) < 1e-2


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_gradients_of_lines(device: Device, layout: Any) -> None:
    random = np.random.default_rng(9)
    x = random.standard_normal((2, 4, 17)).astype(np.float32)
    w = random.standard_normal((6, 4, 3)).astype(np.float32)
    case = Case((2, 4, 1, 17), (6, 4, 1, 3), (1, 2), (0, 1), (1, 2))
    dy = random.standard_normal(results(case, x[:, :, None], w[:, :, None]).shape)
    expected = gradients(case, x[:, :, None], w[:, :, None], dy)
    last = layout == "NWC"
    dy = dy.astype(np.float32)[:, :, 0]
    lines, slopes = (np.ascontiguousarray(a.transpose(0, 2, 1)) if last else a for a in (x, dy))
    how = {"stride": 2, "padding": 1, "dilation": 2, "layout": layout}
    by_x = conv1d_input_gradient(there(device, slopes), there(device, w), lines.shape, **how)
    by_w = conv1d_weight_gradient(there(device, lines), there(device, slopes), w.shape, **how)
    found = pt.to_numpy(by_x)
    assert np.allclose(found.transpose(0, 2, 1) if last else found, expected[0][:, :, 0], atol=1e-4)
    assert np.allclose(pt.to_numpy(by_w), expected[1][:, :, 0], atol=1e-4)


TRANSPOSED = [
    ({"stride": 2, "padding": 1}, (3, 3), 1, (1, 0)),
    ({"stride": (3, 2), "padding": (0, 1), "dilation": (1, 3)}, (2, 3), 2, (2, 1)),
    ({"stride": 3}, (2, 2), 1, (0, 0)),
    ({}, (3, 3), 1, (0, 0)),
]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("settings", "taps", "groups", "more"), TRANSPOSED)
def test_transposed(
    device: Device, layout: Any, settings: Any, taps: Any, groups: int, more: Any
) -> None:
    """Beside the gradient by images of the plain sums; bias and activation also where no tap is."""
    random = np.random.default_rng(3)
    x = random.standard_normal((2, 4, 5, 6)).astype(np.float32)
    w = random.standard_normal((4, 6 // groups, *taps)).astype(np.float32)
    bias = random.standard_normal(6).astype(np.float32)
    pairs = {
        name: value if isinstance(value, tuple) else (value,) * 2
        for name, value in settings.items()
    }
    stride, padding, dilation = (
        pairs.get(name, default)
        for name, default in (("stride", (1, 1)), ("padding", (0, 0)), ("dilation", (1, 1)))
    )
    extents = [
        (n - 1) * s - 2 * p + d * (t - 1) + 1 + o
        for n, s, p, d, t, o in zip((5, 6), stride, padding, dilation, taps, more, strict=True)
    ]
    case = Case((2, 6, *extents), w.shape, stride, padding, dilation, groups)  # type: ignore[arg-type]
    expected, _ = gradients(case, np.zeros(case.x), w, x)
    expected = np.maximum(expected + bias[:, None, None], 0)
    given = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    found = pt.to_numpy(
        conv_transpose2d(
            there(device, given),
            there(device, w),
            bias=there(device, bias),
            activation="relu",
            output_padding=more,
            groups=groups,
            layout=layout,
            **settings,
        )
    )
    found = found.transpose(0, 3, 1, 2) if layout == "NHWC" else found
    assert found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-4)


def test_mistakes() -> None:
    x, w = np.ones((1, 2, 5, 5), np.float32), np.ones((2, 3, 3, 3), np.float32)
    with pytest.raises(ValueError, match="less than the stride"):
        conv_transpose2d(x, w, output_padding=1)
    with pytest.raises(ValueError, match="padding='same'"):
        conv_transpose2d(x, w, padding="same")
    with pytest.raises(ValueError, match="not shapes"):
        conv_transpose2d(x, w[:1])
    with pytest.raises(ValueError, match="bias of shape"):
        conv_transpose2d(x, w, bias=np.ones(2, np.float32))
    with pytest.raises(ValueError, match="3 dimensions"):
        conv1d(x, w)
    with pytest.raises(ValueError, match="layout='NCHW'"):
        conv3d(x, w, layout="NCHW")  # type: ignore[arg-type]
    volumes, filters = np.ones((1, 1, 2, 5, 5), np.float32), np.ones((1, 1, 3, 3, 3), np.float32)
    with pytest.raises(ValueError, match="deeper than volumes of 2"):
        conv3d(volumes, filters)
    for stride in ((1, 2), 0, 1.5):
        with pytest.raises(ValueError, match="three of them"):
            conv3d(volumes, filters, stride=stride)  # type: ignore[arg-type]
