"""The matrix product on every device: what it computes, what it reads, what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable
from portable import lang as kl
from portable.array.base.defaults import is_ours
from portable.backend import Device
from portable.dtypes import dtype as dtype_of
from portable.errors import (
    DTypeError,
    ShapeError,
    UnsupportedError,
)
from portable.linalg import gemm, prepare_gemm
from portable.linalg.products import launches as gemm_launches
from portable.linalg.products.check import tolerance
from portable.linalg.products.kernels import keep
from portable.linalg.products.launches import tiles_launch
from portable.linalg.products.plan import ALGORITHMS
from portable.linalg.products.tuning import SPACE, SPACE_NT
from portable.tune.search import worst_error
from portable.tune.table import lookup
from tests.support.calls import products_checked

Array = np.ndarray[Any, Any]

DTYPES = ["float16", "float32", "float64"]
OURS = [name for name in ALGORITHMS if name not in ("auto", "vendor")]
SHAPES = [(1, 1, 1), (65, 131, 33), (3, 5, 3000), (200, 260, 100)]
MORE_SHAPES = [(17, 13, 7), (64, 96, 64), (1, 150, 40), (150, 1, 40)]
SIMULATED = 4000
"""Products that the simulator may be asked for."""


@pytest.fixture(autouse=True)
def _in_use(device: Device) -> Iterator[None]:
    with portable.use(device):
        yield


def normal(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def needs(device: Device, dtype: str, products: int = 0) -> None:
    if dtype == "float64" and not device.capabilities.float64:
        pytest.skip(f"{device.name} lacks double precision")
    if device.interprets and products > SIMULATED:
        pytest.skip("too much for the simulator")


def longer(x: Array) -> Array:
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def assert_right(
    found: Array,
    a: Array,
    b: Array,
    *,
    alpha: float = 1,
    beta: float = 0,
    c: Array | None = None,
    bias: Array | None = None,
    relu: bool = False,
    accumulate: str | None = None,
) -> None:
    """Within the documented bound of the exact result."""
    exact = alpha * (longer(a) @ longer(b))
    size = abs(alpha) * (abs(longer(a)) @ abs(longer(b)))
    if beta and c is not None:
        exact, size = exact + beta * longer(c), size + abs(beta * longer(c))
    if bias is not None:
        exact, size = exact + longer(bias), size + abs(longer(bias))
    exact = np.maximum(exact, 0) if relu else exact
    assert found.shape == exact.shape
    assert found.dtype == a.dtype
    assert worst_error(found, exact, tolerance(a.shape[-1], a.dtype, accumulate) * size) <= 1


# -- products -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [*product(DTYPES, SHAPES), *product(["float32"], MORE_SHAPES)],
)
def test_products_of_any_shape(device: Device, dtype: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    needs(device, dtype, m * n * k)
    a, b = normal((m, k), dtype), normal((k, n), dtype, 1)
    result = gemm(device.from_numpy(a), device.from_numpy(b))
    assert device.owns(result)
    assert_right(device.to_numpy(result), a, b)


@pytest.mark.parametrize(("columns", "layout"), [(520, "rows"), (513, "rows"), (520, "columns")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_choices_for_large_problems(
    device: Device, dtype: str, columns: int, layout: str
) -> None:
    """Smaller results are left to the table's last choices: here all have whole and cut tiles."""
    if device.interprets or device.capabilities.kind != "gpu":
        pytest.skip("the shapes of other tests get them here")
    needs(device, dtype)
    m, n, k = 330, columns, 700
    kind = dtype_of(dtype)
    constants = {"ACC": kind.register, "ACTIVATION": keep}
    a, b = normal((m, k), dtype), normal((k, n), dtype, 1)
    left, right = device.from_numpy(a), device.from_numpy(b)
    if layout == "columns":
        right = device.from_numpy(np.ascontiguousarray(b.T)).T
    spaces = (SPACE_NT, SPACE) if layout == "columns" else (SPACE,)
    choices = [x for space in spaces for x in lookup(space, kind, device.capabilities)]
    for choice in choices[:2]:
        out = device.from_numpy(np.full((m, n), np.nan, dtype))
        launcher, sizes, *_ = tiles_launch(choice, (m, n), constants)
        launcher(1.0, left, right, 0.0, None, None, out, **sizes)
        assert_right(device.to_numpy(out), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", OURS)
def test_every_rung_of_the_ladder(device: Device, dtype: str, algorithm: Any) -> None:
    m, n, k = (9, 7, 19) if device.interprets else (70, 45, 51)
    needs(device, dtype)
    a, b = normal((m, k), dtype), normal((k, n), dtype, 1)
    found = gemm(device.from_numpy(a), device.from_numpy(b), algorithm=algorithm)
    assert_right(device.to_numpy(found), a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_vendors_own_product(device: Device, dtype: str) -> None:
    needs(device, dtype)
    if is_ours(device):
        pytest.skip(f"{device.name} has no array library but ours")
    a, b, c = normal((20, 30), dtype), normal((30, 10), dtype, 1), normal((20, 10), dtype, 2)
    given = [device.from_numpy(x) for x in (a, b, c)]
    options: dict[str, Any] = {"alpha": 0.5, "beta": 2.0, "activation": "relu"}
    found = gemm(*given[:2], c=given[2], algorithm="vendor", **options)
    assert_right(device.to_numpy(found), a, b, alpha=0.5, beta=2.0, c=c, relu=True)
    into = device.empty((20, 10), portable.dtypes.dtype(dtype))
    assert gemm(*given[:2], out=into, algorithm="vendor") is into
    assert_right(device.to_numpy(into), a, b)


def test_the_vendors_product_needs_a_library(device: Device) -> None:
    x = device.from_numpy(normal((4, 4)))
    if device.backend == "opencl":
        with pytest.raises(UnsupportedError, match="it needs an array library"):
            gemm(x, x, algorithm="vendor")
    else:
        with pytest.raises(UnsupportedError, match="no activation but relu"):
            gemm(x, x, algorithm="vendor", activation=doubled)


@given(data=st.data())
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_drawn_shapes(device: Device, data: st.DataObject) -> None:
    largest = 6 if device.interprets else 70
    m, n, k = (data.draw(st.integers(0, largest), label=x) for x in "mnk")
    algorithm: Any = data.draw(st.sampled_from(["auto", "naive", "tiled"]))
    a, b = normal((m, k)), normal((k, n), seed=1)
    found = gemm(device.from_numpy(a), device.from_numpy(b), algorithm=algorithm)
    assert_right(device.to_numpy(found), a, b)


@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (0, 0, 0)], ids=str)
def test_empty_results(device: Device, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    found = gemm(device.from_numpy(normal((m, k))), device.from_numpy(normal((k, n))))
    assert device.to_numpy(found).shape == (m, n)


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_nothing_to_sum_leaves_the_rest_of_the_formula(device: Device, algorithm: Any) -> None:
    c, bias = normal((5, 6)), normal((6,), seed=1)
    found = gemm(
        device.from_numpy(normal((5, 0))),
        device.from_numpy(normal((0, 6))),
        beta=2,
        c=device.from_numpy(c),
        bias=device.from_numpy(bias),
        algorithm=algorithm,
    )
    np.testing.assert_allclose(device.to_numpy(found), 2 * c + bias, rtol=1e-6)


# -- strides ------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[tuple[int, int], Callable[[Any], Any]]] = {
    "transposed": ((12, 11), lambda x: x.T),
    "reversed": ((11, 12), lambda x: x[::-1, ::-1]),
    "sliced": ((30, 40), lambda x: x[2:24:2, 3:39:3]),
    "column of blocks": ((11, 50), lambda x: x[:, 17:29]),
}


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
@pytest.mark.parametrize("name", VIEWS)
def test_views_are_read_where_they_lie(device: Device, name: str, algorithm: Any) -> None:
    shape, view = VIEWS[name]
    a, b = normal(shape), normal(shape, seed=1)
    left, right = view(device.from_numpy(a)), view(device.from_numpy(b)).T
    found = gemm(left, right, algorithm=algorithm)
    assert_right(device.to_numpy(found), view(a), view(b).T)


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_a_view_is_written_where_it_lies(device: Device, algorithm: Any) -> None:
    a, b = normal((7, 5)), normal((5, 6), seed=1)
    whole = device.from_numpy(np.full((20, 9), 7, np.float32))
    gemm(device.from_numpy(a), device.from_numpy(b), out=whole[18:4:-2, 2:8], algorithm=algorithm)
    found = device.to_numpy(whole)
    assert_right(found[18:4:-2, 2:8].copy(), a, b)
    found[18:4:-2, 2:8] = 7
    assert (found == 7).all()


@pytest.mark.parametrize("algorithm", ["naive", "tiled", "auto"])
def test_leading_dimensions_broadcast(device: Device, algorithm: Any) -> None:
    a, b = normal((3, 1, 4, 5)), normal((2, 5, 3), seed=1)
    c, bias = normal((2, 1, 3), seed=2), normal((3, 1, 1, 3), seed=3)
    found = gemm(
        device.from_numpy(a),
        device.from_numpy(b),
        beta=-1,
        c=device.from_numpy(c),
        bias=device.from_numpy(bias),
        algorithm=algorithm,
    )
    assert_right(device.to_numpy(found), a, b, beta=-1, c=c, bias=bias)


def test_a_broadcast_view_of_the_host(device: Device) -> None:
    if not device.owns(np.empty(0)):
        pytest.skip(f"{device.name} does not take NumPy arrays")
    a, b = np.broadcast_to(normal((1, 6)), (5, 6)), normal((6, 4), seed=1)
    assert_right(gemm(a, b), a, b)


# -- the rest of the formula --------------------------------------------------------------------


@portable.function
def doubled(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_the_whole_formula(device: Device, dtype: str, algorithm: Any) -> None:
    needs(device, dtype)
    m, n, k = (5, 6, 7) if device.interprets else (33, 47, 29)
    a, b, c = normal((m, k), dtype), normal((k, n), dtype, 1), normal((m, n), dtype, 2)
    bias = normal((n,), dtype, 3)
    found = gemm(
        device.from_numpy(a),
        device.from_numpy(b),
        alpha=1 / 3,
        beta=-1.7,
        c=device.from_numpy(c),
        bias=device.from_numpy(bias),
        activation="relu",
        algorithm=algorithm,
    )
    formula: dict[str, Any] = {"alpha": 1 / 3, "beta": -1.7, "c": c, "bias": bias, "relu": True}
    assert_right(device.to_numpy(found), a, b, **formula)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 144])
def test_a_bias_and_an_activation_of_whole_tiles(device: Device, dtype: str, length: int) -> None:
    """By vectors where they lie in the result, after rounds of more than one tile of operands."""
    m, n, k = 29, 144, 150
    needs(device, dtype, m * n * k)
    a, b, bias = normal((m, k), dtype), normal((k, n), dtype, 1), normal((length,), dtype, 2)
    given = [device.from_numpy(x) for x in (a, b, bias)]
    room = device.from_numpy(np.full(m * n + 4, 7, dtype))
    gemm(*given[:2], alpha=0.5, bias=given[2], activation="relu", out=room[4:].reshape((m, n)))
    found = device.to_numpy(room)
    assert_right(found[4:].reshape((m, n)), a, b, alpha=0.5, bias=bias, relu=True)
    assert (found[:4] == 7).all()


def test_an_activation_of_ones_own(device: Device) -> None:
    a, b = normal((6, 5)), normal((5, 4), seed=1)
    found = gemm(device.from_numpy(a), device.from_numpy(b), activation=doubled)
    assert_right(device.to_numpy(found), a, b, alpha=2)
    found = gemm(device.from_numpy(a), device.from_numpy(b), activation=kl.abs)
    np.testing.assert_allclose(device.to_numpy(found), np.abs(a @ b), atol=1e-5)


@pytest.mark.parametrize("shape", [(1,), (4,), (6, 1), (1, 4), (6, 4)], ids=str)
def test_addends_broadcast(device: Device, shape: tuple[int, ...]) -> None:
    a, b, x = normal((6, 5)), normal((5, 4), seed=1), normal(shape, seed=2)
    given = [device.from_numpy(y) for y in (a, b, x)]
    found = gemm(*given[:2], bias=given[2], algorithm="naive")
    assert_right(device.to_numpy(found), a, b, bias=x)
    found = gemm(*given[:2], beta=3, c=given[2], algorithm="naive")
    assert_right(device.to_numpy(found), a, b, beta=3, c=x)


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_without_beta_c_is_never_read(device: Device, algorithm: Any) -> None:
    a, b = normal((6, 5)), normal((5, 4), seed=1)
    c = device.from_numpy(np.full((6, 4), np.nan, np.float32))
    given = device.from_numpy(a), device.from_numpy(b)
    assert_right(device.to_numpy(gemm(*given, c=c, algorithm=algorithm)), a, b)
    assert gemm(*given, c=c, out=c, algorithm=algorithm) is c
    assert_right(device.to_numpy(c), a, b)


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_the_result_may_replace_c(device: Device, algorithm: Any) -> None:
    a, b, c = normal((20, 5)), normal((5, 18), seed=1), normal((20, 18), seed=2)
    into = device.from_numpy(c)
    found = gemm(
        device.from_numpy(a), device.from_numpy(b), beta=1, c=into, out=into, algorithm=algorithm
    )
    assert found is into
    assert_right(device.to_numpy(into), a, b, beta=1, c=c)


@pytest.mark.needs_float64
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_a_wider_accumulator(device: Device, dtype: str, algorithm: Any) -> None:
    a, b = normal((4, 600), dtype), normal((600, 3), dtype, 1)
    given = device.from_numpy(a), device.from_numpy(b)
    found = gemm(*given, accumulate=kl.f64, algorithm=algorithm)
    assert_right(device.to_numpy(found), a, b, accumulate="float64")


@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_halves_may_be_summed_as_halves(device: Device, algorithm: Any) -> None:
    """Devices without such arithmetic sum in single precision, as do small products."""
    a, b = normal((40, 300), "float16"), normal((300, 50), "float16", 1)
    given = device.from_numpy(a), device.from_numpy(b)
    found = gemm(*given, accumulate=kl.f16, algorithm=algorithm)
    assert_right(device.to_numpy(found), a, b)


def test_half_precision_sums_in_single(device: Device) -> None:
    """In half precision the sum would stay at 2048."""
    a, b = np.ones((2, 2500), np.float16), np.ones((2500, 2), np.float16)
    found = device.to_numpy(gemm(device.from_numpy(a), device.from_numpy(b)))
    assert (found == 2500).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", ["naive", "auto"])
def test_infinities_and_nan_stay_in_their_rows(device: Device, dtype: str, algorithm: Any) -> None:
    needs(device, dtype)
    a, b = np.ones((6, 5), dtype), np.ones((5, 4), dtype)
    a[1, 2], a[3, 0], a[4, :2] = np.inf, np.nan, (np.inf, -np.inf)
    found = device.to_numpy(gemm(device.from_numpy(a), device.from_numpy(b), algorithm=algorithm))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))


def test_relu_keeps_nan(device: Device) -> None:
    a = np.full((2, 2), np.nan, np.float32)
    found = gemm(device.from_numpy(a), device.from_numpy(a), activation="relu")
    assert np.isnan(device.to_numpy(found)).all()


# -- calls --------------------------------------------------------------------------------------


def test_each_call_is_checked_however_many_were_right_before(device: Device) -> None:
    whole, b = device.from_numpy(normal((12, 4))), device.from_numpy(normal((4, 4)))
    a, apart = whole[:4], whole[8:]
    for _ in range(8):
        gemm(a, b, beta=1, c=apart, bias=b, out=apart)
    for out in (a, b, whole[3:7], whole[5:9]):
        with pytest.raises(ShapeError, match="overlaps"):
            gemm(a, b, beta=1, c=apart, bias=b, out=out)
    half = device.from_numpy(normal((4, 4), "float16"))
    with pytest.raises(DTypeError, match="one dtype"):
        gemm(a, half, beta=1, c=apart, bias=b, out=apart)
    found = device.to_numpy(gemm(a, b, beta=0, c=device.from_numpy(np.full((4, 4), np.nan, "f4"))))
    assert_right(found, device.to_numpy(a), device.to_numpy(b))


def test_calls_like_earlier_ones_give_each_their_own_result(device: Device) -> None:
    left, right = normal((6, 6)), normal((6, 6), seed=1)
    a, b = device.from_numpy(left), device.from_numpy(right)
    turned = device.namespace().matrix_transpose(b)
    for _ in range(9):
        straight, across = gemm(a, b), gemm(a, turned, alpha=2)
    assert_right(device.to_numpy(straight), left, right)
    assert_right(device.to_numpy(across), left, right.T.copy(), alpha=2)
    total = device.from_numpy(left)
    for _ in range(9):
        gemm(a, b, beta=0.5, c=total, out=total)
    expected = left
    for _ in range(9):
        expected = left @ right + np.float32(0.5) * expected
    np.testing.assert_allclose(device.to_numpy(total), expected, rtol=1e-4, atol=1e-4)


def test_tuned_parameters_are_looked_at_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, checked = device.from_numpy(normal((6, 6))), products_checked(monkeypatch)
    for _ in range(5):
        gemm(a, a)
    if len(checked) > 4:
        pytest.skip(f"{device.name} tells nothing of its arrays that code could be compiled for")
    module = import_module("portable.linalg.products.gemm")
    monkeypatch.setattr(module, "recent_state", lambda: "another")
    gemm(a, a)
    assert len(checked) == 5


def test_a_prepared_product(device: Device) -> None:
    left, right, bias = normal((7, 5)), normal((5, 6), seed=1), normal((6,), seed=2)
    a, b, v = (device.from_numpy(x) for x in (left, right, bias))
    out = device.from_numpy(np.zeros((7, 6), np.float32))
    run = prepare_gemm(a, b, out=out, alpha=2, bias=v, activation="relu")
    assert not device.to_numpy(out).any()
    run()
    assert_right(device.to_numpy(out), left, right, alpha=2, bias=bias, relu=True)
    a[...] = device.from_numpy(2 * left)
    run()
    assert_right(device.to_numpy(out), 2 * left, right, alpha=2, bias=bias, relu=True)
    prepare_gemm(a[:0], b, out=out[:0])()
    with pytest.raises(ShapeError, match="out has shape"):
        prepare_gemm(a, b, out=b)


@pytest.mark.parametrize("parts", [2, 5])
def test_sums_in_parts(device: Device, monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    """As products of few tiles are made; with 5 the last parts have nothing to add up."""
    usual = gemm_launches.schemes
    monkeypatch.setattr(
        gemm_launches, "schemes", lambda *args: [(x, parts) for x, _ in usual(*args)]
    )
    m, n, k = 3, 7 + parts, 130 if parts == 2 else 11
    left, right, c = normal((2, m, k)), normal((k, n), seed=1), normal((m, n), seed=2)
    a, b, out = (device.from_numpy(x) for x in (left, right, np.zeros((2, m, n), np.float32)))
    addends: dict[str, Any] = {"c": device.from_numpy(c), "bias": device.from_numpy(c[0])}
    given: dict[str, Any] = {"alpha": 0.5, "beta": 2.0, "activation": "relu", **addends}
    expected: dict[str, Any] = {"alpha": 0.5, "beta": 2.0, "c": c, "bias": c[0], "relu": True}
    for _ in range(6):
        found = gemm(a, b, **given)
    assert_right(device.to_numpy(found), left, right, **expected)
    prepare_gemm(a, b, out=out, **given)()
    assert_right(device.to_numpy(out), left, right, **expected)
    assert_right(device.to_numpy(device.namespace().matmul(a, b)), left, right)


@pytest.mark.parametrize("algorithm", ["naive", "tiled", "auto"])
def test_more_matrices_than_a_second_dimension_of_workgroups_holds(
    device: Device, algorithm: Any
) -> None:
    if device.interprets:
        pytest.skip("70,000 workgroups take the simulator too long")
    a, b = normal((70_000, 2, 3)), normal((3, 2), seed=1)
    given = (device.from_numpy(a), device.from_numpy(b))
    found = device.to_numpy(gemm(*given, algorithm=algorithm))
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


def test_more_rows_than_a_second_dimension_of_workgroups_holds(device: Device) -> None:
    if device.interprets:
        pytest.skip("70,000 workgroups take the simulator too long")
    a, b = normal((16 * 70_000, 2)), normal((2, 3), seed=1)
    given = (device.from_numpy(a), device.from_numpy(b))
    for algorithm in ("naive", "tiled"):
        found = device.to_numpy(gemm(*given, algorithm=algorithm))  # type: ignore[arg-type]
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("in_place", [False, True])
def test_calls_alike_whose_sums_are_in_parts(
    device: Device, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Launched again without a plan, what adds the parts up too; an overlap is still refused."""
    if device.interprets or not device.capabilities.single_work_items:
        pytest.skip("the simulator recognises no launches, and others cut such sums by a model")
    checked = products_checked(monkeypatch)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-3, 4, (37, 9000)), rng.integers(-3, 4, (9000, 130))
    left, right = (device.from_numpy(x.astype(np.float32)) for x in (a, b))
    for count in range(8):
        c = device.from_numpy(np.full((37, 130), count, np.float32))
        out = c if in_place else None
        found = device.to_numpy(gemm(left, right, c=c, beta=2.0, out=out))
        assert (found == a @ b + 2 * count).all()
    assert len(checked) == 4
    square = device.from_numpy(np.zeros((37, 9000), np.float32))
    with pytest.raises(ShapeError, match="overlaps"):
        gemm(square, right, out=square[:, :130])
