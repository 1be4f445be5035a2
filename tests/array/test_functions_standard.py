"""Functions with parameters against array-api-strict, on random shapes, strides and options."""

from __future__ import annotations

import warnings
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import portable
import portable.array as xp
from portable.backend import Device

QUICK = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
DTYPES = {
    "b": ["bool"],
    "i": ["int8", "int16", "int32", "int64"],
    "u": ["uint8", "uint16", "uint32", "uint64"],
    "f": ["float32", "float64"],
    "c": ["complex64", "complex128"],
}
REFUSALS = (TypeError, ValueError, IndexError)


def made(data: Any, kinds: str, shapes: Any = SHAPES) -> tuple[Any, Any]:
    """A random array, and how to index it for odd strides."""
    shape = data.draw(shapes)
    dtype = data.draw(st.sampled_from([name for kind in kinds for name in DTYPES[kind]]))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in shape)
    full = tuple(n * abs(s.step) for n, s in zip(shape, steps, strict=True))
    numbers = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-4, 5, full)
    if dtype.startswith("complex"):
        return (numbers + 1j * np.roll(numbers, 1)).astype(dtype), steps
    base = numbers.astype(dtype)  # unsigned integers wrap
    if dtype.startswith("float") and data.draw(st.booleans()):
        base[numbers == 4] = np.nan
        base[numbers == 3] = -0.0
    return base, steps


def axis_of(data: Any, ndim: int, *, several: bool) -> Any:
    """None, an axis, or (`several`) a tuple of them; sometimes one that does not exist.

    NumPy takes axis 0 of arrays without dimensions, so there it is None.
    """
    if not ndim:
        return None
    one = st.integers(-ndim, ndim)
    choices = [st.none(), one]
    if several:
        choices.append(st.lists(one, max_size=ndim, unique=True).map(tuple))
    return data.draw(st.one_of(choices))


def run(function: Any, *args: Any, **options: Any) -> Any:
    """The results, or the kind of refusal."""
    try:
        with warnings.catch_warnings(action="ignore"):
            found = function(*args, **options)
    except REFUSALS as error:
        return error
    return found


def check(mine: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    if isinstance(theirs, Exception):
        assert isinstance(mine, Exception), f"{theirs!r} was expected, not {mine!r}"
        return
    assert not isinstance(mine, Exception), f"raised {mine!r}"
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            check(one, other, tolerance)
        return
    got, want = portable.to_numpy(mine), np.asarray(theirs)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, want)


def both(name: str, ours: Device, operands: Any, **options: Any) -> tuple[Any, Any]:
    """The function on arrays (given with the index of a part), in both libraries."""
    views = [ours.from_numpy(base)[index] for base, index in operands]
    parts = [strict.asarray(base[index].copy()) for base, index in operands]
    mine, theirs = xp, strict
    for part in name.split("."):
        mine, theirs = getattr(mine, part), getattr(theirs, part)
    return run(mine, *views, **options), run(theirs, *parts, **options)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all",
                                  "count_nonzero"])  # fmt: skip
@QUICK
@given(data=st.data())
def test_reductions(simulated: Device, name: str, data: Any) -> None:
    x = made(data, "f" if name in ("std", "var") else "iufcb")
    options: dict[str, Any] = {
        "axis": axis_of(data, x[0].ndim, several=True),
        "keepdims": data.draw(st.booleans()),
    }
    if name in ("std", "var"):
        options["correction"] = data.draw(st.sampled_from([0, 1, 0.5]))
    if name == "mean" and x[0].dtype.kind not in "fc":
        return
    if name in ("max", "min") and 0 in x[0].shape:
        options["axis"] = None
    mine, theirs = both(name, simulated, [x], **options)
    if x[0].dtype.kind == "b" and name in ("sum", "prod"):  # refused there; ours count, as NumPy
        theirs = run(getattr(strict, name), strict.asarray(x[0][x[1]].astype(int)), **options)
    check(mine, theirs)


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "float32", "float64", "complex128"])
def test_dtype_of_sums(simulated: Device, name: str, dtype: str) -> None:
    for given_ in ("int8", "uint32", "float32", "complex64"):
        if np.dtype(given_).kind in "fc" and np.dtype(dtype).kind in "iu":
            continue
        if given_ == "complex64" and dtype != "complex128":
            continue
        a = np.array([[1, 2, 3], [4, 5, 6]], given_)
        mine = getattr(xp, name)(simulated.from_numpy(a), axis=1, dtype=getattr(xp, dtype))
        check(mine, getattr(strict, name)(strict.asarray(a), axis=1, dtype=getattr(strict, dtype)))


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@QUICK
@given(data=st.data())
def test_running_totals(simulated: Device, name: str, data: Any) -> None:
    x = made(data, "iufc")
    options = {
        "axis": axis_of(data, x[0].ndim, several=False),
        "include_initial": data.draw(st.booleans()),
    }
    if not x[0].ndim:
        return  # open in the standard
    check(*both(name, simulated, [x], **options), 1e-4)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@QUICK
@given(data=st.data())
def test_positions(simulated: Device, name: str, data: Any) -> None:
    x = made(data, "iuf", hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    axis = axis_of(data, x[0].ndim, several=False)
    check(*both(name, simulated, [x], axis=axis, keepdims=data.draw(st.booleans())))


@pytest.mark.parametrize("name", ["sort", "argsort"])
@QUICK
@given(data=st.data())
def test_sorting(simulated: Device, name: str, data: Any) -> None:
    x = made(data, "iuf", hnp.array_shapes(min_dims=1, max_dims=2, max_side=40))
    if x[0].dtype.kind == "f" and np.isnan(x[0]).any():
        return  # where NaN goes is open; see test_nan_sorts_last
    options = {
        "axis": data.draw(st.integers(-x[0].ndim, x[0].ndim - 1)),
        "descending": data.draw(st.booleans()),
        "stable": True,
    }
    check(*both(name, simulated, [x], **options))


@pytest.mark.parametrize("name", ["unique_values", "unique_counts", "unique_inverse", "unique_all"])
@QUICK
@given(data=st.data())
def test_sets(simulated: Device, name: str, data: Any) -> None:
    base, index = made(data, "biuf")
    if base.dtype.kind == "f":  # each NaN is one of a kind, in an order that is open
        base = np.nan_to_num(base)
    check(*both(name, simulated, [(base, index)]))


@QUICK
@given(data=st.data())
def test_searchsorted(simulated: Device, data: Any) -> None:
    lines = hnp.array_shapes(min_dims=1, max_dims=1, max_side=20)
    dtype = data.draw(st.sampled_from([*DTYPES["i"], *DTYPES["u"], *DTYPES["f"]]))
    table = np.random.default_rng(0).integers(0, 9, data.draw(lines)).astype(dtype)
    values = np.random.default_rng(1).integers(0, 9, data.draw(SHAPES)).astype(dtype)
    side = data.draw(st.sampled_from(["left", "right"]))
    order = np.argsort(table, stable=True) if data.draw(st.booleans()) else None
    if order is None:
        table.sort()
    sorter = None if order is None else simulated.from_numpy(order)
    operands = [simulated.from_numpy(v) for v in (table, values)]
    found = xp.searchsorted(*operands, side=side, sorter=sorter)
    check(found, np.searchsorted(table, values, side=side, sorter=order))


@QUICK
@given(data=st.data())
def test_where(simulated: Device, data: Any) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3))
    same_kind = st.sampled_from(DTYPES[data.draw(st.sampled_from("biufc"))])
    dtypes = ["bool", data.draw(same_kind), data.draw(same_kind)]
    rng = np.random.default_rng(0)
    condition, x, y = [
        (rng.integers(0, 2, shape).astype(dtype), ...)
        for shape, dtype in zip(shapes.input_shapes, dtypes, strict=True)
    ]
    check(*both("where", simulated, [condition, x, y]))


@QUICK
@given(data=st.data())
def test_clip(simulated: Device, data: Any) -> None:
    base, index = made(data, "iuf", hnp.array_shapes(min_dims=1, max_dims=2, max_side=5))
    x = base[index]
    ends: list[Any] = []
    for low in (0, 2):
        number = low + data.draw(st.integers(0, 2))
        array = np.full(data.draw(st.sampled_from([x.shape, x.shape[-1:], ()])), number, x.dtype)
        ends.append(data.draw(st.sampled_from([None, number, array])))
    mine = [simulated.from_numpy(e) if isinstance(e, np.ndarray) else e for e in ends]
    theirs = [strict.asarray(e) if isinstance(e, np.ndarray) else e for e in ends]
    found = xp.clip(simulated.from_numpy(base)[index], *mine)
    check(found, strict.clip(strict.asarray(x.copy()), *theirs))


@QUICK
@given(data=st.data())
def test_repeats_of_each(simulated: Device, data: Any) -> None:
    base, index = made(data, "bif")
    x = base[index]
    axis = axis_of(data, x.ndim, several=False)
    if axis == x.ndim and x.ndim:
        return  # no such axis: see test_manipulation
    extent = x.size if axis is None else x.shape[axis]
    shape = data.draw(st.sampled_from([(1,), (extent,)]))
    dtype = data.draw(st.sampled_from([*DTYPES["i"], *DTYPES["u"]]))
    counts = np.random.default_rng(0).integers(0, 4, shape).astype(dtype)
    found = xp.repeat(simulated.from_numpy(base)[index], simulated.from_numpy(counts), axis=axis)
    check(found, np.repeat(x, counts.astype(int), axis=axis))


@QUICK
@given(data=st.data())
def test_take(simulated: Device, data: Any) -> None:
    base, index = made(data, "bufc", hnp.array_shapes(min_dims=1, max_dims=3, max_side=5))
    x = base[index]
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    extent = x.shape[axis]
    places = data.draw(st.lists(st.integers(-extent, extent - 1), max_size=7))
    dtype = data.draw(st.sampled_from(DTYPES["i"] if min(places, default=0) < 0 else DTYPES["u"]))
    found = xp.take(
        simulated.from_numpy(base)[index], simulated.from_numpy(np.array(places, dtype)), axis=axis
    )
    check(found, np.take(x, np.array(places, int), axis=axis))


@QUICK
@given(data=st.data())
def test_diff(simulated: Device, data: Any) -> None:
    x = made(data, "if", hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6))
    axis = data.draw(st.integers(-x[0].ndim, x[0].ndim - 1))
    check(*both("diff", simulated, [x], axis=axis, n=data.draw(st.integers(0, 3))))


@pytest.mark.parametrize("name", ["flip", "roll", "repeat", "tile", "expand_dims", "squeeze",
                                  "unstack", "permute_dims", "moveaxis", "nonzero", "tril",
                                  "triu", "reshape"])  # fmt: skip
@QUICK
@given(data=st.data())
def test_manipulation(simulated: Device, name: str, data: Any) -> None:
    x = made(data, "bif")
    part = x[0][x[1]]
    ndim = part.ndim
    axis = data.draw(st.integers(-ndim - 1, ndim)) if ndim else 1
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    if name == "flip":
        options["axis"] = axis_of(data, ndim, several=True)
    elif name == "roll":
        args = (data.draw(st.integers(-9, 9)),)
        options["axis"] = axis_of(data, ndim, several=False)
    elif name == "repeat":
        args = (data.draw(st.integers(0, 3)),)
        options["axis"] = axis_of(data, ndim, several=False)
    elif name == "tile":
        args = (data.draw(st.lists(st.integers(0, 2), max_size=4).map(tuple)),)
    elif name in ("expand_dims", "squeeze", "unstack"):
        options["axis"] = axis
    elif name == "permute_dims":
        args = (tuple(data.draw(st.permutations(range(ndim)))),)
    elif name == "moveaxis":
        args = (axis, data.draw(st.integers(-ndim - 1, ndim)))
    elif name in ("tril", "triu"):
        options["k"] = data.draw(st.integers(-3, 3))
    elif name == "reshape":
        args = (data.draw(st.sampled_from([(-1,), (part.size,), (1, part.size), (2, -1), (3,)])),)
    mine = run(getattr(xp, name), simulated.from_numpy(x[0])[x[1]], *args, **options)
    theirs = run(getattr(strict, name), strict.asarray(part.copy()), *args, **options)
    check(mine, theirs)


@pytest.mark.parametrize("name", ["concat", "stack", "broadcast_arrays", "meshgrid"])
@QUICK
@given(data=st.data())
def test_joining(simulated: Device, name: str, data: Any) -> None:
    shapes = data.draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3))
    a, b = (np.random.default_rng(0).integers(0, 9, s).astype("int32") for s in shapes.input_shapes)
    if name != "meshgrid" and data.draw(st.booleans()):
        b = a.astype("int8")
    mine, theirs = [simulated.from_numpy(v) for v in (a, b)], [strict.asarray(v) for v in (a, b)]
    axis = data.draw(st.integers(-3, 3))
    if name in ("concat", "stack"):
        if name == "stack" and a.dtype != b.dtype and a.shape == b.shape:
            axis = 0
        check(
            run(getattr(xp, name), mine, axis=axis), run(getattr(strict, name), theirs, axis=axis)
        )
        return
    if name == "meshgrid" and (a.ndim != 1 or b.ndim != 1):
        return
    options = {"indexing": data.draw(st.sampled_from(["xy", "ij"]))} if name == "meshgrid" else {}
    check(run(getattr(xp, name), *mine, **options), run(getattr(strict, name), *theirs, **options))


@pytest.mark.parametrize("name", ["matmul", "vecdot", "tensordot", "linalg.outer", "linalg.cross"])
@pytest.mark.parametrize("dtype", ["int32", "float64", "complex128"])
@pytest.mark.parametrize(
    ("first", "second"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 2)),
     ((2, 1, 2, 3), (4, 3, 2)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((2, 3), (2, 3)), ((), (3,))],
    ids=str,
)  # fmt: skip
def test_products(simulated: Device, name: str, dtype: str, first: Any, second: Any) -> None:
    rng = np.random.default_rng(0)
    operands = [(rng.integers(-3, 4, s).astype(dtype), ...) for s in (first, second)]
    options: dict[str, Any] = {}
    if name == "linalg.cross" and (first[-1:] != (3,) or second[-1:] != (3,)):
        pytest.skip("the vectors have no three elements")
    if name == "tensordot":
        options["axes"] = min(1, len(first), len(second))
    check(*both(name, simulated, operands, **options))


SQUARE = np.array([[4.0, 1, 2], [1, 5, 3], [2, 3, 6]])
LINALG: list[tuple[str, dict[str, Any]]] = [
    ("cholesky", {}), ("cholesky", {"upper": True}), ("det", {}), ("eigvalsh", {}), ("inv", {}),
    ("slogdet", {}), ("svdvals", {}), ("matrix_rank", {}), ("matrix_rank", {"rtol": 0.3}),
    ("pinv", {}), ("trace", {}), ("trace", {"offset": 1}), ("trace", {"offset": -2}),
    ("diagonal", {"offset": 1}), ("diagonal", {"offset": -5}), ("matrix_transpose", {}),
    *[("matrix_norm", {"ord": o}) for o in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    ("matrix_norm", {"keepdims": True}),
    *[("vector_norm", {"ord": o, "axis": -1}) for o in (0, 1, 2, 3, -1, -2, 0.5, np.inf, -np.inf)],
    ("vector_norm", {}), ("vector_norm", {"keepdims": True}), ("vector_norm", {"axis": (0, 1)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), LINALG, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_linalg(simulated: Device, name: str, options: dict[str, Any], dtype: str) -> None:
    a = np.stack([SQUARE, SQUARE + 2 * np.eye(3)]).astype(dtype)
    check(*both(f"linalg.{name}", simulated, [(a, ...)], **options))


def test_decompositions(simulated: Device) -> None:
    a = np.stack([SQUARE, SQUARE[::-1]])
    x = simulated.from_numpy(a)
    q, r = xp.linalg.qr(x)
    check(q @ r, a, 1e-9)
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    check((u * s[:, None, :]) @ vh, a, 1e-9)
    values, vectors = xp.linalg.eigh(x[:1])
    check(x[:1] @ vectors, portable.to_numpy(vectors * values[:, None, :]), 1e-9)
    check(x @ xp.linalg.solve(x, x[..., 0, :, None]), a[..., 0, :, None], 1e-9)


FFT = [
    *[(n, {}) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn")],
    *[(n, {"norm": w}) for n in ("fft", "irfft") for w in ("ortho", "forward", "backward")],
    *[(n, {"n": k, "axis": 0}) for n in ("fft", "rfft", "irfft", "hfft") for k in (3, 8)],
    ("fftn", {"s": (2, 3), "axes": (0, 1)}), ("rfftn", {"axes": (0,)}), ("irfftn", {}),
    ("rfftn", {}), ("fftshift", {}), ("ifftshift", {"axes": (1,)}), ("fftshift", {"axes": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), FFT, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "complex128"])
def test_fft(simulated: Device, name: str, options: dict[str, Any], dtype: str) -> None:
    real = name in ("rfft", "rfftn", "ihfft")
    if real == (np.dtype(dtype).kind == "c") and "shift" not in name:
        pytest.skip("the transform is of other numbers")
    a = np.random.default_rng(0).standard_normal((4, 5)).astype(dtype)
    check(
        *both(f"fft.{name}", simulated, [(a, ...)], **options), 1e-4 if "64" not in dtype else 1e-6
    )


CREATION: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("arange", (5,), {}), ("arange", (2, 9, 3), {}), ("arange", (9, 2, -3), {}),
    ("arange", (0.5, 3), {}), ("arange", (3, 0), {}), ("arange", (1, 2, 0.25), {}),
    ("arange", (4,), {"dtype": "float32"}), ("arange", (4,), {"dtype": "uint8"}),
    ("linspace", (0, 1, 5), {}), ("linspace", (0, 1, 5), {"endpoint": False}),
    ("linspace", (1, 1, 1), {}), ("linspace", (0, 1, 0), {}), ("linspace", (3, -3, 7), {}),
    ("linspace", (0, 1 + 1j, 3), {}), ("linspace", (0, 10, 11), {"dtype": "float32"}),
    ("eye", (3,), {}), ("eye", (2, 4), {"k": 1}), ("eye", (4, 2), {"k": -2}), ("eye", (0,), {}),
    ("eye", (3,), {"dtype": "bool"}), ("eye", (3, 3), {"k": 7}),
    ("full", ((2, 2), 3), {}), ("full", ((), 1.5), {}), ("full", (2, True), {}),
    ("full", ((2,), 1j), {}), ("full", (3, 2), {"dtype": "float32"}),
    ("zeros", ((0, 2),), {}), ("ones", (3,), {"dtype": "complex64"}), ("zeros", ((),), {}),
    ("asarray", ([[1, 2], [3, 4]],), {}), ("asarray", ([1.5, 2],), {"dtype": "float32"}),
    ("asarray", (True,), {}), ("asarray", ([1, 2j],), {}), ("asarray", ([],), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "options"), CREATION, ids=str)
def test_creation(simulated: Device, name: str, args: Any, options: dict[str, Any]) -> None:
    mine = {k: getattr(xp, v) if k == "dtype" else v for k, v in options.items()}
    theirs = {k: getattr(strict, v) if k == "dtype" else v for k, v in options.items()}
    check(
        run(getattr(xp, name), *args, **mine, device=simulated),
        run(getattr(strict, name), *args, **theirs),
    )
