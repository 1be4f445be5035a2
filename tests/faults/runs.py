"""Small runs of the project's operations in the simulator, each through some kernels.

They are as small as still reaches several workgroups, partial tiles and more rounds than a ring has
slots. A run raises what the simulator reports, or AssertionError where its result is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import portable as pt
import portable.array as xp
from portable import lang as kl
from portable import nn
from portable.backend import Device
from portable.dtypes import dtype, float32, int32, int64, uint8, uint64
from portable.linalg.band import chase
from portable.linalg.band_plan import Plan, Stage
from portable.linalg.dense import reduced
from portable.linalg.dense_shapes import DenseShape
from portable.linalg.direct import Direct
from portable.linalg.direct_kernels import DirectShape
from portable.linalg.gemm_kernels import gemm_naive, gemm_tiled, gemm_tiles, keep
from portable.linalg.gemm_rows import copy_into
from portable.linalg.magnitude import largest_magnitude
from portable.linalg.svdvals import directly
from portable.linalg.tiling import Tiling
from portable.nn import fused
from portable.primitives.base.recipe import Recipe
from portable.primitives.masks.compaction_kernels import Results
from portable.primitives.masks.mask_kernels import Mask, pack_by_workgroup, take_by_workgroup
from portable.primitives.reductions.best_kernels import Best
from portable.primitives.reductions.merging import Merge
from portable.primitives.reductions.sections import Sections
from portable.primitives.reductions.strip_kernels import reduce_strips
from portable.primitives.reductions.workgroup_kernels import (
    reduce_at_once,
    reduce_by_workgroup,
)
from portable.primitives.scans.block_kernels import Blocks, scan_blocks_in_turn
from portable.primitives.scans.lookback_kernels import LookBack, scan_in_turn
from portable.primitives.scans.scan_kernels import Tile as TileOfRows
from portable.primitives.scans.scan_kernels import scan_by_workgroup
from portable.primitives.scans.strip_lookback_kernels import Strip, scan_strips_in_turn
from portable.primitives.sorts.bucket_kernels import (
    Sorting,
    Splitters,
    count_buckets,
    place_in_buckets,
    sort_parts,
)
from portable.primitives.sorts.keys import Order
from portable.primitives.sorts.lines import Line
from portable.primitives.sorts.sorting_kernels import sort_by_rank
from portable.primitives.sorts.sweep_sorting import Tile, sweep_sorted

__all__ = ["RUNS"]

RUNS: Final[dict[str, Callable[[str], None]]] = {}
"""The runs by name; each is given the name of the device to run on."""


def run(function: Callable[[], None]) -> Callable[[], None]:
    """Lists a run under its function's name."""

    def on(device: str) -> None:
        with pt.use(device):
            function()

    RUNS[function.__name__] = on
    return function


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def device() -> Device:
    """The one in use: the simulator, as itself or in the place of another."""
    return pt.device()


def empty(*shape: int, kind: Any = float32) -> Any:
    """Memory that nothing has written."""
    return device().empty(shape, dtype(kind))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


# -- products --------------------------------------------------------------------------------


def multiplied(launcher: Any, m: int, k: int, n: int, **constants: Any) -> None:
    a, b, out = random(m, k), random(k, n), empty(m, n)
    how = {"ACC": float32, "ACTIVATION": keep, **constants}
    launcher(1.0, a, b, 0.0, None, None, out, **how)
    close(out, a @ b)


@run
def products_element_by_element() -> None:
    multiplied(gemm_naive[(4 * 3 * 4, 4), (4, 4)], 9, 5, 14)


@run
def products_of_squares() -> None:
    multiplied(gemm_tiled[(4 * 3 * 4, 4), (4, 4)], 9, 10, 14, TILE=4)


def tiles(stages: int, apart: bool = False) -> None:
    tiling = Tiling(8, 8, 4, stages, units=False, apart=apart, group=2)
    multiplied(gemm_tiles[4 * 8, 8], 11, 22, 13, TILING=tiling)


@run
def products_of_tiles() -> None:
    tiles(3)


@run
def products_of_tiles_in_turn() -> None:
    tiles(1)


@run
def products_into_an_operand() -> None:
    """``c`` is where the result goes."""
    a, b, c = random(11, 9), random(9, 13), random(11, 13)
    wanted = a @ b + c
    how = {"TILING": Tiling(8, 8, 4, 2, units=False, group=2), "ACC": float32, "ACTIVATION": keep}
    gemm_tiles[4 * 8, 8](1.0, a, b, 1.0, c, None, c, **how)
    close(c, wanted)


def on_h200(m: int, n: int, k: int, items: int, kind: str, *, alike: int = 1, **sizes: Any) -> None:
    """Integers, so that products are exact; as lowered for that device.

    Of a stack of matrices that are `alike` the copy engine is not told.
    """
    with pt.use("simulator:h200"):
        rng = np.random.default_rng(0)
        a, b = (rng.integers(-4, 5, shape).astype(kind) for shape in ((m, k), (k, n)))
        wanted = a.astype("f8") @ b.astype("f8")
        if alike > 1:
            a, wanted = np.broadcast_to(a, (alike, m, k)), np.broadcast_to(wanted, (alike, m, n))
        out = empty(*wanted.shape, kind=kind)
        tiling = Tiling.of({**sizes, "GROUP": 2, "UNITS": True})
        how = {"TILING": tiling, "ACC": dtype(kind).register, "ACTIVATION": keep}
        tiles = alike * -(-m // sizes["BM"]) * -(-n // sizes["BN"])
        workgroups = sizes.get("RESIDENT") or tiles
        gemm_tiles[workgroups * items, items](1.0, a, b, 0.0, None, None, out, **how)
        np.testing.assert_array_equal(out, wanted)


HALVES: Final = {"kind": "float16", "BM": 64, "BN": 64, "BK": 64, "STAGES": 3}


@run
def products_by_a_warpgroup() -> None:
    on_h200(64, 68, 300, 128, **HALVES, APART=False)


@run
def products_by_a_warpgroup_and_one_that_copies() -> None:
    on_h200(64, 64, 304, 256, alike=2, **HALVES, APART=True)


@run
def products_by_a_warpgroup_and_a_copy_engine() -> None:
    on_h200(64, 64, 304, 256, **HALVES, APART=True)


@run
def products_by_a_warpgroup_and_a_warp() -> None:
    on_h200(64, 64, 304, 160, **HALVES, APART=True)


@run
def products_in_turn_by_a_warpgroup() -> None:
    on_h200(128, 64, 136, 160, **HALVES, APART=True, RESIDENT=1)


@run
def products_by_warps() -> None:
    sizes = {"BM": 16, "BN": 16, "BK": 8, "STAGES": 3}
    on_h200(20, 20, 30, 32, "float64", **sizes, APART=False)


# -- bands -----------------------------------------------------------------------------------


def chased(n: int, u: int, *stages: Stage, persistent: bool = True) -> None:
    """The norms of a band, which its reduction must keep."""
    ab = random(u + 1, n)
    out = empty(n), empty(n - 1)
    plan = Plan(stages, persistent, float32)
    chase(device(), ab, largest_magnitude(device(), ab, band=True), out, plan)
    full = np.zeros((n, n))
    for k in range(u + 1):
        full += np.diag(ab[u - k, k:].astype(float), k)
    two = np.diag(out[0].astype(float)) + np.diag(out[1].astype(float), 1)
    wanted = np.linalg.svd(full, compute_uv=False)
    close(np.linalg.svd(two, compute_uv=False) / wanted[0], wanted / wanted[0])


@run
def band_in_vectors() -> None:
    chased(26, 4, Stage(4, 4, "vectors", lanes=4, rows=1, sweeps=2, every=1))


@run
def band_by_items() -> None:
    chased(24, 3, Stage(3, 3, "items", items=8, sweeps=2))


@run
def band_by_few_items() -> None:
    chased(15, 3, Stage(3, 3, "items", items=4, sweeps=2))


@run
def band_in_waves() -> None:
    chased(12, 3, Stage(3, 3, "items", items=8), persistent=False)


@run
def band_in_steps() -> None:
    chased(14, 5, Stage(5, 3, "items", items=8, sweeps=2), Stage(3, 3, "items", items=8, sweeps=2))


@run
def band_in_a_ring() -> None:
    chased(30, 4, Stage(4, 4, "ring", items=16, sweeps=2))


@run
def band_in_a_ring_on_an_h200() -> None:
    """With the copy engine's instructions in the place of its words."""
    with pt.use("simulator:h200"):
        chased(30, 8, Stage(8, 8, "ring", items=64, sweeps=2))


@run
def band_in_a_ring_of_many_sweeps() -> None:
    """As many as are more than a block has columns."""
    chased(40, 3, Stage(4, 4, "ring", items=16, sweeps=8))


@run
def band_in_a_ring_with_blocks_under_way() -> None:
    chased(34, 4, Stage(4, 4, "ring", items=16, sweeps=2, spare=2))


# -- dense matrices --------------------------------------------------------------------------


def banded(m: int, n: int, bandwidth: int, shape: DenseShape) -> None:
    a = random(m, n)
    largest = largest_magnitude(device(), a)
    ab = reduced(device(), a, largest, bandwidth, shape)
    full = np.zeros((n, n))
    for k in range(bandwidth + 1):
        full += np.diag(ab[bandwidth - k, k:].astype(float), k)
    wanted = np.linalg.svd(a, compute_uv=False)
    close(np.linalg.svd(full, compute_uv=False) / wanted[0], wanted / wanted[0])


@run
def panels_by_items() -> None:
    banded(21, 9, 4, DenseShape(4, 2, 1, 2, (4, 2), 6, 8, 1, True))


@run
def panels_by_sub_groups() -> None:
    banded(21, 9, 4, DenseShape(4, 4, 1, 2, (8, 2), 6, 8, 1, True))


@run
def panels_in_vectors() -> None:
    banded(21, 9, 4, DenseShape(4, 2, 4, 1, (1, 1), 6, 1, 0, True))


@run
def straight_to_two_diagonals() -> None:
    a, device = random(1, 11, 9), pt.device()
    values = device.empty((1, 9), pt.float32)
    directly(device, a, values, Direct(DirectShape(lanes=2, rows=2, team=4, teams=3), 1))
    close(values, np.linalg.svd(a, compute_uv=False))


@run
def singular_values_of_two_diagonals() -> None:
    d, e = random(9), random(8)
    found = pt.linalg.bidiagonal_svdvals(d, e)
    wanted = np.linalg.svd(np.diag(d.astype(float)) + np.diag(e.astype(float), 1), compute_uv=False)
    close(found, wanted)


@run
def singular_values_by_rotations() -> None:
    a = random(2, 7, 5)
    close(pt.linalg.svdvals(a), np.linalg.svd(a, compute_uv=False))


# -- networks --------------------------------------------------------------------------------


def trained(**options: Any) -> None:
    """A network whose weights must come out as NumPy's own training has them."""
    x, y = random(9, 2), random(9, 1)
    model = nn.MLP([2, 5, 1], activation="tanh", device=pt.device(), seed=1)
    wanted = {name: np.array(value) for name, value in model.state_dict().items()}
    nn.fit(model, x, y, epochs=2, batch_size=9, optimizer=nn.SGD(lr=0.1), **options)
    for _ in range(2):
        stepped(wanted, x, y, 0.1, options)
    for name, value in model.state_dict().items():
        close(value, wanted[name])


def stepped(w: dict[str, Any], x: Any, y: Any, lr: float, options: dict[str, Any]) -> None:
    """A step of gradient descent on the mean squared error of two layers."""
    hidden = np.tanh(x @ w["0.weight"].T + w["0.bias"])
    slope = 2 * (hidden @ w["2.weight"].T + w["2.bias"] - y) / y.size
    back = (slope @ w["2.weight"]) * (1 - hidden * hidden)
    gradient = {
        "0.weight": back.T @ x,
        "0.bias": back.sum(0),
        "2.weight": slope.T @ hidden,
        "2.bias": slope.sum(0),
    }
    norm = np.sqrt(sum(float((g * g).sum()) for g in gradient.values()))
    share = min(1.0, options.get("clip_norm", np.inf) / norm)
    for name, g in gradient.items():
        w[name] -= np.float32(lr * share) * g


@run
def training_in_one_launch() -> None:
    trained()


@run
def training_layer_by_layer() -> None:
    fused.training_shape = lambda *given, **more: None  # type: ignore[assignment]
    trained(clip_norm=0.05)


@run
def losses_of_classes() -> None:
    x = random(9, 2)
    model = nn.MLP([2, 3], device=pt.device(), seed=1)
    w = model.state_dict()
    outputs = x @ np.array(w["0.weight"]).T + np.array(w["0.bias"])
    losses = np.log(np.exp(outputs).sum(1)) - outputs[:, 1]
    found = nn.fit(model, x, np.ones(9, np.int32), epochs=1, batch_size=9, loss="cross_entropy")
    close(np.float32(found.train[0]), losses.mean())


@run
def forward_passes_in_one_launch() -> None:
    x = random(37, 3)
    model = nn.MLP([3, 5, 2], activation="tanh", device=pt.device(), seed=1)
    w = model.state_dict()
    hidden = np.tanh(x @ w["0.weight"].T + w["0.bias"])
    close(model(x), hidden @ w["2.weight"].T + w["2.bias"])


# -- arrays ----------------------------------------------------------------------------------


def integers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype(np.int32)


def ours(a: np.ndarray) -> Any:
    """An array of `portable.array` on the simulator."""
    return device().for_arrays().from_numpy(a)


ONES = Merge(kl.add, int32, 0)
PAIRS = ONES.taking(2)


def equal(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(pt.to_numpy(found), wanted)


@run
def reductions_at_once() -> None:
    """Parts by five workgroups a row, the last of which merges them."""
    a = np.random.default_rng(1).integers(-9, 9, (2, 150)).astype(np.int32)
    x = device().from_numpy(a)
    parts, counts, out = empty(2, 5, kind=int32), np.zeros(2, np.int32), empty(2, kind=int32)
    for _ in range(2):
        reduce_at_once[10 * 8, 8](x, parts, counts, out, MERGE=PAIRS, WIDTH=8, AHEAD=2)
        np.testing.assert_array_equal(out, a.sum(1))


@pt.kernel
def collected(x: Any, out: Any) -> None:
    i = kl.local_id(0)
    for k in range(2):
        out[0, i] += kl.workgroup_reduce(kl.add, x[k, i])
        out[1, i] += kl.workgroup_scan(kl.add, x[k, i], inclusive=False, initial=k)
        out[2, i] += kl.workgroup_broadcast(x[k, i], 9)
        some, every = kl.workgroup_any(x[k, i] > 8), kl.workgroup_all(x[k, i] > 0)
        out[3, i] += kl.i32(some) * 2 + kl.i32(every)


@run
def collectives() -> None:
    """By three sub-groups, the last of them half as wide as others."""
    a, out = integers(2, 20), empty(4, 20, kind=int32)
    out[:] = 0
    collected[20, 20](a, out)
    np.testing.assert_array_equal(out[0], a.sum())
    np.testing.assert_array_equal(out[1], (np.cumsum(a, 1) - a).sum(0) + 1)
    np.testing.assert_array_equal(out[2], a[:, 9].sum())
    np.testing.assert_array_equal(out[3], ((a > 8).any(1) * 2 + (a > 0).all(1)).sum())


@run
def reductions_together() -> None:
    a = np.random.default_rng(1).integers(-9, 9, (3, 150)).astype(np.int32)
    out = empty(3, 1, kind=int32)
    cut = Sections(150, 16, 2, one=True)
    reduce_by_workgroup[2 * 32, 32]((a,), (out,), FOLD=PAIRS, CUT=cut)
    np.testing.assert_array_equal(out[:, 0], a.sum(1))


@run
def totals_looked_back_at() -> None:
    """Tiles of 16 by three workgroups, one row of nine and a part of one."""
    state = np.zeros(1 + 10, np.uint64)
    look = LookBack(TileOfRows(ONES, 16, 1), 1)
    for a in integers(2, 150):
        out = empty(150, kind=int32)
        scan_in_turn[3 * 16, 16](a, state, out, LOOK=look, SHIFT=0)
        np.testing.assert_array_equal(out, np.cumsum(a))


@run
def totals_of_blocks() -> None:
    state = np.zeros(1 + 10, np.uint64)
    blocks = Blocks(PAIRS, 10, shift=0, streaming=False, patience=2)
    for a in integers(2, 95):
        out = empty(95, kind=int32)
        scan_blocks_in_turn[3, 1](a, state, out, BLOCKS=blocks)
        np.testing.assert_array_equal(out, np.cumsum(a))


@run
def totals_of_strips() -> None:
    """Down columns, in tiles of four rows by three workgroups."""
    state = np.zeros(1 + 2 * 2 * 6 * 4, np.uint64)
    strip = Strip(ONES, width=4, tall=4, depth=1)
    for a in integers(2, 22, 8):
        out = empty(22, 8, kind=int32)
        scan_strips_in_turn[3 * 16, 16](a.T, state, out.T, STRIP=strip, SHIFT=0)
        np.testing.assert_array_equal(out, np.cumsum(a, axis=0))


@run
def totals_of_sections() -> None:
    a = integers(3, 75)
    out = empty(3, 75, kind=int32)
    tile = TileOfRows(PAIRS, 8, 2)
    cut = Sections(75, 8, 2, one=True)
    scan_by_workgroup[2 * 16, 16](a, None, out, TILE=tile, CUT=cut, SHIFT=0)
    np.testing.assert_array_equal(out, np.cumsum(a, axis=1))


@run
def reductions_of_strips() -> None:
    a = integers(70, 11)
    parts, counts, out = empty(3, 11, kind=int32), np.zeros(2, np.int32), empty(11, kind=int32)
    for _ in range(2):
        reduce_strips[6 * 32, 32](a.T, parts, counts, out, MERGE=ONES, WIDTH=8, TALL=4)
        np.testing.assert_array_equal(out, a.sum(0))


@run
def positions_of_the_greatest() -> None:
    a = integers(3, 75)
    values, out = empty(3, 1, kind=int32), empty(3, 1, kind=int64)
    how = {"FOLD": Best(True, int32, int32, 2), "CUT": Sections(75, 16, 2, one=True)}
    reduce_by_workgroup[2 * 32, 32]((a, None), (values, out), **how)
    np.testing.assert_array_equal(out[:, 0], a.argmax(1))


@run
def variances() -> None:
    a = random(5, 300)
    close(pt.to_numpy(xp.var(ours(a), axis=1)), a.var(axis=1))


def sorted_by(tile: Tile, a: np.ndarray) -> None:
    x = ours(a)
    recipe = Recipe(x)
    values, order = sweep_sorted(recipe, x, False, values=True, order=True, tile=tile)
    found = recipe.finish(values, order)(x)
    equal(found[0], np.sort(a))
    equal(found[1], np.argsort(a, kind="stable"))


@run
def sorting_in_a_tile() -> None:
    sorted_by(Tile(3, 32), np.random.default_rng(1).integers(0, 200, (2, 70)).astype(np.uint8))


@run
def sorting_tile_by_tile() -> None:
    sorted_by(Tile(1, 32), np.random.default_rng(1).integers(0, 200, 110).astype(np.uint8))


@run
def sorting_by_buckets() -> None:
    """Work-items alone, each with a section of its own, and then with a bucket."""
    a = np.random.default_rng(1).integers(0, 200, 70).astype(np.uint8)
    order = Order("u", 8, False)
    counts, buckets = empty(8, 3, kind=int32), empty(70, kind=uint8)
    splitters = Splitters(order, 4)
    count_buckets[3, 1](
        a, np.sort(a[:8]), counts, buckets, SPLITTERS=splitters, SECTION=32, LANES=1
    )
    starts = (np.cumsum(counts.reshape(-1)).reshape(8, 3) - counts).astype(np.int32)
    out, spare = empty(70, kind=uint8), empty(70, kind=uint8)
    made, between = Line(out, None), Line(spare, None)
    place_in_buckets[3, 1](a, buckets, starts, made, COUNT=8, SECTION=32)
    sort_parts[4, 1](None, starts, made, between, SORTING=Sorting(order, 4, 2))
    np.testing.assert_array_equal(out, np.sort(a))


@run
def sorting_by_rank() -> None:
    a, out = integers(3, 7).astype(np.uint8), empty(3, 7, kind=uint8)
    order = Order("u", 8, False)
    sort_by_rank[21, 8](a, Line(out, None), EACH=1, ORDER=order)
    np.testing.assert_array_equal(out, np.sort(a))


@run
def distinct_values() -> None:
    a = integers(1500)
    found = xp.unique_all(ours(a))
    wanted = np.unique_all(a)
    equal(found.values, wanted.values)
    equal(found.counts, wanted.counts)
    equal(found.inverse_indices, wanted.inverse_indices)


@run
def elements_of_a_mask() -> None:
    a = random(1500)
    equal(ours(a)[ours(a) > 0.2], a[a > 0.2])
    equal(ours(a)[ours(a) > 2], a[a > 2])


@run
def elements_of_a_mask_by_sections() -> None:
    """A mask that a workgroup does not hold."""
    a = np.random.default_rng(1).random(1100) < 0.6
    a[1024:1090] = False
    cut = {"WIDTH": 32}
    bits, counts = empty(2 * 32, kind=uint64), empty(2, kind=int32)
    pack_by_workgroup[2 * 32, 32](Mask(a), bits, counts, **cut)
    out = empty(int(a.sum()), kind=int64)
    ends = np.cumsum(counts).astype(np.int32)
    given = (Mask(a, None, bits, ends), Results(None, a, out, a.sum()), None)
    take_by_workgroup[2 * 32, 32](*given, **cut, AHEAD=2, FEW=64)
    np.testing.assert_array_equal(out, np.flatnonzero(a))


@run
def transposed_sums() -> None:
    a, b = integers(19, 21), integers(21, 19)
    equal(ours(a).T + ours(b), a.T + b)


@run
def assignments_beyond_an_array() -> None:
    found = ours(random(20))
    with np.testing.assert_raises(IndexError):
        found[ours(np.array([3, 19, 20, 0, 4]))] = ours(np.arange(5, dtype=np.float32))


def transformed(*shape: int) -> None:
    a = random(*shape) + 1j * random(*shape)
    a = a.astype(np.complex64)
    close(pt.to_numpy(xp.fft.fft(ours(a))), np.fft.fft(a))


@run
def transforms_of_rows() -> None:
    transformed(3, 96)


@run
def transforms_of_long_rows() -> None:
    """In three stages."""
    transformed(1, 512)


@run
def transposes_of_weights() -> None:
    a, out = random(19, 21), empty(21, 19)
    copy_into(a.T, out)
    np.testing.assert_array_equal(out, a.T)
