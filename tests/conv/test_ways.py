"""Direct ways of convolving: lanes of pixels, few channels a group; epilogues, sides, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import sim
from portable.backend import Device
from portable.conv import conv2d, conv2d_input_gradient, conv2d_weight_gradient, prepare
from portable.conv.direct.boxes import Boxes, blocks_of
from portable.conv.direct.depthwise import Depthwise
from portable.conv.direct.grouped import Grouped
from portable.conv.direct.lanes import Lanes
from portable.conv.direct.parted import Parted
from portable.conv.direct.product import Product
from portable.conv.direct.windows import FewFilters
from portable.conv.geometry import geometry
from portable.conv.route import route
from portable.conv.winograd.points import transforms
from portable.dtypes import dtype, float16, float32
from portable.tune.table import state
from tests.support.devices import day

from .reference import Case, Host, bounds, gradients, results

CASES = {
    "depthwise": Case((2, 8, 9, 13), (8, 1, 3, 3), padding=(1, 1), groups=8),
    "depthwise, rows narrower than vectors": Case(
        (2, 8, 7, 2), (8, 1, 3, 3), padding=(1, 1), groups=8
    ),
    "depthwise, strides": Case((1, 8, 11, 9), (8, 1, 5, 5), (2, 2), (2, 2), groups=8),
    "depthwise, seven taps": Case((1, 4, 17, 19), (4, 1, 7, 7), padding=(3, 3), groups=4),
    "two filters a group": Case((2, 6, 9, 9), (12, 1, 3, 2), (1, 1), (1, 0), (2, 1), groups=6),
    "four channels a group": Case((1, 16, 8, 9), (16, 4, 3, 3), padding=(1, 1), groups=4),
    "three filters a group": Case((2, 6, 7, 6), (9, 2, 3, 3), padding=(1, 1), groups=3),
    "a first layer": Case((1, 3, 18, 22), (10, 3, 7, 7), (2, 2), (3, 3)),
    "one tap": Case((2, 5, 10, 24), (21, 5, 1, 1)),
    "one tap, strides": Case((1, 6, 20, 20), (10, 6, 1, 1), (2, 2)),
    "one tap, small images": Case((2, 40, 7, 7), (48, 40, 1, 1)),
    "one tap, small images, strides": Case((2, 48, 9, 14), (48, 48, 1, 1), (2, 2)),
    "phases of strides": Case((1, 6, 14, 50), (10, 6, 3, 3), (3, 2), (2, 4), (2, 1)),
    "windows apart": Case((2, 6, 12, 9), (10, 6, 2, 2), (2, 2)),
    "three channels": Case((2, 3, 9, 11), (16, 3, 3, 3), (1, 2), (1, 1)),
    "one tap, three channels": Case((1, 3, 10, 24), (16, 3, 1, 1)),
    "rows of odd pixels": Case((2, 5, 5, 5), (128, 5, 1, 1)),
    "only behind": Case((1, 2, 7, 8), (3, 2, 3, 3), padding=((0, 2), (0, 1))),
}
LAYOUTS = ("NCHW", "NHWC")


def laid_out(x: Host, layout: str) -> Host:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x


def as_nchw(x: Any, layout: str) -> Host:
    host = pt.to_numpy(x)
    return host.transpose(0, 3, 1, 2) if layout == "NHWC" else host


def check(case: Case, layout: Any, dtype: Any = np.float32) -> None:
    """Bias, scale, residual and activation in one go, by the device in use."""
    x, w = case.images(dtype)
    random = np.random.default_rng(7)
    bias, scale = (random.standard_normal(w.shape[0]).astype(dtype) for _ in range(2))
    sums = results(case, x, w)
    residual = random.standard_normal(sums.shape).astype(dtype)
    wide = (scale.astype(float), bias.astype(float))
    expected = wide[0][:, None, None] * sums + wide[1][:, None, None] + residual
    given = {"bias": bias, "scale": scale, "residual": laid_out(residual, layout)}
    device = pt.device()
    there = {name: pt.asarray(a, device=device) for name, a in given.items()}
    found = conv2d(
        pt.asarray(laid_out(x, layout), device=device),
        pt.asarray(w, device=device),
        activation="relu",
        layout=layout,
        algorithm="direct",
        **there,
        **case.settings,
    )
    error = np.abs(as_nchw(found, layout) - np.maximum(expected, 0)).max()
    assert error < (2e-3 if dtype is np.float16 else 1e-6) * (
        4 + abs(scale).max() * bounds(case, x, w)
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CASES)
def test_ways(device: Device, name: str, layout: str) -> None:
    check(CASES[name], layout)


@pytest.mark.parametrize(
    "name", ["depthwise", "four channels a group", "a first layer", "one tap, three channels"]
)
def test_halves(device: Device, name: str) -> None:
    check(CASES[name], "NHWC", np.float16)


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_without_races(number: int) -> None:
    """As either kind of device has it: half of the cases on one, on the other the next day."""
    profile, case = ("intel-cpu", "h200")[(number + day()) % 2], list(CASES.values())[number]
    with pt.use(f"simulator:{profile}"), sim.checks(completion="early"):
        for layout in LAYOUTS:
            check(case, layout)


@pytest.mark.parametrize(
    "case",
    [
        Case((2, 64, 6, 7), (3, 64, 5, 5), padding=(2, 1)),
        Case((1, 12, 9, 14), (20, 12, 3, 3), (2, 2), (1, 1)),
    ],
    ids=["few filters of many taps", "some channels, strides"],
)
def test_by_work_items_and_windows(case: Case) -> None:
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        check(case, "NCHW")


def test_which_way_they_go() -> None:
    """A processor takes lanes of channels where vectors hold some, else lanes of pixels."""

    def way(device: str, layout: Any, channels: int) -> Any:
        w = np.zeros((channels, 1, 3, 3), np.float32)
        shape = (1, channels, 20, 20) if layout == "NCHW" else (1, 20, 20, channels)
        with pt.use(device):
            return type(prepare(shape, w, groups=channels, layout=layout)._route.method)

    processor, crowd = "simulator:intel-cpu", "simulator:h200"
    assert [way(processor, layout, 64) for layout in LAYOUTS] == [Depthwise, Depthwise]
    assert [way(processor, layout, 6) for layout in LAYOUTS] == [Lanes, Grouped]
    assert [way(crowd, layout, 64) for layout in LAYOUTS] == [Grouped, Grouped]


@pytest.mark.parametrize(
    ("shape", "filters", "stride", "layout", "kind", "wanted"),
    [
        ((32, 440, 14, 14), (16, 440, 7, 7), 1, "NCHW", np.float32, FewFilters),
        ((1, 24, 21, 21), (256, 24, 7, 7), 1, "NCHW", np.float32, Parted),
        ((4, 16, 14, 14), (448, 16, 1, 1), 2, "NCHW", np.float32, Grouped),
        ((32, 112, 112, 3), (112, 3, 1, 1), 1, "NHWC", np.float16, Grouped),
        ((4, 56, 56, 240), (152, 240, 1, 1), 1, "NHWC", np.float16, Boxes),
        ((32, 56, 56, 256), (128, 256, 1, 1), 1, "NHWC", np.float16, Product),
    ],
)
def test_layers_that_were_cliffs(
    shape: Any, filters: Any, stride: int, layout: Any, kind: Any, wanted: type
) -> None:
    """On an H200: by the way that took least of all that were timed."""
    with pt.use("simulator:h200"):
        extents = tuple(shape[i] for i in (0, 3, 1, 2)) if layout == "NHWC" else shape
        taps = filters[2]
        case = geometry(extents, filters, (stride, stride), (taps // 2,) * 2, (1, 1), 1)
        method = route(pt.device(), case, dtype(kind), layout, "auto", state()).method
    assert type(method) is wanted


def test_groups_share_a_block_where_their_copies_cost_more() -> None:
    shape = geometry((16, 56, 112, 112), (408, 28, 3, 3), (2, 2), (1, 1), (1, 1), 2)
    assert blocks_of(shape, float16, True) == 1
    assert blocks_of(shape, float32, True) == 2


@pytest.mark.parametrize("shape", [(1, 64, 112, 112), (2, 2048, 7, 7), (3, 3, 1, 5000)])
def test_blocks_stay_in_a_cores_cache(shape: tuple[int, ...]) -> None:
    """But for a single row, and sums stay in registers."""
    with pt.use("simulator:intel-cpu"):
        method: Any = prepare(
            shape, np.zeros((48, shape[1], 1, 3), np.float32), algorithm="direct"
        )._route.method
    blocks, plan = method.blocks, method.plan
    seen = shape[1] * blocks.height * blocks.width * 4
    assert blocks.rows == 1 or seen <= 2**18
    assert 1 <= plan.filters * plan.vectors <= 24


def test_few_channels_are_convolved_in_blocks_of_many_rows() -> None:
    """So that each of many filters writes one long run of memory, not a short one a row."""
    with pt.use("simulator:intel-cpu"):
        w = np.zeros((320, 4, 3, 3), np.float32)
        method: Any = prepare((1, 4, 64, 64), w, padding=1, algorithm="direct")._route.method
    assert method.blocks.rows >= 16


@pytest.mark.parametrize("taps", [3, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding(device: Device, taps: int, stride: int) -> None:
    """As many results as pixels that the stride meets; the odd zero lies behind."""
    x = np.arange(63, dtype=np.float32).reshape(1, 1, 7, 9)
    w = np.ones((1, 1, taps, taps), np.float32)
    sides = []
    for extent in (7, 9):
        more = max(0, (-(-extent // stride) - 1) * stride + taps - extent)
        sides.append((more // 2, more - more // 2))
    case = Case(x.shape, w.shape, (stride, stride), tuple(sides))  # type: ignore[arg-type]
    found = conv2d(
        pt.asarray(x, device=device), pt.asarray(w, device=device), padding="same", stride=stride
    )
    assert found.shape[2:] == (-(-7 // stride), -(-9 // stride))
    assert np.array_equal(pt.to_numpy(found), results(case, x, w))


@pytest.mark.parametrize("padding", ["valid", ((1, 2, 3), (1, 1)), ((1, 1),), ((-1, 0), (0, 0))])
def test_paddings_that_there_are_not(padding: Any) -> None:
    x, w = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 3, 3), np.float32)
    with pytest.raises(ValueError, match="padding="):
        conv2d(x, w, padding=padding)


GRADIENTS = [
    Case((2, 3, 13, 11), (8, 3, 4, 4), (4, 4)),
    Case((2, 3, 9, 11), (16, 3, 3, 3), padding=(1, 1)),
    Case((2, 4, 9, 11), (6, 4, 3, 3), (2, 2), (1, 1)),
    Case((1, 3, 20, 17), (5, 3, 7, 7), (2, 2), (3, 3)),
    Case((2, 4, 8, 9), (6, 4, 1, 1), (2, 2)),
    Case((1, 8, 10, 12), (8, 1, 3, 3), (2, 2), (1, 1), groups=8),
    Case((1, 6, 10, 12), (6, 1, 5, 5), padding=(2, 2), groups=6),
    Case((1, 4, 9, 9), (4, 2, 3, 2), (3, 2), (4, 3), (2, 1), groups=2),
    Case((1, 2, 7, 8), (3, 2, 2, 2), (3, 3)),
    Case((1, 2, 7, 8), (3, 2, 3, 3), (2, 2), (0, 1), (2, 2)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients(device: Device, case: Case, layout: Any) -> None:
    x, w = case.images(np.float32)
    random = np.random.default_rng(5)
    dy = random.standard_normal(results(case, x, w).shape).astype(np.float32)
    by_images, by_filters = gradients(case, x, w, dy)
    there = [pt.asarray(laid_out(a, layout), device=device) for a in (x, dy)]
    settings = {"layout": layout, **case.settings}
    filters = pt.asarray(w, device=device)
    found = conv2d_input_gradient(there[1], filters, there[0].shape, **settings)
    assert np.allclose(as_nchw(found, layout), by_images, atol=1e-4)
    found = conv2d_weight_gradient(*there, w.shape, **settings)
    assert np.allclose(pt.to_numpy(found), by_filters, atol=1e-4)


UNIT = 2.0**-24


@pytest.mark.parametrize("pixel", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("algorithm", ["winograd2", "winograd3", "winograd4", "winograd6", "auto"])
def test_a_large_pixel(device: Device, algorithm: Any, pixel: float) -> None:
    """Winograd's errors are bounded by the largest pixel of a tile, and stay in its tile."""
    channels = 4
    x = np.ones((1, channels, 26, 26), np.float32)
    x[0, 1, 13, 12] = pixel
    w = np.ones((2, channels, 3, 3), np.float32)
    with pt.use(device):
        plan = prepare(x.shape, pt.asarray(w, device=device), algorithm=algorithm)
        error = np.abs(
            pt.to_numpy(plan(pt.asarray(x, device=device))) - results(Case(x.shape, w.shape), x, w)
        )  # type: ignore[arg-type]
    m = int(plan.algorithm[-1]) if plan.algorithm.startswith("winograd") else 0
    if not m:
        assert (error <= 4 * UNIT * 9 * channels * (pixel + channels * 9)).all()
        return
    by = transforms(m, 3)
    far = np.ones((24, 24), bool)
    row, column = (13 - m - 1) // m * m, (12 - m - 1) // m * m
    far[max(0, row) : 13 + m + 2, max(0, column) : 12 + m + 2] = False
    steps = channels + 4 * by.inputs + 6
    assert error.max() <= by.growth * steps * UNIT * (pixel + channels)
    assert error[:, :, far].max() <= by.growth * steps * UNIT * channels


def test_full_precision_has_elementwise_bounds(device: Device) -> None:
    x = np.ones((1, 3, 20, 20), np.float32)
    x[0, 1, 9, 9], x[0, 0, 3, 3] = 1e8, 3e37
    w = np.ones((2, 3, 3, 3), np.float32)
    case = Case(x.shape, w.shape)  # type: ignore[arg-type]
    with pt.use(device):
        found = pt.to_numpy(
            conv2d(pt.asarray(x, device=device), pt.asarray(w, device=device), precision="full")
        )
    expected = results(case, x, w)
    assert (np.abs(found - expected) <= 4 * UNIT * 27 * results(case, abs(x), abs(w))).all()
    with pytest.raises(ValueError, match="whole tiles"):
        conv2d(x, w, precision="full", algorithm="winograd2")
    with pytest.raises(ValueError, match="precision='half'"):
        conv2d(x, w, precision="half")  # type: ignore[arg-type]


@pytest.mark.parametrize("taps", [3, 5])
def test_the_first_choice_errs_at_most_four_times_as_much_as_sums(
    device: Device, taps: int
) -> None:
    """As the direct sums of the same device, whose order is its own."""
    random = np.random.default_rng(2)
    channels = 24 if device.interprets else 320
    x = random.standard_normal((1, channels, 26, 26)).astype(np.float32)
    w = random.standard_normal((8, channels, taps, taps)).astype(np.float32)
    expected = results(Case(x.shape, w.shape), x, w)  # type: ignore[arg-type]
    images, filters = (pt.asarray(a, device=device) for a in (x, w))
    usual, summed = (
        np.abs(pt.to_numpy(conv2d(images, filters, precision=precision)) - expected).max()  # type: ignore[arg-type]
        for precision in ("usual", "full")
    )
    assert usual <= 4 * summed


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["depthwise", "a first layer", "one tap", "one tap, strides"])
def test_prepared_for_certain_arrays(device: Device, name: str, layout: Any) -> None:
    """What the arrays hold is read at each call, and a residual may be the result itself."""
    case = CASES[name]
    x, w = case.images(np.float32)
    sums = results(case, x, w)
    residual = np.random.default_rng(1).standard_normal(sums.shape).astype(np.float32)
    images = pt.asarray(laid_out(x, layout).copy(), device=device)
    out = pt.asarray(laid_out(residual, layout).copy(), device=device)
    plan = prepare(
        images.shape,
        pt.asarray(w, device=device),
        layout=layout,
        algorithm="direct",
        **case.settings,
    )
    again = plan.prepare(images, out=out, residual=out)
    assert np.allclose(as_nchw(out, layout), residual + sums, atol=1e-4)
    images[...] = pt.asarray(laid_out(2 * x, layout), device=device)
    again()
    assert np.allclose(as_nchw(out, layout), residual + 3 * sums, atol=2e-4)
    with pytest.raises(ValueError, match="out has shape"):
        plan.prepare(images, out=out[:1, :1])
