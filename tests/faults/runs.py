"""Small runs of the project's operations in the simulator, each through some kernels.

They are as small as still reaches several workgroups, partial tiles and more rounds than a ring has
slots. A run raises what the simulator reports, or AssertionError where its result is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import numpy as np
import pytest

import portable as pt
from portable import nn
from portable.dtypes import dtype, float32
from portable.linalg.bands.band import chase
from portable.linalg.bands.plan import Plan, Stage
from portable.linalg.base.magnitude import largest_magnitude
from portable.linalg.base.tiling import Tiling
from portable.linalg.dense.reduction import reduced
from portable.linalg.dense.shapes import DenseShape
from portable.linalg.factorisations import holding, qr
from portable.linalg.products.kernels import gemm_naive, gemm_tiles, keep
from portable.linalg.products.launches import Sharing, first_launch
from portable.linalg.singular_values.direct_kernels import DirectShape
from portable.linalg.singular_values.svdvals import Asked, Direct, directly
from portable.nn import fused
from tests.faults import array_runs, spectral_runs
from tests.faults.running import RUNS, close, device, empty, random, run

__all__ = ["RUNS", "array_runs", "spectral_runs"]

# -- products --------------------------------------------------------------------------------


def multiplied(launcher: Any, m: int, k: int, n: int, **constants: Any) -> None:
    a, b, out = random(m, k), random(k, n), empty(m, n)
    how = {"ACC": float32, "ACTIVATION": keep, **constants}
    launcher(1.0, a, b, 0.0, None, None, out, **how)
    close(out, a @ b)


@run
def products_element_by_element() -> None:
    multiplied(gemm_naive[(4 * 3 * 4, 4), (4, 4)], 9, 5, 14)


def tiles(stages: int, apart: bool = False) -> None:
    tiling = Tiling(8, 8, 4, stages, units=False, warp_specialised=apart, group=2)
    multiplied(gemm_tiles[4 * 8, 8], 11, 22, 13, TILING=tiling)


@run
def products_of_tiles() -> None:
    tiles(3)


@run
def products_of_tiles_in_turn() -> None:
    tiles(1)


@run
def products_whose_last_round_is_shared_out() -> None:
    a, b, out = random(40, 41), random(41, 39), empty(40, 39)
    sharing = Sharing(Tiling(16, 16, 4, 2, units=False, group=2), 5, 9 % 5, 41)
    how = {"TILING": sharing.tiling, "ACC": float32, "ACTIVATION": keep}
    args = 1.0, a, b, 0.0, None, None, out
    for launch, own, constants in sharing.steps(
        first_launch(sharing, 32), args, how, keep, device().empty
    ):
        launch(*own, **constants)
    close(out, a @ b)


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

    Of a stack of matrices that are `alike` TMA is not told.
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
    on_h200(64, 68, 300, 128, **HALVES, SPECIALISED=False)


@run
def products_by_a_warpgroup_and_one_that_copies() -> None:
    on_h200(64, 64, 304, 256, alike=2, **HALVES, SPECIALISED=True)


@run
def products_by_a_warpgroup_and_a_copy_engine() -> None:
    on_h200(64, 64, 304, 256, **HALVES, SPECIALISED=True)


@run
def products_of_eight_bits() -> None:
    """Of which units sum up a tile, and work-items tiles."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = (random(64, 640).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    out = empty(64, 64)
    tiling = Tiling(64, 64, 128, 4, units=True, warp_specialised=True)
    how = {"TILING": tiling, "ACC": float32, "ACTIVATION": keep}
    with pt.use("simulator:h200"):
        gemm_tiles[256, 256](1.0, a, b.T, 0.0, None, None, out, **how)
    close(out, a.astype(np.float32) @ b.astype(np.float32).T)


@run
def products_by_a_warpgroup_and_a_warp() -> None:
    on_h200(64, 64, 304, 160, **HALVES, SPECIALISED=True)


@run
def products_in_turn_by_a_warpgroup() -> None:
    on_h200(128, 64, 136, 160, **HALVES, SPECIALISED=True, RESIDENT=1)


@run
def products_by_warps() -> None:
    sizes = {"BM": 16, "BN": 16, "BK": 8, "STAGES": 3}
    on_h200(20, 20, 30, 32, "float64", **sizes, SPECIALISED=False)


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
def band_by_products() -> None:
    narrowing = Stage(12, 9, "products", lanes=4, rows=4, sweeps=2)
    chased(44, 11, narrowing, Stage(4, 4, "vectors", lanes=4))


@run
def band_by_items() -> None:
    chased(24, 3, Stage(3, 3, "items", items=8))


@run
def band_by_few_items() -> None:
    chased(15, 3, Stage(3, 3, "items", items=4))


@run
def band_in_waves() -> None:
    chased(12, 3, Stage(3, 3, "items", items=8), persistent=False)


@run
def band_in_steps() -> None:
    chased(14, 5, Stage(5, 3, "items", items=8), Stage(3, 3, "items", items=8))


@run
def band_in_a_ring() -> None:
    chased(30, 4, Stage(4, 4, "ring", items=16, sweeps=2))


@run
def band_in_a_ring_on_an_h200() -> None:
    """With TMA's instructions in the place of its words."""
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
    banded(21, 9, 4, DenseShape(4, 2, 4, 1, (1, 1), 8, 1, 0, True))


# -- factorisations ---------------------------------------------------------------------------


@run
def positive_definite_by_tiles() -> None:
    x = random(70, 70).astype(float)
    a = (x @ x.T / 70 + np.eye(70)).astype(np.float32)
    lower = pt.linalg.cholesky(a)
    close(lower @ lower.T, a)


@run
def positive_definite_by_sub_groups() -> None:
    x = random(66, 66).astype(float)
    a = (x @ x.T / 66 + np.eye(66)).astype(np.float32)
    with pt.use("simulator:h200"):
        lower = pt.linalg.cholesky(a)
    close(lower @ lower.T, a)


@run
def reflectors_in_registers() -> None:
    a = random(40, 20)
    q, r = pt.linalg.qr(a)
    close(q @ r, a)
    close(q.T @ q, np.eye(20))


@run
def tall_matrices_by_rows() -> None:
    a = random(130, 10)
    with mock.patch.multiple(qr, _LEAST=1, _EACH=2), pt.use("simulator:h200"):
        q, r = pt.linalg.qr(a)
    close(q @ r, a)
    close(q.T @ q, np.eye(10))


@run
def panels_of_reflectors_by_several_workgroups() -> None:
    a = random(300, 20)
    with _few_items(64):
        q, r = pt.linalg.qr(a)
    close(q @ r, a)
    close(q.T @ q, np.eye(20))


@run
def panels_of_pivots_by_several_workgroups() -> None:
    for rows in (100, 140):
        a = random(rows, 20)
        with _few_items(32):
            lu, pivots = pt.linalg.lu_factor(a)
        for i, pivot in enumerate(pivots):
            a[[i, pivot]] = a[[pivot, i]]
        close(np.tril(lu, -1) @ np.triu(lu[:20]) + np.triu(lu), a)


@contextmanager
def _few_items(count: int) -> Iterator[None]:
    """Workgroups so small that a short panel takes several, as on a GPU."""
    with mock.patch.multiple(holding, _ITEMS=count, _ALONE_BYTES=0), pt.use("simulator:h200"):
        yield


@run
def a_system_of_equations() -> None:
    a, b = random(44, 44), random(44, 70)
    close(a @ pt.linalg.solve(a, b), b)


@run
def a_system_of_equations_through_memory() -> None:
    with mock.patch.multiple(holding, _BYTES=0, _ALONE_BYTES=0):
        a_system_of_equations()


@run
def straight_to_two_diagonals() -> None:
    a, device = random(1, 11, 9), pt.device()
    values = device.empty((1, 9), pt.float32)
    layout = Direct(DirectShape(lanes=2, rows=2, team=4, teams=3), 1)
    directly(Asked(device, a, values), layout)
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
