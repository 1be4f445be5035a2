"""Products in narrow types and of rounded factors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.backend.program import Program
from portable.dtypes import DType, bfloat16, float8_e4m3fn, float8_e5m2, float32, int8
from portable.errors import DTypeError
from portable.lang.arguments.arguments import ArraySpec, ScalarSpec, Specialisation, StaticSpec
from portable.lang.emit import generate
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from portable.linalg import gemm
from portable.linalg.products.check import tolerance
from portable.linalg.products.kernels import gemm_tiles, keep
from portable.linalg.products.launches import tiles_launch
from portable.linalg.products.rows import in_rows
from portable.tune.search import worst_error
from tests.support.calls import products_checked
from tests.support.compilers import CUDA, HIP, compile_cuda, compile_hip, cuda_missing, hip_missing

Array = np.ndarray[Any, Any]

_BYTES = {"wgmma.f8e4m3", "wgmma.f8e5m2", "wgmma.i8"}
_UNITS = CUDA.matrix_units | {"mma.bf16", "mma.tf32", "wgmma.bf16"} | _BYTES
HOPPER = replace(CUDA, matrix_units=_UNITS, async_copy=CUDA.async_copy | {"tensor"})
_TILE: dict[str, Any] = {
    "BM": 64, "BN": 64, "BK": 64, "STAGES": 3, "SPECIALISED": True, "WORKGROUP": 256, "GROUP": 8,
    "UNITS": True,
}  # fmt: skip
_WARPS = _TILE | {"BM": 32, "BK": 32, "SPECIALISED": False, "WORKGROUP": 64}


@pytest.fixture
def bf16() -> Any:
    """NumPy's type."""
    return pytest.importorskip("ml_dtypes", reason="NumPy lacks bfloat16 without it").bfloat16


@pytest.fixture
def here(device: Device) -> Iterator[Device]:
    """A device, in use."""
    with portable.use(device):
        yield device


def normal(shape: tuple[int, ...], kind: Any, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def on(device: Device, x: Array) -> Any:
    if device.backend == "sycl" and x.dtype.name == "bfloat16":
        pytest.skip("dpnp lacks bfloat16")
    return device.from_numpy(x)


def assert_right(found: Array, a: Array, b: Array, bound: float) -> None:
    left, right = a.astype(np.float64), b.astype(np.float64)
    size = abs(left) @ abs(right)
    assert worst_error(found.astype(np.float64), left @ right, bound * size) <= 1


# -- bfloat16 -----------------------------------------------------------------------------------


@portable.kernel
def moved(x: Any, y: Any, z: Any) -> None:
    i = kl.global_id(0)
    if i < x.shape[0]:
        z[i] = kl.f32(kl.bf16(x[i]))
        y[i] = x[i]


def test_numbers_are_rounded_to_nearest_even(here: Device, bf16: Any) -> None:
    bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800001, 0xFF800000, 0x00012345]
    x = np.array(bits, np.uint32).view(np.float32)
    y, z = on(here, np.zeros(x.size, bf16)), here.from_numpy(np.zeros(x.size, np.float32))
    moved[x.size](here.from_numpy(x), y, z)
    with np.errstate(invalid="ignore"):
        expected = x.astype(bf16)
    np.testing.assert_array_equal(here.to_numpy(y).astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(here.to_numpy(z), expected.astype(np.float32))


@pytest.mark.parametrize("across", [False, True])
def test_products_of_bfloat16(here: Device, bf16: Any, across: bool) -> None:
    m, n, k = (5, 6, 7) if here.interprets else (33, 47, 129)
    a, b = normal((m, k), bf16, 0), normal((k, n), bf16, 1)
    right = on(here, np.ascontiguousarray(b.T)) if across else on(here, b)
    if across:
        right = here.namespace().matrix_transpose(right)
    found = here.to_numpy(gemm(on(here, a), right))
    assert found.dtype == bf16
    assert_right(found, a, b, tolerance(k, bfloat16))


def test_rows_of_bfloat16_are_copied(here: Device, bf16: Any) -> None:
    x = normal((3, 5), bf16, 0)
    found = here.to_numpy(in_rows(here, on(here, x)))
    assert (found == x).all()


# -- rounded factors ----------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "bound"), [("tf32", 2**-10), ("tf32x3", 2**-19)])
def test_factors_may_be_taken_in_parts(here: Device, precision: Any, bound: float) -> None:
    m, n, k = (5, 6, 7) if here.interprets else (33, 47, 129)
    a, b = normal((m, k), "f4", 0), normal((k, n), "f4", 1)
    found = gemm(here.from_numpy(a), here.from_numpy(b), precision=precision)
    assert_right(here.to_numpy(found), a, b, tolerance(k, float32) + bound)


def test_other_precisions(here: Device) -> None:
    x = here.from_numpy(normal((4, 4), "f2", 0))
    with pytest.raises(DTypeError, match="is for float32, not float16"):
        gemm(x, x, precision="tf32")
    with pytest.raises(ValueError, match="gemm has full, tf32x3, tf32, fast"):
        gemm(x, x, precision="half")  # type: ignore[arg-type]


# -- integers -----------------------------------------------------------------------------------


def test_products_of_bytes_are_exact(here: Device) -> None:
    m, n, k = (5, 6, 7) if here.interprets else (33, 47, 1100)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape).astype("i1") for shape in ((m, k), (k, n)))
    a[0], b[:, 0] = -128, -128
    c, bias = rng.integers(-99, 99, (m, n)).astype("i4"), np.arange(n, dtype="i4")
    expected = -3 * (a.astype("i4") @ b.astype("i4")) + 2 * c + bias
    given: dict[str, Any] = {"c": here.from_numpy(c), "bias": here.from_numpy(bias)}
    left, right = here.from_numpy(a), here.from_numpy(b)
    found = here.to_numpy(gemm(left, right, alpha=-3, beta=2, activation="relu", **given))
    assert found.dtype == np.int32
    assert (found == np.maximum(expected, 0)).all()
    with pytest.raises(ValueError, match=r"alpha=0\.5; gemm of int8 takes"):
        gemm(left, right, alpha=0.5)
    with pytest.raises(DTypeError, match="gemm of int8 takes int32, not float32"):
        gemm(left, right, bias=here.from_numpy(bias.astype("f4")))


def test_products_of_integers_are_known_again(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = products_checked(monkeypatch)
    a = device.from_numpy(np.full((6, 6), 3, np.int8))
    for _ in range(8):
        assert np.all(device.to_numpy(gemm(a, a, alpha=2)) == 2 * 6 * 9)
    if len(checked) > 4:
        pytest.skip(f"{device.name} tells nothing of its arrays that code could be compiled for")
    with pytest.raises(ValueError, match=r"alpha=0\.5; gemm of int8 takes"):
        gemm(a, a, alpha=0.5)
    assert np.all(device.to_numpy(gemm(a, a, alpha=-5)) == -5 * 6 * 9)


# -- matrix units -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "tile", "bound"),
    [("bf16", _TILE, 0.0), ("bf16", _WARPS, 0.0), ("f4", _WARPS | {"SPLIT": "first"}, 2**-10)],
)
def test_matrix_units_as_the_simulator_runs_them(
    kind: str, tile: dict[str, Any], bound: float, request: pytest.FixtureRequest
) -> None:
    wanted = request.getfixturevalue("bf16") if kind == "bf16" else kind
    a, b = normal((72, 264), wanted, 0), normal((264, 64), wanted, 1)
    out = np.full((72, 64), np.nan, wanted)
    launcher, constants, *_ = tiles_launch(tile, out.shape, {"ACC": kl.f32, "ACTIVATION": keep})
    with portable.use("simulator:h200"):
        launcher(1.0, a, b, 0.0, None, None, out, **constants)
    assert_right(out, a, b, tolerance(264, out.dtype) + bound)
    if bound:  # rounded they are
        assert abs(out - a.astype(np.float64) @ b).max() > 1e-4


def tiles_program(
    matrices: tuple[ArraySpec, ...], constants: dict[str, Any], target: Capabilities
) -> Program:
    """What `gemm_tiles` of `_TILE`'s work-items becomes for a, b and out of such layouts."""
    left, right, out = matrices
    scalar, none = ScalarSpec("float"), StaticSpec(None)
    specs = (scalar, left, right, scalar, none, none, out)
    workgroup = (constants["TILING"].warp_specialised * 192 + 64, 1, 1)
    wanted = Specialisation(specs, tuple(constants.items()), workgroup, False, True, Options())
    return generate(translate(gemm_tiles.python, wanted, target), target)


@pytest.mark.parametrize(
    ("kind", "word"),
    [(float8_e4m3fn, "f32.e4m3.e4m3"), (float8_e5m2, "f32.e5m2.e5m2"), (int8, "s32.s8.s8")],
)
def test_sources_for_bytes_compile(kind: DType, word: str) -> None:
    total = kind.register
    constants = {"ACC": total, "ACTIVATION": keep}
    constants = tiles_launch(_TILE | {"BK": 128}, (1, 1), constants).constants
    rows = ArraySpec(kind, ("any", "unit"), aligned=True, boxed=True)
    columns = replace(rows, strides=("unit", "any"))
    out = ArraySpec(total, ("any", "unit"), aligned=True)
    program = tiles_program((rows, columns, out), constants, HOPPER)
    assert f"m64n64k32.{word}" in program.source
    if cuda_missing():
        pytest.skip(str(cuda_missing()))
    compile_cuda(program, "sm_90a")


@pytest.mark.parametrize(
    ("kind", "tile", "word"),
    [
        (bfloat16, _TILE, "f32.bf16.bf16"),
        (bfloat16, _WARPS, "mma.sync.aligned.m16n8k16.row.col.f32.bf16"),
        (float32, _WARPS | {"SPLIT": "first"}, "m16n8k8.row.col.f32.tf32"),
    ],
)
@pytest.mark.parametrize("target", [HOPPER, HIP], ids=lambda target: target.dialect)
def test_sources_compile(kind: Any, tile: dict[str, Any], word: str, target: Capabilities) -> None:
    if target is HIP and tile is _TILE:
        pytest.skip("what has no such units multiplies by itself: the next case")
    missing = cuda_missing() if target is HOPPER else hip_missing()
    if missing:
        pytest.skip(str(missing))
    constants = tiles_launch(tile, (1, 1), {"ACC": kl.f32, "ACTIVATION": keep}).constants
    matrix = ArraySpec(kind, ("any", "unit"), aligned=True, boxed=True)
    program = tiles_program((matrix, matrix, matrix), constants, target)
    assert (word in program.source) == (target is HOPPER)
    if target is HOPPER:
        compile_cuda(program, "sm_90a")
    else:
        compile_hip(program)
