"""Products of matrices of few bits with factors, beside the formula in double precision."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import portable
from portable import linalg
from portable.backend import Device
from portable.dtypes import float8_e4m3fn
from portable.errors import DTypeError, ShapeError
from portable.linalg.products import launches, tuning
from portable.linalg.products.model import Product
from portable.linalg.products.plan import planned

ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy lacks these types without it")

Array = np.ndarray[Any, Any]
KINDS = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
}


def numbers(shape: tuple[int, ...], kind: Any, seed: int) -> Array:
    spread = 40 if kind is np.int8 else 1
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(kind)


def factors(shape: tuple[int, ...], seed: int) -> Array:
    return np.exp2(np.random.default_rng(seed).standard_normal(shape) * 3).astype(np.float32)


def widened(x: Array, scales: Array) -> Array:
    block = x.shape[-1] // scales.shape[-1]
    return x.astype(np.float64) * np.repeat(scales.astype(np.float64), block, -1)


def assert_product(found: Array, given: tuple[Array, ...], bound: float) -> None:
    a, b, a_scales, b_scales = given
    left, right = widened(a, a_scales), widened(b, b_scales).swapaxes(-1, -2)
    error = np.abs(found.astype(np.float64) - left @ right)
    assert (error <= bound * (np.abs(left) @ np.abs(right))).all()


def multiplied(device: Device, given: tuple[Array, ...], **options: Any) -> Array:
    if device.backend == "sycl" and given[0].dtype.itemsize < 4:
        pytest.skip("dpnp lacks these types")
    there = (device.from_numpy(x) for x in given)
    with portable.use(device):
        return device.to_numpy(linalg.scaled_matmul(*there, **options))


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "int8", "bfloat16"])
@pytest.mark.parametrize("blocks", [(1, 1), (4, 1), (2, 8)], ids=["rows", "blocks", "unlike"])
def test_it_is_the_formula(kind: str, blocks: tuple[int, int], device: Device) -> None:
    m, n, k = (9, 7, 16) if device.interprets else (65, 50, 96)
    a, b = numbers((m, k), KINDS[kind], 0), numbers((n, k), KINDS[kind], 1)
    given = (a, b, factors((m, blocks[0]), 2), factors((n, blocks[1]), 3))
    found = multiplied(device, given)
    assert found.dtype == np.float32
    assert_product(found, given, 4e-7 * (k + 8))


def test_stacks_broadcast_and_results_may_be_halves(device: Device) -> None:
    a, b = numbers((3, 5, 32), np.int8, 0), numbers((1, 4, 32), np.int8, 1)
    given = (a, b, factors((1, 5, 1), 2), factors((3, 4, 1), 3))
    found = multiplied(device, given, preferred_element_type="bfloat16")
    assert found.dtype == ml_dtypes.bfloat16
    assert_product(found, given, 2.0**-8)


def test_empty_sums_are_zero(device: Device) -> None:
    a, b = np.zeros((3, 0), KINDS["float8_e5m2"]), np.zeros((2, 0), KINDS["float8_e5m2"])
    given = (a, b, np.zeros((3, 0), np.float32), np.zeros((2, 1), np.float32))
    assert (multiplied(device, given) == np.zeros((3, 2))).all()


@pytest.mark.parametrize(
    ("kind", "precision", "blocks"),
    [
        ("float8_e4m3fn", "fast", (1, 1)),
        ("float8_e4m3fn", "full", (1, 1)),
        ("float8_e4m3fn", "full", (7, 1)),
        ("float8_e4m3fn", "full", (1, 7)),
        ("float8_e5m2", "full", (7, 7)),
        ("float8_e5m2", "full", (1, 1)),
        ("int8", "full", (1, 1)),
    ],
)
def test_warpgroups_multiply_bytes(
    kind: str,
    precision: Literal["full", "fast"],
    blocks: tuple[int, int],
) -> None:
    hopper = portable.device("simulator:h200")
    m, n, k = 160, 136, 896
    a, b = numbers((m, k), KINDS[kind], 0), numbers((n, k), KINDS[kind], 1)
    given = (a, b, factors((m, blocks[0]), 2), factors((n, blocks[1]), 3))
    with portable.profile() as seen:
        found = multiplied(hopper, given, precision=precision)
    assert any(span.entry.name == "gemm_tiles" for span in seen.spans)
    assert "scale_rows" not in {span.entry.name for span in seen.spans}
    assert_product(found, given, 4e-7 * k)
    if kind == "float8_e5m2":  # once is enough
        assert (multiplied(hopper, (a, a[:n], *given[2:])) != found).any()
        assert (multiplied(hopper, given) == found).all()


def test_sums_of_large_tiles_are_added_up_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the tiles of large products, of which each workgroup makes several in turn."""
    hopper, (m, n, k) = portable.device("simulator:h200"), (256, 256, 384)
    large = Product(8192, 8192, 8192)
    first, *_ = tuning.schemes(hopper, float8_e4m3fn, "auto", large, True)
    assert (first[0]["BM"], first[0]["BN"], first[0]["RESIDENT"]) == (128, 256, 1)
    a, b = (numbers((x, k), KINDS["float8_e4m3fn"], i) for i, x in enumerate((m, n)))
    given = (a, b, factors((m, 1), 2), factors((n, 1), 3))
    monkeypatch.setattr(launches, "schemes", lambda *_: (first,))
    planned.cache_clear()
    try:
        assert_product(multiplied(hopper, given), given, 4e-7 * k)
    finally:
        planned.cache_clear()


def test_powers_of_two_of_short_blocks_go_through_units_for_halves() -> None:
    hopper = portable.device("simulator:h200")
    a, b = (numbers((x, 96), KINDS["float8_e4m3fn"], x) for x in (80, 72))
    powers = (np.exp2(np.rint(np.log2(factors((x, 3), x)))).astype(np.float32) for x in (80, 72))
    given = (a, b, *powers)
    found = multiplied(hopper, given, precision="fast")
    assert (found == found.astype(ml_dtypes.bfloat16)).all()
    left, right = widened(a, given[2]), widened(b, given[3]).T
    room = 2.0**-8 * np.abs(left @ right) + 1e-6 * (np.abs(left) @ np.abs(right))
    assert (np.abs(found - left @ right) <= room).all()


def test_integers_of_rows_that_lie_across_are_exact() -> None:
    hopper = portable.device("simulator:h200")
    a, b = numbers((512, 130), np.int8, 0).T, numbers((512, 257), np.int8, 1)
    with portable.use(hopper):
        found = linalg.gemm(a, b)
    assert (found == a.astype(np.int32) @ b.astype(np.int32)).all()


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 8), (2, 9), (3, 1), (2, 1)), "rows of both"),
        (((3, 8), (2, 8), (3, 3), (2, 1)), "a_scales"),
        (((3, 8), (2, 8), (3, 1), (3, 1)), "b_scales"),
        (((8,), (2, 8), (3, 1), (2, 1)), "matrices"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes: Any, message: str) -> None:
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    with pytest.raises(ShapeError, match=message):
        linalg.scaled_matmul(*arrays)


def test_mixed_operands_and_other_results_are_refused() -> None:
    a, one = np.zeros((2, 4), np.int8), np.ones((2, 1), np.float32)
    with pytest.raises(DTypeError, match="one dtype"):
        linalg.scaled_matmul(a, a.astype(np.float32), one, one)
    with pytest.raises(DTypeError, match="not float64"):
        linalg.scaled_matmul(a, a, one, one, preferred_element_type="float64")
    with pytest.raises(ValueError, match="full and fast"):
        linalg.scaled_matmul(a, a, one, one, precision="half")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="factors"):
        linalg.scaled_matmul(a, a, one.astype(np.float64), one)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "int8"])
def test_large_products_by_units_that_are_there(kind: str, device: Device) -> None:
    """Of one sign, of which units that drop bits would lose a few hundredths."""
    units = device.capabilities.matrix_units
    if device.interprets or not any(unit.startswith("wgmma.f8") for unit in units):
        pytest.skip(f"{device.name} has no matrix units for bytes")
    m, n, k = 520, 392, 16400
    a, b = (abs(numbers((x, k), KINDS[kind], x).astype("f4")).astype(KINDS[kind]) for x in (m, n))
    given = (a, b, factors((m, 1), 2), factors((n, 1), 3))
    assert_product(multiplied(device, given), given, 2.0**-9)
    if kind != "int8":
        assert_product(multiplied(device, given, precision="fast"), given, 0.2)
