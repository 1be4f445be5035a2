"""Products of packed operands: what they compute, when they are chosen, what they keep."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.linalg import gemm, prepare_gemm
from portable.linalg.products import launches as gemm_launches
from portable.linalg.products import packed as gemm_packed
from portable.linalg.products.check import tolerance
from portable.linalg.products.kernels import keep, relu
from portable.linalg.products.launches import Beside, launches
from portable.linalg.products.model import Product
from portable.linalg.products.packed import (
    kept_room,
    packed_steps,
    packing_for,
    packing_pays,
    sums_halves,
)
from portable.linalg.products.plan import planned
from portable.nn.activations import tanh
from portable.tune.verify import worst_error

Array = np.ndarray[Any, Any]


def operands(m: int, n: int, k: int, dtype: str = "float32") -> tuple[Array, Array]:
    random = np.random.default_rng([m, n, k])
    a, b = random.standard_normal((m, k)), random.standard_normal((k, n))
    return a.astype(dtype), b.astype(dtype)


def assert_product(found: Array, a: Array, b: Array, alpha: float = 1) -> None:
    kind = np.longdouble if a.dtype == np.float64 else np.float64
    exact = alpha * (a.astype(kind) @ b.astype(kind))
    size = abs(alpha) * (abs(a.astype(kind)) @ abs(b.astype(kind)))
    assert found.dtype == a.dtype
    assert worst_error(found, exact, tolerance(a.shape[1], a.dtype) * size) <= 1


def packed(
    device: Device,
    a: Any,
    b: Any,
    alpha: float,
    slab: int,
    out: Any = None,
    halves: bool = False,
) -> Any:
    """The product by way of slabs of so many terms of its sums."""
    kind = dtype_of(a.dtype)
    accumulator = kind if halves else kind.register
    plan = packing_for(device.capabilities, accumulator)
    plan = plan._replace(slab=slab)
    if out is None:
        out = device.empty((a.shape[0], b.shape[1]), kind)
    args = (alpha, a, b, 0.0, None, None, out)
    for launcher, own, constants in packed_steps(plan, args, accumulator, device.empty):
        launcher(*own, **constants)
    return device.to_numpy(out)


@pytest.fixture
def core(device: Device) -> Iterator[Device]:
    """A device whose work-items have cores to themselves, in use."""
    if not device.capabilities.lone_work_items:
        pytest.skip(f"{device.name} has workgroups of many work-items")
    with portable.use(device):
        yield device


@pytest.mark.parametrize(("dtype", "slab"), [("float16", 100), ("float32", 20), ("float64", 100)])
def test_slabs_and_edges(core: Device, dtype: str, slab: int) -> None:
    """Three slabs or one, of more than one tile, none of which is whole."""
    a, b = operands(29, 141, 50, dtype)
    found = packed(core, core.from_numpy(a), core.from_numpy(b), 0.5, slab)
    assert_product(found, a, b, 0.5)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_results_anywhere_in_a_line_of_the_caches(core: Device, dtype: str) -> None:
    """Tiles begin with lines where rows are whole ones; nothing else is written."""
    m, n, k = 29, 144, 50
    a, b = operands(m, n, k, dtype)
    left, right = core.from_numpy(a), core.from_numpy(b)
    for at in (0, 4, 13, 29):
        room = core.from_numpy(np.full(m * n + 40, 7, dtype))
        found = packed(core, left, right, 1, 100, room[at : at + m * n].reshape((m, n)))
        assert_product(found, a, b)
        rest = core.to_numpy(room)
        assert (rest[:at] == 7).all()
        assert (rest[at + m * n :] == 7).all()


def whole(m: int, n: int, k: int) -> tuple[Array, Array]:
    """Operands of small whole numbers, of which half precision holds all sums."""
    random = np.random.default_rng([m, n, k])
    a, b = random.integers(-3, 4, (m, k)), random.integers(-3, 4, (k, n))
    return a.astype(np.float16), b.astype(np.float16)


@pytest.mark.parametrize("slab", [1000, 150])
@pytest.mark.parametrize("turned", [False, True])
def test_halves_summed_as_halves(core: Device, slab: int, turned: bool) -> None:
    """Runs of products and what is left of them, in one slab and several, at edges and within."""
    if not sums_halves(core.capabilities):
        pytest.skip(f"{core.name} has no vectors of 32 halves")
    a, b = whole(21, 230, 300)
    given = [core.from_numpy(x.T.copy() if turned else x) for x in (a, b)]
    left, right = (x.T for x in given) if turned else given
    found = packed(core, left, right, 0.5, slab, halves=True)
    np.testing.assert_array_equal(found, (0.5 * (a.astype(float) @ b)).astype(np.float16))


def test_calls_that_sum_halves(core: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are such vectors, sums of 128 products are halves; longer ones are not."""
    monkeypatch.setattr(gemm_launches, "packing_pays", lambda *_: True)
    planned.cache_clear()
    a, b = np.ones((9, 4096), np.float16), np.ones((4096, 100), np.float16)
    a[:, 0] = 2048
    given = core.from_numpy(a), core.from_numpy(b)
    bias = core.from_numpy(np.full(100, -2048, np.float16))
    try:
        for _ in range(5):
            found = core.to_numpy(gemm(*given, bias=bias, accumulate="float16"))
            kept = 128 - 1 if sums_halves(core.capabilities) else 0
            assert (found == 4095 - kept).all()
        out = core.empty((9, 100), dtype_of("float16"))
        prepare_gemm(*given, out=out, accumulate="float16")()
        assert (core.to_numpy(out) == np.float16(6143 - kept)).all()
        np.testing.assert_array_equal(core.to_numpy(gemm(*given)), np.float16(6143))
    finally:
        planned.cache_clear()


def test_operands_of_any_strides(core: Device) -> None:
    a, b = operands(29, 141, 50)
    columns = core.from_numpy(a.T.copy()).T, core.from_numpy(b.T.copy()).T
    assert_product(packed(core, *columns, 1, 100), a, b)
    wide = core.from_numpy(np.repeat(a, 2, 1)), core.from_numpy(np.repeat(b, 2, 0))
    assert_product(packed(core, wide[0][:, ::2], wide[1][::2], 1, 100), a, b)


def test_panels_of_columns(core: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sums between slabs would take too much room; the last panel is narrower."""
    monkeypatch.setattr(gemm_packed, "_MOST_SUMS", 0)
    monkeypatch.setattr(gemm_packed, "_FEWEST_USES", 1)
    for n in (1100, 600):
        a, b = operands(13, n, 24)
        assert_product(packed(core, core.from_numpy(a), core.from_numpy(b), 1, 10), a, b)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_simulated_for_a_core_without_races(dtype: str) -> None:
    """Half precision's sums between slabs are not rounded: they have a place of their own."""
    device = portable.device("simulator:intel-cpu")
    a, b = operands(13, 33, 7, dtype)
    with portable.use(device):
        assert_product(packed(device, a, b, 1, 4), a, b)
        if dtype == "float16":
            assert_product(packed(device, a, b, 1, 4, halves=True), a, b)


def test_products_call_for_it_and_keep_their_room(
    core: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called and prepared, the same room serves products that are smaller, of this thread alone."""
    monkeypatch.setattr(gemm_launches, "packing_pays", lambda *_: True)
    monkeypatch.setattr(gemm_packed, "_kept", gemm_packed._Kept())
    planned.cache_clear()
    try:
        for m, n, k in ((40, 110, 60), (30, 110, 50)):  # of more columns than registers hold
            a, b = operands(m, n, k)
            left, right = core.from_numpy(a), core.from_numpy(b)
            for _ in range(5):
                assert_product(core.to_numpy(gemm(left, right)), a, b)
            out = core.empty((m, n), dtype_of("float32"))
            product = prepare_gemm(left, right, out=out, alpha=3)
            product()
            product()
            assert_product(core.to_numpy(out), a, b, 3)
        spread = core.from_numpy(np.zeros((m, 2 * n), np.float32))
        gemm(left, right, out=spread[:, ::2])
        assert_product(core.to_numpy(spread)[:, ::2], a, b)
        assert not core.to_numpy(spread)[:, 1::2].any()
        ((_, room),) = gemm_packed._kept.rooms.values()
        assert kept_room(core, (10,), dtype_of("float32")) is room
        others: list[Any] = []
        thread = threading.Thread(
            target=lambda: others.append(kept_room(core, (10,), dtype_of("float32")))
        )
        thread.start()
        thread.join()
        assert others[0] is not room
    finally:
        planned.cache_clear()


def test_streams_have_rooms_of_their_own(core: Device) -> None:
    """Products on two of them may run at the same time."""
    kind = dtype_of("float32")
    room = kept_room(core, (10,), kind)
    with portable.Stream(core):
        other = kept_room(core, (10,), kind)
        assert kept_room(core, (10,), kind) is other
    assert (other is not room) == core.capabilities.streams


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activation", [None, "relu", tanh])
def test_bias_and_activation(core: Device, dtype: str, activation: Any) -> None:
    """By vectors within the result, one by one at its edges; the last columns come first."""
    a, b = operands(29, 144, 50, dtype)
    bias = np.arange(144).astype(dtype) / 64 - 1
    kind = dtype_of(dtype)
    room = core.from_numpy(np.full(29 * 144 + 4, 7, dtype))
    out = room[4:].reshape((29, 144))
    given = tuple(core.from_numpy(x) for x in (a, b, bias))
    function = {None: keep, "relu": relu}.get(activation, activation)
    plan = packing_for(core.capabilities, kind.register, function)
    args = (0.5, *given[:2], 0.0, None, given[2], out)
    for launcher, own, constants in packed_steps(plan, args, kind.register, core.empty):
        launcher(*own, **constants)
    exact = 0.5 * (a.astype(float) @ b.astype(float)) + bias
    size = 0.5 * (abs(a.astype(float)) @ abs(b.astype(float))) + abs(bias)
    by_numpy = {None: lambda x: x, "relu": lambda x: np.maximum(x, 0)}.get(activation, np.tanh)
    found = core.to_numpy(out)
    assert worst_error(found, by_numpy(exact), 2 * tolerance(50, kind.numpy) * size) <= 1


@pytest.mark.parametrize("activation", [None, "relu"])
def test_calls_with_a_bias(core: Device, monkeypatch: pytest.MonkeyPatch, activation: Any) -> None:
    """Known again after a few, and without a bias of the same product not taken for the same."""
    monkeypatch.setattr(gemm_launches, "packing_pays", lambda *_: True)
    planned.cache_clear()
    a, b = operands(29, 70, 21)
    left, right = core.from_numpy(a), core.from_numpy(b)
    for count in range(6):
        bias = np.full(70, count, np.float32)
        found = gemm(left, right, bias=core.from_numpy(bias), activation=activation)
        exact = a @ b + bias
        exact = exact if activation is None else np.maximum(exact, 0)
        np.testing.assert_allclose(core.to_numpy(found), exact, atol=1e-4)
    assert_product(core.to_numpy(gemm(left, right)), a, b)
    planned.cache_clear()


def test_where_it_is_chosen() -> None:
    """Large products of processors, smaller ones with a bias; nothing else is done to either."""
    core, gpu = (portable.device(f"simulator:{name}") for name in ("intel-cpu", "h200"))
    kind = dtype_of("float32")
    large, short = Product(1024, 1024, 1024), Product(1024, 1024, 16)
    assert packing_pays(large, core.capabilities)
    assert packing_pays(short, core.capabilities)
    assert not packing_pays(large, gpu.capabilities)
    for other in (Product(1024, 1024, 1024, 2), Product(128, 8192, 8192), Product(512, 512, 512)):
        assert not packing_pays(other, core.capabilities)
    for m, n, k, biased in ((2048, 256, 512, False), (1024, 256, 64, True), (256, 256, 256, True)):
        assert packing_pays(Product(m, n, k, 1, biased), core.capabilities)
    for m, n, k in ((1024, 256, 64), (256, 512, 2048)):
        assert not packing_pays(Product(m, n, k), core.capabilities)
    assert packing_pays(Product(256, 256, 256), core.capabilities, halves=True)
    assert not packing_pays(Product(256, 256, 128), core.capabilities, halves=True)
    constants = {"ACC": kind, "ACTIVATION": gemm_launches.keep}
    for packable in (True, False):
        beside = Beside(packable=packable)
        first = next(launches(core, kind, (1024, 1024), 1024, "auto", constants, False, beside))
        assert (first.packing is not None) is packable


def test_a_stack_of_one_product_is_not_packed() -> None:
    """The kernels that pack take matrices."""
    a, b = operands(512, 400, 512)
    with portable.use("cpu:native"):
        found = gemm(a, b[None])
    assert found.shape == (1, 512, 400)
    assert np.allclose(found[0], a @ b, atol=1e-3)
