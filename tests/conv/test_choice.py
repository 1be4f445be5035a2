"""What is chosen for layers that nobody tuned, counted on the profile of every device."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.conv.direct.boxes import Boxes
from portable.conv.direct.grouped import Grouped
from portable.conv.direct.lanes import Lanes
from portable.conv.direct.product import Product
from portable.conv.direct.windows import FewFilters
from portable.conv.geometry import Geometry, geometry
from portable.conv.method import Method
from portable.conv.route import route
from portable.conv.tuning import sum_choices
from portable.conv.winograd.blocks import WinogradBlocks
from portable.conv.winograd.winograd import Winograd
from portable.dtypes import DType, float16, float32
from portable.tune.table import state

PROFILES = ("a100", "apple-opencl", "arc", "h100", "h200", "intel-cpu", "mi300", "native-cpu",
            "neoverse", "nvidia-opencl", "pocl")  # fmt: skip
COUNT = 300
THIRDS = 3
"""A profile is asked for one layer of so many, its neighbours for the others."""


def layers() -> list[tuple[Geometry, Any, DType]]:
    """Random ones as networks have them: depthwise, of few and of many channels, of one tap."""
    random = np.random.default_rng(33)
    found = []
    for _ in range(COUNT):
        taps = int(random.choice([1, 1, 3, 3, 3, 5, 7]))
        stride = int(random.choice([1, 1, 1, 2]))
        side = int(random.choice([7, 14, 20, 28, 56, 112]))
        kind = random.choice(["dense", "dense", "depthwise", "groups", "first"])
        channels = int(random.integers(1, 65)) * 8
        filters = int(random.integers(1, 65)) * 8
        groups = 1
        if kind == "depthwise":
            groups = filters = channels
        elif kind == "groups":
            groups = int(random.choice([2, 4, 8]))
        elif kind == "first":
            channels = 3
        images = int(random.choice([1, 8, 32]))
        shape = geometry(
            (images, channels, side, side),
            (filters, channels // groups, taps, taps),
            (stride, stride),
            (taps // 2, taps // 2),
            (1, 1),
            groups,
        )
        layout = random.choice(["NCHW", "NHWC"])
        found.append((shape, str(layout), float16 if random.integers(2) else float32))
    return found


def products(method: Method) -> float:
    """Multiplications that a method makes, with those of tiles' edges and of padding."""
    shape = method.shape
    results, depth = shape.images * prod(shape.result), shape.depth
    if isinstance(method, Grouped):
        tile = method.plan.tile
        places = prod(
            -(-n // extent) * extent for n, extent in zip(shape.result, tile, strict=True)
        )
        return float(shape.images * places * depth * shape.filters)
    if isinstance(method, Lanes):
        plan, blocks = method.plan, method.blocks
        pixels = (blocks.rows - 1) * blocks.width + blocks.result[1]
        tiles = -(-pixels // plan.pixels) * -(-blocks.result[0] // blocks.rows) * shape.images
        panels = -(-blocks.filters // plan.filters) * shape.groups
        return float(tiles * plan.pixels * panels * plan.filters * depth)
    if isinstance(method, WinogradBlocks | Winograd):
        stages = method.stages if isinstance(method, WinogradBlocks) else method
        each = shape.channels // shape.groups * shape.filters
        return float(stages.by.inputs**2 * stages.total * each)
    if isinstance(method, Product):
        return float(results * depth * shape.filters)
    if isinstance(method, FewFilters):
        return products(method.product)
    assert isinstance(method, Boxes)
    choice, rows = tiles_of(method), shape.filters // method.blocks
    depth = shape.window.count * shape.channels // method.blocks
    edges = -(-results // choice["BM"]) * choice["BM"], -(-rows // choice["BN"]) * choice["BN"]
    return float(method.blocks * prod(edges) * -(-depth // choice["BK"]) * choice["BK"])


def tiles_of(method: Boxes) -> Any:
    return method._schemes[0][0]


def sensible(device: Device, shape: Geometry, layout: Any, kind: DType) -> list[Method]:
    """Ways that all do the layer: the first choice, and boxes whose groups share no tile."""
    direct = route(device, shape, kind, layout, "direct", state()).method
    rows = layout == "NCHW"
    return [direct, Boxes(device, shape, kind, layout, None, False, patches=False, rows=rows)]


@pytest.mark.parametrize("profile", PROFILES)
def test_no_choice_makes_more_products_than_the_slowest_sensible_way(profile: str) -> None:
    """Edges of tiles make at most three times the products, where there is much to do.

    Depthwise layers go by no tiles of products, whose rows would be one filter of many.
    """
    with pt.use(f"simulator:{profile}"):
        device = pt.device()
        for shape, layout, kind in layers()[PROFILES.index(profile) % THIRDS :: THIRDS]:
            method = route(device, shape, kind, layout, "auto", state()).method
            told = (shape, layout, kind.name, method)
            made = products(method)
            assert made <= max(map(products, sensible(device, shape, layout, kind))), told
            useful = shape.images * prod(shape.result) * shape.depth * shape.filters
            if useful > 1e8 and shape.groups == 1:
                assert made <= 3 * useful, told
            if shape.groups == shape.channels > 1:
                assert isinstance(method, Grouped | Lanes), told


@pytest.mark.parametrize("kind", [float16, float32], ids=str)
def test_few_filters_have_tiles_of_few_columns(kind: DType) -> None:
    """Where work-items multiply: matrix units have no instructions of less than their own."""
    with pt.use("simulator:apple-opencl"):
        shape = geometry((32, 328, 56, 56), (8, 328, 3, 3), (1, 1), (1, 1), (1, 1), 1)
        method = route(pt.device(), shape, kind, "NHWC", "direct", state()).method
        useful = shape.images * prod(shape.result) * shape.depth * shape.filters
        assert products(method) <= 2.1 * useful


@pytest.mark.parametrize("profile", ["h200", "nvidia-opencl"])
@pytest.mark.parametrize(
    ("shape", "filters", "wanted"),
    [
        ((1, 320, 26, 26), (8, 320, 3, 3), "winograd2"),
        ((1, 128, 26, 26), (8, 128, 3, 3), "winograd2"),
        ((1, 64, 56, 56), (64, 64, 3, 3), "winograd4"),
        ((8, 128, 28, 28), (128, 128, 3, 3), "winograd4"),
    ],
)
def test_small_tiles_of_winograd_where_direct_sums_are_cut(
    profile: str, shape: Any, filters: Any, wanted: str
) -> None:
    """Larger ones of 128 and of 320 channels err eight times as much as sums in parts."""
    with pt.use(f"simulator:{profile}"):
        case = geometry(shape, filters, (1, 1), (1, 1), (1, 1), 1)
        found = route(pt.device(), case, float32, "NCHW", "auto", state()).algorithm
    assert found == wanted


@pytest.mark.parametrize("images", [1, 8, 32])
def test_patches_of_first_layers_of_halves_have_tiles_as_wide_as_filters(images: int) -> None:
    """A step of the products of a tap would hold 3 channels where there is room for 64."""
    with pt.use("simulator:h200"):
        shape = geometry((images, 3, 224, 224), (64, 3, 7, 7), (2, 2), (3, 3), (1, 1), 1)
        method = route(pt.device(), shape, float16, "NHWC", "auto", state()).method
    assert isinstance(method, Boxes)
    assert method.patches
    asked, each = method.workspace()
    assert asked // each == min(images, 8)  # whose patches the last cache keeps
    (choice, parts), rows = method._schemes[0], 128 if images == 1 else 256
    assert (choice["BM"], choice["BN"], parts) == (rows, 64, 1)


@pytest.mark.parametrize(
    ("filters", "channels", "tile"),
    [(64, 64, (64, 64)), (320, 320, (128, 128)), (512, 512, (128, 256))],
)
def test_tiles_of_gradients_by_filters_fetch_little(
    filters: int, channels: int, tile: tuple[int, int]
) -> None:
    """64 x 64 cover 320 by 320 without a rest, and took 1.5 times as long as 128 x 128."""
    device = pt.device("simulator:h200")
    shape = geometry((8, channels, 28, 28), (filters, channels, 3, 3), (1, 1), (1, 1), (1, 1), 1)
    first, *_ = sum_choices(device, float16, shape, (filters, channels, 9), state())
    assert (first["BM"], first["BN"]) == tile


def test_tiles_of_results_leave_no_units_idle() -> None:
    """344 filters take two tiles of 192, of which the last round is full: 196 us instead of 267."""
    shape = geometry((16, 392, 32, 32), (344, 392, 5, 5), (1, 1), (2, 2), (1, 1), 1)
    method: Any = route(
        pt.device("simulator:h200"), shape, float16, "NHWC", "direct", state()
    ).method
    (choice, parts), *_ = method._schemes
    assert (choice["BM"], choice["BN"], parts) == (128, 192, 1)
