"""What convolutions do on an H200 and a processor, run by the simulator with races looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import sim
from portable.conv import conv2d, conv2d_input_gradient, conv2d_weight_gradient, costs, prepare
from portable.conv.direct import box_kernels, parted
from portable.conv.direct.box_kernels import arrange_filters, arrange_turning
from portable.conv.geometry import geometry
from portable.conv.method import Epilogue
from portable.conv.route import method_of
from portable.dtypes import bfloat16, float16
from portable.lang.ir import statements as s
from portable.lang.ir.walks import all_statements

from .reference import Case, bounds, gradients, results

CASES: dict[str, tuple[Case, str, str, Any, str]] = {
    "boxes by the copy engine": (
        Case((2, 40, 5, 6), (24, 40, 3, 3), padding=(1, 1), dilation=(1, 2)),
        "direct", "NHWC", np.float16, "tensor.load.4",
    ),
    "images of other orders": (
        Case((2, 40, 6, 5), (8, 40, 1, 2)), "direct", "NCHW", np.float16, "tensor.load.4",
    ),
    "strides by the copy engine": (
        Case((2, 72, 7, 8), (24, 72, 3, 3), stride=(2, 2), padding=(1, 1)),
        "direct", "NHWC", np.float16, "tensor.load.4",
    ),
    "parts of long sums": (
        Case((1, 512, 3, 5), (16, 512, 3, 3), padding=(1, 1)), "direct", "NHWC", np.float16,
        "tensor.load.4",
    ),
    "patches": (
        Case((2, 5, 9, 8), (8, 5, 3, 3), stride=(2, 1)), "direct", "NHWC", np.float16,
        "tensor.load.4",
    ),
    "patches of whole vectors of channels": (
        Case((2, 8, 9, 7), (24, 8, 5, 5), stride=(2, 1), padding=(2, 1), dilation=(1, 2)), "direct",
        "NHWC", np.float16, "tensor.load.4",
    ),
    "split numbers in boxes": (
        Case((2, 40, 6, 8), (24, 40, 3, 3), padding=(1, 1)), "direct", "NCHW", np.float32,
        "mma.tf32.m16n8k8",
    ),
    "windows side by side": (
        Case((2, 32, 6, 8), (24, 32, 2, 2), stride=(2, 2)), "direct", "NHWC", np.float16,
        "tensor.load.4",
    ),
    "several groups in a tile": (
        Case((1, 192, 5, 6), (80, 24, 3, 2), padding=(2, 1), groups=8), "direct", "NHWC",
        np.float16, "tensor.load.5",
    ),
    "groups with strides": (
        Case((1, 96, 4, 4), (96, 24, 3, 3), stride=(2, 2), padding=(1, 1), groups=4), "direct",
        "NCHW", np.float32, "mma.tf32.m16n8k8",
    ),
    "groups that begin unaligned, of odd extents": (
        Case((1, 180, 5, 5), (560, 45, 3, 3), padding=(1, 1), groups=4), "direct", "NHWC",
        np.float16, "tensor.load.5",
    ),
    "groups that would begin unaligned, in one block": (
        Case((1, 90, 5, 5), (40, 45, 1, 2), stride=(2, 2), groups=2), "direct", "NHWC",
        np.float16, "tensor.load.4",
    ),
    "rows of patches": (
        Case((2, 3, 9, 11), (16, 3, 7, 7), stride=(2, 2), padding=(3, 3)), "direct", "NHWC",
        np.float16, "tensor.load.4",
    ),
    "bfloat16": (
        Case((2, 40, 5, 6), (24, 40, 3, 3), padding=(1, 1)), "direct", "NHWC", bfloat16.numpy,
        "tensor.load.4",
    ),
}  # fmt: skip


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The instructions in kernels that are simulated."""
    found: set[str] = set()
    run = sim.Simulation.run

    def recorded(self: sim.Simulation, *args: Any, **options: Any) -> None:
        statements = all_statements(self.kernel.body)
        found.update(x.name for x in statements if isinstance(x, s.Instruction))
        run(self, *args, **options)

    monkeypatch.setattr(sim.Simulation, "run", recorded)
    return found


@pytest.mark.parametrize("name", CASES)
def test_on_an_h200(name: str, ran: set[str]) -> None:
    case, algorithm, layout, dtype, wanted = CASES[name]
    x, w = case.images(dtype)
    expected = results(case, x, w)
    images = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        found = conv2d(images, w, algorithm=algorithm, layout=layout, **case.settings)  # type: ignore[arg-type]
    found = found.transpose(0, 3, 1, 2) if layout == "NHWC" else found
    assert wanted in ran
    error = np.abs(found - expected).max() / bounds(case, x, w)
    assert error < {np.float16: 1e-3, np.float32: 1e-6}.get(dtype, 5e-3)


def test_tiles_as_wide_as_three_times_32_filters(ran: set[str]) -> None:
    """Filters lie along channels for warpgroups, whose instructions take any multiple of 8."""
    case = Case((2, 72, 5, 6), (90, 72, 3, 3), padding=(1, 1))
    x, w = case.images(np.float16)
    tile = {"BM": 64, "BN": 96, "BK": 64, "STAGES": 4, "WORKGROUP": 256, "C": 0}
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        shape = geometry(x.shape, w.shape, (1, 1), (1, 1), (1, 1), 1)
        choice = tile | {"UNITS": True, "SPECIALISED": True}
        method = method_of(pt.device(), shape, float16, "NHWC", "direct", choice)
        found = np.empty((2, 5, 6, 90), np.float16)
        images = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        method.run(images, method.filters(w), found, Epilogue(), None)
    assert "wgmma.f16.m64n96k16" in ran
    error = np.abs(found.transpose(0, 3, 1, 2) - results(case, x, w)).max()
    assert error < 1e-3 * bounds(case, x, w)


PARTS: dict[str, tuple[Case, str, str]] = {
    "with strides": (
        Case((1, 64, 6, 8), (64, 64, 3, 3), stride=(2, 2), padding=(1, 1)), "direct", "NCHW",
    ),
    "in patches": (Case((2, 40, 6, 8), (136, 40, 1, 1), stride=(2, 2)), "direct", "NHWC"),
    "of long sums": (Case((1, 512, 3, 5), (48, 512, 3, 3), padding=(1, 1)), "direct", "NCHW"),
    "by Winograd's method, a part unfilled": (
        Case((1, 36, 6, 6), (40, 36, 3, 3)), "winograd2", "NCHW",
    ),
    "of groups with strides, of odd extents": (
        Case((1, 136, 5, 5), (72, 34, 3, 3), stride=(2, 2), padding=(1, 1), groups=4), "direct",
        "NCHW",
    ),
    "with channels last": (
        Case((2, 32, 7, 6), (64, 32, 3, 3), padding=(1, 1)), "winograd2", "NHWC",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_numbers_by_warpgroups(
    name: str, ran: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their errors are no larger than those of sums of numbers, term after term."""
    case, algorithm, layout = PARTS[name]
    for fewest in ("USES", "OF_STRIDES", "PRODUCTS", "WITH_TAPS", "FILTERS", "DEPTH"):
        monkeypatch.setattr(parted, f"_FEWEST_{fewest}", 1)
    monkeypatch.setattr(costs, "_BEGUN", -1e9)
    x, w = case.images(np.float32)
    images = np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if layout == "NHWC" else x
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        found = conv2d(images, w, algorithm=algorithm, layout=layout, **case.settings)  # type: ignore[arg-type]
    found = found.transpose(0, 3, 1, 2) if layout == "NHWC" else found
    assert {"wgmma.tf32.m64n64k8.anew", "wgmma.tf32.m64n128k8.anew"} & ran
    assert np.abs(found - results(case, x, w)).max() < 2e-7 * bounds(case, x, w)


def test_tf32_rounds_factors_where_it_is_asked_for(ran: set[str]) -> None:
    case = Case((1, 40, 5, 6), (8, 40, 3, 3), padding=(1, 1))
    x, w = case.images(np.float32)
    with pt.use("simulator:h200"):
        found = conv2d(x, w, precision="tf32", **case.settings)
        with pytest.raises(TypeError, match="is for float32, not float16"):
            conv2d(x.astype(np.float16), w.astype(np.float16), precision="tf32", padding=1)
    error = np.abs(found - results(case, x, w)).max() / bounds(case, x, w)
    assert 1e-6 < error < 2**-10
    assert {"wgmma.tf32.m64n64k8", "tensor.load.4"} <= ran


@pytest.mark.parametrize(
    "name",
    [
        "boxes by the copy engine",
        "strides by the copy engine",
        "patches",
        "windows side by side",
        "several groups in a tile",
        "groups that begin unaligned, of odd extents",
    ],
)
def test_gradients_by_filters_on_an_h200(name: str, ran: set[str]) -> None:
    case, algorithm, _, dtype, wanted = CASES[name]
    x, w = case.images(dtype)
    dy = results(case, x, w).astype(dtype)
    last = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, dy))
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        found = conv2d_weight_gradient(
            *last,
            w.shape,
            algorithm=algorithm,
            layout="NHWC",
            **case.settings,  # type: ignore[arg-type]
        )
    _, expected = gradients(case, x, w, dy)
    _, largest = gradients(case, abs(x), w, abs(dy))
    assert wanted in ran
    assert np.abs(found - expected).max() < 1e-3 * largest.max()


def test_gradients_by_images_of_several_groups_in_a_tile() -> None:
    case, algorithm, layout, dtype, _ = CASES["several groups in a tile"]
    x, w = case.images(dtype)
    dy = results(case, x, w).astype(dtype)
    expected, _ = gradients(case, x, w, dy)
    with pt.use("simulator:h200"), sim.checks(completion="early"):
        slopes, extents = np.ascontiguousarray(dy.transpose(0, 2, 3, 1)), (1, 5, 6, 192)
        given: Any = {"algorithm": algorithm, "layout": layout, **case.settings}
        made = conv2d_input_gradient(slopes, w, extents, **given)
    assert np.abs(made.transpose(0, 3, 1, 2) - expected).max() < 1e-3 * np.abs(expected).max()


BLOCKS = {
    "groups and few tiles": (
        Case((2, 4, 7, 6), (6, 2, 3, 3), padding=(1, 0), groups=2), "winograd3",
    ),
    "long lines and panels": (Case((1, 2, 5, 37), (27, 2, 3, 3), padding=(1, 1)), "winograd2"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_tiles_on_a_processor(name: str) -> None:
    case, algorithm = BLOCKS[name]
    x, w = case.images(np.float32)
    bias = np.linspace(-1, 1, w.shape[0], dtype=np.float32)
    with pt.use("simulator:intel-cpu"), sim.checks(completion="early"):
        found = conv2d(x, w, bias=bias, activation="relu", algorithm=algorithm, **case.settings)  # type: ignore[arg-type]
    expected = np.maximum(results(case, x, w) + bias[:, None, None], 0)
    assert np.abs(found - expected).max() < 1e-5 * bounds(case, x, w)


def test_few_tiles_are_shared_out_by_filters() -> None:
    """All cores of a processor are at work where the tiles of an image make one block."""
    with pt.use("simulator:intel-cpu"):
        units = pt.device().capabilities.compute_units
        one = prepare((1, 64, 8, 8), np.zeros((64, 64, 3, 3), np.float32), padding=1)
        many = prepare((1, 64, 64, 64), np.zeros((64, 64, 3, 3), np.float32), padding=1)
    assert units > 1
    assert one._route.method._parts == units
    assert many._route.method._parts == 1


@pytest.mark.parametrize("shape", [(40, 50, 3, 3), (2, 300, 1, 1), (70, 9, 5, 7)])
@pytest.mark.parametrize(("turned", "many"), [(False, 1), (True, 512)])
def test_filters_lie_along_channels_from_lines_on(
    shape: tuple[int, ...],
    turned: bool,
    many: int,
    device: pt.backend.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neighbours of memory are read and written through tiles of local memory, large or small."""
    monkeypatch.setattr(box_kernels, "_MANY", many)
    w = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    expected = w[:, :, ::-1, ::-1].transpose(1, 2, 3, 0) if turned else w.transpose(0, 2, 3, 1)
    expected = expected.reshape(expected.shape[0], -1, expected.shape[3])
    with pt.use(device):
        room = device.empty(expected.shape, pt.float32)
        arrange_turning(device.from_numpy(w), room, turned)
    np.testing.assert_array_equal(device.to_numpy(room), expected)


def test_rows_of_copy_engines_begin_sectors() -> None:
    """Rows of 784 bytes would begin between them, of filters, copied images and patches."""
    with pt.use("simulator:h200"):
        for channels, layout, row in (392, "NCHW", 448), (392, "NHWC", 392), (3, "NHWC", 160):
            x = (1, 16, 16, channels) if layout == "NHWC" else (1, channels, 16, 16)
            taps = 7 if channels == 3 else 3
            w = np.zeros((8, channels, taps, taps), np.float16)
            options: Any = {"layout": layout, "padding": taps // 2, "algorithm": "direct"}
            method: Any = prepare(x, w, stride=2 if taps == 7 else 1, **options)._route.method
            copied = method.patches or method.rows
            assert (method.padded(method._rearranged()[2]) if copied else channels) == row
            filters = method.filters(w)
            assert all(step % 128 == 0 for step in (filters.strides[0], filters.strides[3]))


@pytest.mark.parametrize(("stride", "channels"), [(2, 3), (1, 12)])
def test_rows_are_written_whole(stride: int, channels: int) -> None:
    """Copies take vectors of 16 bytes, also those that reach beyond the last channel of a row."""
    x = np.ones((2, 6, 8, channels), np.float16)
    w = np.ones((12, channels, 3, 3), np.float16)
    with pt.use("simulator:h200"):
        method: Any = prepare(
            x.shape, w, stride=stride, algorithm="direct", layout="NHWC"
        )._route.method
        room = np.full(2 * method.rearranged_elements[0], np.nan, np.float16)
        method._rearrange(x, room)
        filters = np.full((9, channels, 1, 16), np.nan, np.float16)
        arrange_filters[(16, channels), None](w, filters, 12, 1, TAPS=(3, 3), TURNED=False)
    assert room.size
    assert not np.isnan(room).any()
    assert (filters == (np.arange(16) < 12)).all()


@pytest.mark.parametrize(
    ("images", "kind", "taps", "tile"),
    [(1, "f4", 7, (2, 2)), (32, "f4", 7, (2, 2)), (8, "f8", 5, (2, 2)), (8, "f4", 3, (4, 1))],
)
def test_work_items_of_wide_first_layers_keep_registers(
    images: int, kind: str, taps: int, tile: tuple[int, int]
) -> None:
    """Of more results ptxas holds next to nothing in registers, which takes 30 times as long."""
    w = np.zeros((64, 3, taps, taps), kind)
    with pt.use("simulator:h200"):
        method: Any = prepare((images, 3, 224, 224), w, stride=2, padding=taps // 2)._route.method
    assert method.plan.tile == tile
