"""The language's own elementary functions: their errors, special cases, the same bits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import mpmath as mp
import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.dtypes import float16, float32, float64
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.elementwise import FUNCTIONS
from portable.lang.ir.facts import Facts
from portable.lang.ir.types import Vector
from portable.lang.ir.walks import all_expressions, all_statements
from portable.lang.library.elementary import ELEMENTARY, coefficients
from portable.lang.passes.bindings import Bindings
from portable.lang.passes.functions import lower_functions
from tests.support import irbuilder as ir
from tests.support import minimax
from tests.support.capabilities import made_up
from tests.support.elementary import OWN, own_functions
from tests.support.launch import run

Array = np.ndarray[Any, Any]

UNARY: Final = [name for name in ELEMENTARY if FUNCTIONS[name].arity == 1]
BINARY: Final = [name for name in ELEMENTARY if FUNCTIONS[name].arity == 2]
_THINNED: Final = 4099
_BITS: Final = {np.dtype(np.float32): np.uint32, np.dtype(np.float64): np.uint64}
_ENDS: Final = np.array([
    0, math.inf, math.nan, 1, 0.5, 0.75, 1.5, 2, 2.5, 3, 4, 10, 0.1, 1e-3, 100, 127, 128, 709.5,
    745, 2.0**-149, 2.0**-126, 3.4028234663852886e38, 2.0**24 - 1, 2.0**24, math.pi / 2, math.pi,
])  # fmt: skip
_LARGEST: Final = 1.7976931348623157e308
_WIDE_ENDS: Final = np.array([5e-324, 2.0**-1022, 1.7976931348623157e308, 2.0**53 - 1, 2.0**53])


@pt.kernel(contract=False)
def of_one(x, out, *, FUNCTION):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = FUNCTION(x[i])


@pt.kernel(contract=False)
def of_two(x, y, out, *, FUNCTION):
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = FUNCTION(x[i], y[i])


def _own(device: Device, name: str, *operands: Array) -> Array:
    kernel = of_one if len(operands) == 1 else of_two
    out = np.zeros_like(operands[0])
    launcher = kernel[len(out), 64]
    return run(device, launcher, *operands, out, FUNCTION=ELEMENTARY[name])[-1]


def _exact(name: str, *operands: Array) -> Array:
    """As long numbers as there are; NumPy's."""
    with np.errstate(all="ignore"):
        if name == "rsqrt":
            return 1 / np.sqrt(operands[0])
        found: Array = FUNCTIONS[name].numpy(*operands)
        return found


def _ulps(found: Array, exact: Array) -> Array:
    """How far off numbers are, in units in the last place; infinite where they are wrong."""
    kind = found.dtype
    with np.errstate(all="ignore"):
        rounded = exact.astype(kind)
        unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(kind).max)).astype(exact.dtype)
        off = np.abs(found.astype(exact.dtype) - exact) / unit
        same = (found == rounded) | (np.isnan(found) & np.isnan(exact))
        off = np.where(np.isfinite(off), off, np.where(same, 0.0, np.inf))
        wrong_zero = (found == 0) & (np.signbit(found) != np.signbit(exact))
        return np.where(wrong_zero, np.inf, off)


def _assert_within(name: str, bound: float, found: Array, exact: Array, *operands: Array) -> None:
    off = _ulps(found, exact)
    worst = int(np.argmax(off))
    given = ", ".join(repr(x[worst]) for x in operands)
    message = f"{name}({given}) gives {found[worst]!r}, not {exact[worst]!r}"
    assert off[worst] <= bound, f"{message}: {off[worst]:.2f} ulp off, {bound} are allowed"


def _some_of_all(device: Device) -> Array:
    """Thinned bit patterns of single precision, and what is special."""
    step = 16 * _THINNED if device.interprets else _THINNED
    patterns = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        ends = np.concatenate([_ENDS, -_ENDS]).astype(np.float32)
        near = np.nextafter(ends, np.float32(np.inf))
    hard = np.array(
        [1.2614587862244266e38, 16367173 * 2.0**72], np.float32
    )  # near pi / 2's multiples
    return np.concatenate([patterns, ends, near, hard])


@pytest.mark.needs_float64
@pytest.mark.parametrize("name", UNARY)
def test_single_precision_keeps_to_the_bounds(name: str, device: Device) -> None:
    if not (device.capabilities.subnormals32 and device.capabilities.rounded_division32):
        pytest.skip("the device rounds single precision otherwise")
    x = _some_of_all(device)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    found, exact = _own(device, name, x), _exact(name, wide)
    _assert_within(name, FUNCTIONS[name].ulp32, found, exact, x)


def _doubles(name: str, count: int) -> Array:
    generator = np.random.default_rng(len(name) + 97)
    any_size = np.ldexp(generator.uniform(1, 2, count), generator.integers(-1074, 1024, count))
    usual = np.ldexp(generator.uniform(1, 2, count), generator.integers(-30, 11, count))
    near_1 = 1 + np.ldexp(generator.uniform(-1, 1, count), generator.integers(-52, 0, count))
    found = [any_size, usual, near_1, generator.uniform(0, 3, count), _ENDS, _WIDE_ENDS]
    if name in ("sin", "cos", "tan"):
        found.append(_near_quarters())
    x = np.concatenate(found)
    return np.concatenate([x, -x])


def _near_quarters() -> Array:
    """Doubles as near to multiples of pi / 2 as there are, of all sizes, by continued fractions."""
    made = [math.pi / 2 * 2.0**20, 6381956970095103 * 2.0**797]  # the nearest of all
    with mp.workprec(1300):
        for exponent in range(0, 960, 16):
            ratio = mp.mpf(2) ** exponent * 2 / mp.pi
            before, denominator = 0, 1
            left = ratio
            for _ in range(200):
                left = 1 / (left - mp.floor(left))
                before, denominator = denominator, int(mp.floor(left)) * denominator + before
                if denominator >= 2**53:
                    break
                made.append(math.ldexp(denominator, exponent))
    return np.array(made)


def _by_mpmath(name: str) -> Callable[[float], Any]:
    special = {
        "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        "exp2": lambda x: mp.mpf(2) ** x,
        "log2": lambda x: mp.log(x, 2),
        "rsqrt": lambda x: 1 / mp.sqrt(x),
    }
    return special.get(name) or getattr(mp, name)


@pytest.mark.needs_float64
@pytest.mark.parametrize("name", UNARY)
def test_double_precision_keeps_to_the_bounds(name: str, device: Device) -> None:
    x, exact = _exact_doubles(name)
    found = _own(device, name, x)
    with mp.workprec(160), np.errstate(invalid="ignore"):
        off = [
            _ulps(one[None], np.array([float(number)]))[0]
            if number == 0 or not mp.isfinite(number) or abs(number) > _LARGEST
            else abs(mp.mpf(float(one)) - number) / float(np.spacing(abs(float(number))))
            for one, number in zip(found, exact, strict=True)
        ]
    worst = max(range(len(off)), key=off.__getitem__)
    assert off[worst] <= FUNCTIONS[name].ulp64, (x[worst], found[worst], off[worst])


@functools.cache
def _exact_doubles(name: str) -> tuple[Array, list[Any]]:
    """Arguments, and the function of each to many digits; NumPy's where there is no such number."""
    x = _doubles(name, 120)
    rough, function = _exact(name, x), _by_mpmath(name)
    with mp.workprec(1400 if name in ("sin", "cos", "tan") else 200):
        return x, [
            function(mp.mpf(value)) if math.isfinite(about) and value != 0 else about
            for value, about in zip(x.tolist(), rough.tolist(), strict=True)
        ]


def _pairs(kind: str) -> tuple[Array, Array]:
    ends = np.concatenate([_ENDS, -_ENDS, *([_WIDE_ENDS, -_WIDE_ENDS] if kind == "f8" else [])])
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    generator = np.random.default_rng(4)
    lowest, highest = (-1074, 1024) if kind == "f8" else (-149, 128)
    any_size = [
        np.ldexp(generator.uniform(-2, 2, 3000), generator.integers(lowest, highest - 1, 3000))
        for _ in range(2)
    ]
    usual = [
        np.ldexp(generator.uniform(-2, 2, 3000), generator.integers(-9, 9, 3000)) for _ in "xy"
    ]
    parts = zip((x, y), any_size, usual, strict=True)
    with np.errstate(all="ignore"):
        first, second = (np.concatenate(part).astype(kind) for part in parts)
    return first, second


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_keep_to_the_bounds(name: str, kind: str, device: Device) -> None:
    x, y = _pairs(kind)
    found = _own(device, name, x, y)
    wide = np.float64 if kind == "f4" else np.longdouble
    with np.errstate(invalid="ignore"):
        widened = x.astype(wide), y.astype(wide)
    exact = _exact(name, *((x, y) if name == "nextafter" else widened))
    _assert_within(name, FUNCTIONS[name].ulp32, found, exact, x, y)


@pytest.mark.needs_float64
def test_powers_near_the_ends_of_the_range(device: Device) -> None:
    generator = np.random.default_rng(8)
    x = np.exp2(generator.uniform(-3, 3, 300))
    y = generator.uniform(-1070, 1023, 300) / np.log2(x)
    found = _own(device, "pow", x, y)
    with mp.workprec(200):
        exact = [
            mp.power(mp.mpf(a), mp.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)
        ]
        units = np.spacing(found)
        off = [abs(mp.mpf(f) - r) / u for f, r, u in zip(found.tolist(), exact, units, strict=True)]
    assert max(off) <= 6


@pytest.mark.needs_float64
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_remainders_are_exact(kind: str, device: Device) -> None:
    x, y = _pairs(kind)
    expected = _exact("fmod", x, y)
    np.testing.assert_array_equal(_own(device, "fmod", x, y), expected)


# -- in the place of calls ----------------------------------------------------------------------


@pt.kernel(contract=False)
def called(x, y, out):
    i = kl.global_id(0)
    if i < x.shape[0]:
        v, w = x[i], y[i]
        out[0, i] = kl.exp(v) * kl.tanh(w)
        out[1, i] = kl.sin(v) + kl.cos(w) * kl.tan(v)
        out[2, i] = kl.pow(kl.abs(v), w)
        out[3, i] = kl.log(kl.abs(v)) - kl.atan2(v, w)
        out[4, i] = kl.fmod(v, w)


@pt.kernel(contract=False)
def called_on_vectors(x, y, out):
    i = 8 * kl.global_id(0)
    v, w = kl.vload(x, i, lanes=8), kl.vload(y, i, lanes=8)
    kl.vstore(out, 0, i, kl.exp(v) * kl.tanh(w))
    kl.vstore(out, 1, i, kl.sin(v) + kl.cos(w) * kl.tan(v))
    kl.vstore(out, 2, i, kl.pow(kl.abs(v), w))
    kl.vstore(out, 3, i, kl.log(kl.abs(v)) - kl.atan2(v, w))
    kl.vstore(out, 4, i, kl.fmod(v, w))


@pt.kernel
def may_contract(x, out):
    i = kl.global_id(0)
    out[0, i] = kl.sin(x[i])
    out[1, i] = kl.expm1(x[i])
    out[2, i] = kl.log1p(kl.abs(x[i]))


def _given(kind: str) -> tuple[Array, Array]:
    generator = np.random.default_rng(12)
    x = np.ldexp(generator.uniform(-2, 2, 256), generator.integers(-20, 90, 256)).astype(kind)
    x[:8] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e30]
    return x, generator.uniform(-3, 3, 256).astype(kind)


def _as_bits(x: Array) -> Array:
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x).view(_BITS[x.dtype])


def _processors() -> list[Device]:
    names = ("cpu:native", "opencl:intel", "opencl:pocl", "cpu:intel", "cpu:pocl")
    found = [registry.device(x.name) for x in registry.devices() if x.name in names]
    return found or pytest.skip("no device compiles for processors here")


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("kernel", [called, called_on_vectors])
def test_processors_and_the_simulator_agree_in_every_bit(kernel: Any, kind: str) -> None:
    x, y = _given(kind)
    items = len(x) // (1 if kernel is called else 8)
    with own_functions():
        found = [
            run(device, kernel[items, 32], x, y, np.zeros((5, len(x)), kind))[-1]
            for device in (pt.device("simulator"), *_processors())
        ]
        alone = run(pt.device("simulator"), called[len(x), 32], x, y, np.zeros((5, len(x)), kind))[
            -1
        ]
    for other in (alone, *found[1:]):
        np.testing.assert_array_equal(_as_bits(found[0]), _as_bits(other))


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_contraction_plays_no_part(kind: str) -> None:
    natives = [x for x in registry.devices() if x.name == "cpu:native"]
    if not natives:
        pytest.skip("LLVM is not here")
    x, _ = _given(kind)
    out = np.zeros((3, len(x)), kind)
    (_, found) = run(pt.device("cpu:native"), may_contract[len(x), 32], x, out)
    with own_functions():
        (_, expected) = run(pt.device("simulator"), may_contract[len(x), 32], x, out)
    np.testing.assert_array_equal(_as_bits(found), _as_bits(expected))


def _lowered(name: str, kind: Any) -> tuple[s.Block, tuple[e.Variable, ...]]:
    given = tuple(ir.var(f"x{i}", kind) for i in range(FUNCTIONS[name].arity))
    body = [s.Let(ir.var("out", kind), e.Call(name, given, kind), ir.LOC)]
    kernel = ir.kernel(given, body)
    kernel = lower_functions(kernel, made_up(), OWN, Bindings(Facts(kernel)))
    return kernel.body, kernel.variables


@pytest.mark.parametrize(
    "kind", [float16, float32, float64, Vector(float32, 16), Vector(float16, 32)]
)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_no_call_is_left_and_everything_is_exact(name: str, kind: Any) -> None:
    body, variables = _lowered(name, kind)
    assert len(set(variables)) == len(variables)
    for x in all_expressions(body):
        if isinstance(x, e.Call):
            assert x.function in (OWN.functions or ())
        if isinstance(x, e.Binary) and x.op in ("add", "sub", "mul", "div"):
            scalar = x.type.dtype if isinstance(x.type, Vector) else x.type
            assert x.exact == scalar.is_float
    bound = [var for x in all_statements(body) for var in x.binds()]
    assert len(set(bound)) == len(bound)


def test_an_exponential_is_short_and_without_branches() -> None:
    body, variables = _lowered("exp", Vector(float32, 16))
    assert len(body) <= 40
    assert not variables
    assert all(isinstance(x, s.Let) for x in body)


def test_other_languages_keep_their_functions() -> None:
    if not registry.devices_of_backend("opencl"):
        pytest.skip("no OpenCL driver was found")
    text = str(
        kl.source(called[64, 32], *_given("f4"), np.zeros((5, 64), np.float32), device="opencl")
    )
    assert "atan2(" in text


@pt.kernel(native_half=True)
def halves(x, out):
    i = kl.global_id(0)
    out[i] = kl.exp(x[i])


@pytest.mark.needs_native_half
def test_half_precision_is_rounded_once(device: Device) -> None:
    x = np.linspace(-9, 9, 512).astype(np.float16)
    with own_functions():
        _, found = run(device, halves[len(x), 64], x, np.zeros_like(x))
    exact = np.exp(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_array_equal(found, exact)


# -- coefficients -------------------------------------------------------------------------------


def test_coefficients_are_those_that_are_made() -> None:
    made: dict[str, Any] = {}
    exec(minimax.text(), made)
    names = [name for name, x in vars(coefficients).items() if isinstance(x, tuple)]
    assert len(names) > 20
    for name in names:
        assert made[name] == getattr(coefficients, name), name


@pytest.mark.parametrize("place", range(len(minimax.POLYNOMIALS)))
def test_polynomials_are_finer_than_rounding(place: int) -> None:
    sought = minimax.POLYNOMIALS[place]
    for count, kind, limit in zip(
        sought.counts, (np.float32, np.float64), (2**-24, 2**-37), strict=True
    ):
        if count:
            assert minimax.fit(sought, count, kind).error < limit
