"""Products whose last round of tiles is shared out among all workgroups."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portable
from portable import sim
from portable.backend import Device, profiles
from portable.dtypes import DType, float32, float64
from portable.linalg import gemm, prepare_gemm
from portable.linalg.base.tiling import Tiling
from portable.linalg.products import launches as gemm_launches
from portable.linalg.products.kernels import keep, relu
from portable.linalg.products.launches import (
    Asked,
    EpilogueKind,
    Sharing,
    TileLaunch,
    first_launch,
    in_order,
    launches,
    sharing_for,
)
from portable.linalg.products.schedules import Shares

TILING = Tiling(16, 16, 4, 3, units=False, group=2)
UNITS = TILING._replace(units=True, depth=8)
ITEMS = 32


def tiles_of(shape: tuple[int, ...]) -> int:
    *lead, m, n = shape
    return int(np.prod(lead, dtype=int)) * -(-m // 16) * -(-n // 16)


def whole_numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def multiplied(
    device: Device,
    a: Any,
    b: Any,
    groups: int,
    tiling: Tiling = TILING,
    kind: DType = float32,
    **terms: Any,
) -> Any:
    """The product by so many workgroups, from arrays of the host."""
    bias, activation = terms.get("bias"), terms.get("activation", keep)
    a, b, bias = (
        None if x is None else device.from_numpy(x.astype(kind.numpy)) for x in (a, b, bias)
    )
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = device.from_numpy(np.full(shape, np.nan, kind.numpy))
    sharing = sharing_for(tiling, tiles_of(shape), groups, a.shape[-1])
    assert sharing is not None
    how = {"TILING": tiling, "ACC": kind, "ACTIVATION": activation}
    launch = TileLaunch(first_launch(sharing, ITEMS), how, sharing=sharing)
    args = 1.0, a, b, 0.0, None, bias, out
    for step, given, constants in in_order(launch, args, activation, device.empty):
        step(*given, **constants)
    return device.to_numpy(out)


def test_products(device: Device) -> None:
    a, b, bias = whole_numbers(40, 133), whole_numbers(133, 50), whole_numbers(50)
    found = multiplied(device, a, b, 5, bias=bias, activation=relu)
    assert (found == np.maximum(a @ b + bias, 0)).all()


def test_whole_rounds() -> None:
    a, b = whole_numbers(32, 40), whole_numbers(40, 32)
    with portable.use("simulator"):
        assert (multiplied(portable.device("simulator"), a, b, 2) == a @ b).all()


def test_batches() -> None:
    a, b = whole_numbers(2, 1, 20, 50), whole_numbers(3, 50, 17)
    with portable.use("simulator"):
        assert (multiplied(portable.device("simulator"), a, b, 5) == a @ b).all()


@pytest.mark.parametrize(("completion", "turns"), [("early", "first"), ("late", "last")])
def test_matrix_units(completion: str, turns: str) -> None:
    a, b = whole_numbers(40, 160), whole_numbers(160, 30)
    with portable.use("simulator:h200"), sim.checks(completion=completion, turns=turns):
        found = multiplied(portable.device("simulator:h200"), a, b, 4, UNITS, float64)
    assert (found == a @ b).all()


def test_calls_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fifth is not taken for one that is a single launch."""
    choice = {"BM": 16, "BN": 16, "BK": 4, "STAGES": 3, "WORKGROUP": 32, "UNITS": False}
    chosen = (choice | {"SPECIALISED": False, "RESIDENT": 1, "GROUP": 2}, 1)
    monkeypatch.setattr(gemm_launches, "schemes", lambda *_: (chosen,))
    monkeypatch.setattr(gemm_launches, "sharing_for", lambda *x: sharing_for(x[0], x[1], 5, x[3]))
    a, b, bias = whole_numbers(35, 67), whole_numbers(67, 33), whole_numbers(33)
    out = np.empty((35, 33), np.float32)
    with portable.use("simulator"):
        for _ in range(6):
            assert (gemm(a, b, bias=bias) == a @ b + bias).all()
            a += 1
        prepare_gemm(a, b, bias=bias, out=out)()
        assert (out == a @ b + bias).all()


def test_every_step_belongs_to_one_workgroup() -> None:
    """Also where shares would begin a step before or behind a tile."""
    for tiles, steps, groups in ((11, 16, 4), (3, 17, 5), (131, 9, 132), (4, 64, 31)):
        shares = Shares(groups, tiles, steps, TILING.ahead)
        begins = [shares.begin(group) for group in range(groups + 1)]
        assert begins[0] == 0
        assert begins[-1] == tiles % groups * steps
        assert begins == sorted(begins)
        for begin, end in pairwise(begins):
            cuts = [begin, *range(-(-(begin + 1) // steps) * steps, end, steps), end]
            lengths = [y - x for x, y in pairwise(cuts)]
            assert begin == end or (min(lengths) >= TILING.ahead and len(lengths) <= 2)


def test_few_tiles_and_short_sums_are_not_cut() -> None:
    assert sharing_for(TILING, 3, 4, 4 * 64) is None
    assert sharing_for(TILING, 9, 4, 4 * 7) is None
    assert sharing_for(TILING, 133, 132, 4 * 64) is None
    assert sharing_for(TILING, 132, 132, 4 * 64) == Sharing(TILING, 132, 0, 4 * 64)


def test_what_an_h200_shares_out() -> None:
    """Products of doubles, of which the last round would leave a quarter of it without work."""
    device: Any = SimpleNamespace(capabilities=profiles.load("h200").capabilities)
    how = {"ACC": float64, "ACTIVATION": keep}
    tried = launches(Asked(device, float64, (4096, 4096), 4096, "auto", how, False))
    first = next(tried)
    assert first.sharing is not None
    assert first.sharing.shared == 32 * 32 % 132
    added = launches(
        Asked(device, float64, (4096, 4096), 4096, "auto", how, False, EpilogueKind(added=True))
    )
    assert all(x.sharing is None for x in added)


def test_tiles_that_are_not_shared_out_keep_their_order() -> None:
    """32 rounds of tiles and a short rest: no share of it would be worth its sums."""
    device: Any = SimpleNamespace(capabilities=profiles.load("h200").capabilities)
    how = {"ACC": float64, "ACTIVATION": keep}
    first = next(launches(Asked(device, float64, (8192, 8192), 1024, "auto", how, False)))
    assert first.sharing is None
    shared = next(launches(Asked(device, float64, (4096, 4096), 4096, "auto", how, False)))
    assert first.constants["TILING"] == shared.constants["TILING"]
