"""Gradients through functions of arrays, decompositions and convolutions, beside differences."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import conv, linalg, primitives
from portable.array.base.defaults import is_ours
from portable.backend import Device
from portable.errors import DTypeError, LaunchError, UnsupportedError

pytestmark = pytest.mark.needs_float64


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.2, 0.9, shape)


def assert_along(device: Device, program: Callable[..., Any], *args: Any) -> None:
    """The gradients of weighted sums of a program's results, along two directions."""
    rng = np.random.default_rng(8)

    def results(*given: Any) -> list[Any]:
        made = program(*(device.from_numpy(x.copy()) for x in given))
        return [device.to_numpy(x) for x in (made if isinstance(made, tuple) else (made,))]

    def loss(*given: Any) -> float:
        return sum(float((y * w).sum()) for y, w in zip(results(*given), weights, strict=True))

    weights = [rng.standard_normal(y.shape) for y in results(*args)]
    found = [np.zeros_like(x) for x in args]
    for number, weight in enumerate(weights):
        arrays = [device.from_numpy(x.copy()) for x in args]
        with pt.Tape() as tape:
            made = program(*arrays)
        end = made[number] if isinstance(made, tuple) else made
        seed = device.from_numpy(weight)
        shares = [device.to_numpy(g) for g in tape.gradient(end, arrays, seed=seed)]
        found = [a + b for a, b in zip(found, shares, strict=True)]
    for _ in range(2):
        direction = [rng.standard_normal(x.shape) for x in args]
        ends = [
            loss(*(x + by * d for x, d in zip(args, direction, strict=True)))
            for by in (1e-5, -1e-5)
        ]
        told = sum(float((g * d).sum()) for g, d in zip(found, direction, strict=True))
        scale = sum(float(np.abs(g * d).sum()) for g, d in zip(found, direction, strict=True))
        assert abs(told - (ends[0] - ends[1]) / 2e-5) <= 1e-6 * (scale + 1)


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "sum": (lambda xp, x: xp.sum(x * x, axis=1), (3, 5)),
    "max": (lambda xp, x: xp.max(x, axis=-1) ** 2, (3, 5)),
    "product with a zero": (lambda xp, x: xp.prod((x - x[:1, :1]), axis=1), (3, 4)),
    "deviation": (lambda xp, x: x.std(0), (3, 5)),
    "softmax": (
        lambda xp, x: (
            xp.exp(x - xp.max(x, axis=1, keepdims=True))
            / xp.sum(xp.exp(x - xp.max(x, axis=1, keepdims=True)), axis=1, keepdims=True)
        ),
        (3, 5),
    ),
    "reshape": (lambda xp, x: xp.reshape(x, (5, 3)) * 2, (3, 5)),
    "permuted": (lambda xp, x: xp.permute_dims(x, (2, 0, 1)) ** 2, (2, 3, 4)),
    "moved axis": (lambda xp, x: xp.moveaxis(x, 0, -1) ** 2, (2, 3, 4)),
    "rolled": (lambda xp, x: xp.roll(x, 2, axis=1) * x, (3, 4)),
    "broadcast": (lambda xp, x: xp.broadcast_to(x, (4, 3, 5)) ** 2, (3, 1)),
    "expanded": (lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=1) ** 2, axis=1), (3, 4)),
    "joined": (lambda xp, x: xp.concat([x, x * x, x[:, :1]], axis=1), (3, 4)),
    "stacked": (lambda xp, x: xp.stack([x, xp.sin(x)], axis=1), (3, 4)),
    "unstacked": (lambda xp, x: xp.unstack(x, axis=1)[1] * 3, (3, 4)),
    "repeated": (lambda xp, x: xp.repeat(x, 3, axis=1) ** 2, (3, 2)),
    "slices": (lambda xp, x: x[1:-1, ::2] * x[2:, ::2], (5, 6)),
    "integers": (lambda xp, x: x[xp.asarray([0, 2, 2, 1], device=x.device)] ** 2, (3, 4)),
    "taken": (
        lambda xp, x: xp.take(x, xp.asarray([3, 0, 3], device=x.device), axis=1) ** 2,
        (3, 4),
    ),
    "taken along": (
        lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=1)[:, :2], axis=1) ** 2,
        (3, 4),
    ),
    "sorted": (lambda xp, x: xp.sort(x, axis=0)[1:] ** 2, (3, 4)),
    "running sums": (lambda xp, x: xp.cumulative_sum(x, axis=1) ** 2, (3, 4)),
    "running sums from nought": (
        lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True) ** 2,
        (3, 4),
    ),
    "where": (lambda xp, x: xp.where(x > 0.5, x * x, 3 * x[:1, :]), (3, 4)),
    "clipped": (lambda xp, x: xp.clip(x, 0.4, 0.7) ** 2, (3, 4)),
    "row and column": (lambda xp, x: x[:, :1] * x[:1, :] + 2 * x / x[0, 0], (3, 4)),
    "product": (lambda xp, x: x @ xp.sin(x.T), (3, 4)),
    "products in a batch": (lambda xp, x: xp.matmul(x, x[0, :, 0]), (2, 3, 3)),
    "vector product": (lambda xp, x: xp.vecdot(x, x * x, axis=0), (3, 4)),
    "trace": (lambda xp, x: xp.linalg.trace(x @ x) * xp.linalg.diagonal(x), (4, 4)),
}


SCATTERED = ("rolled", "repeated", "integers", "taken", "taken along", "sorted", "trace")
"""Those whose gradients are added where indices say, by atomics as wide as the numbers."""


@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_of_arrays(device: Device, case: str) -> None:
    if device.for_arrays() is not device or not is_ours(device):
        pytest.skip("arrays of another library")
    if case in SCATTERED and not device.capabilities.atomics64:
        pytest.skip(f"{device.name} lacks 64-bit atomics")
    function, shape = FUNCTIONS[case]
    xp = device.namespace()
    assert_along(device, lambda x: function(xp, x), numbers(*shape))


def symmetric(x: Any) -> Any:
    return x + x.mT if hasattr(x, "mT") else x + x.T


def positive(x: Any) -> Any:
    xp = x.__array_namespace__()
    return x @ x.mT + 2 * xp.eye(x.shape[-1], dtype=x.dtype, device=x.device)


DECOMPOSITIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "solve": (linalg.solve, ((4, 4), (4, 2))),
    "solve a vector": (linalg.solve, ((4, 4), (4,))),
    "inverse": (linalg.inv, ((2, 3, 3),)),
    "determinant": (linalg.det, ((2, 3, 3),)),
    "logarithm of the determinant": (lambda x: linalg.slogdet(positive(x))[1], ((3, 3),)),
    "cholesky": (lambda x: linalg.cholesky(positive(x)), ((2, 4, 4),)),
    "upper cholesky": (lambda x: linalg.cholesky(positive(x), upper=True), ((4, 4),)),
    "qr": (lambda x: tuple(linalg.qr(x)), ((5, 3),)),
    "eigh": (lambda x: linalg.eigh(symmetric(x))[0], ((4, 4),)),
    "projections": (lambda x: _projection(linalg.eigh(symmetric(x))[1][:, 2:]), ((4, 4),)),
    "eigvalsh": (lambda x: linalg.eigvalsh(symmetric(x)), ((4, 4),)),
    "singular values": (linalg.svdvals, ((5, 3),)),
    "svd": (lambda x: _low_rank(*linalg.svd(x)), ((3, 5),)),
}


def _projection(v: Any) -> Any:
    """Unlike the vectors, it does not depend on their signs."""
    return v @ v.mT


def _low_rank(u: Any, values: Any, vh: Any) -> Any:
    return (u[:, :2] * values[:2] ** 2) @ vh[:2, :]


@pytest.mark.parametrize("case", DECOMPOSITIONS)
def test_decompositions(device: Device, case: str) -> None:
    if device.for_arrays() is not device or not is_ours(device):
        pytest.skip("arrays of another library")
    function, shapes = DECOMPOSITIONS[case]
    args = [np.random.default_rng(i).standard_normal(shape) for i, shape in enumerate(shapes)]
    assert_along(device, function, *args)


def test_vectors_of_equal_values_are_refused(device: Device) -> None:
    if device.for_arrays() is not device or not is_ours(device):
        pytest.skip("arrays of another library")
    xp = device.namespace()
    x = xp.eye(3, dtype=xp.float64, device=device)
    for function, message in ((linalg.eigh, "eigh"), (linalg.svd, "svd")):
        with pt.Tape() as tape:
            found = function(x)
        with pytest.raises(UnsupportedError, match=message):
            tape.gradient(
                found[0 if message == "svd" else 1], x, seed=xp.ones((3, 3), device=device)
            )


@pytest.mark.parametrize("options", [{"padding": 1, "stride": 2}, {"groups": 2}])
def test_convolutions(options: dict[str, Any]) -> None:
    assert_along(
        pt.device("cpu:native"),
        lambda x, w, b: conv.conv2d(x, w, bias=b, **options),
        numbers(1, 2, 5, 4),
        numbers(2, 2 // options.get("groups", 1), 3, 3, seed=1),
        numbers(2, seed=2),
    )


@pytest.mark.parametrize("dims", [1, 3])
def test_convolutions_of_lines_and_volumes(dims: int) -> None:
    function = {1: conv.conv1d, 3: conv.conv3d}[dims]
    assert_along(
        pt.device("cpu:native"),
        lambda x, w, b: function(x, w, bias=b, padding=1, stride=2, groups=2),
        numbers(2, 4, *(5, 6, 4)[:dims]),
        numbers(4, 2, *(2, 3, 3)[:dims], seed=1),
        numbers(4, seed=2),
    )


def test_order(device: Device) -> None:
    assert_along(device, lambda x: primitives.sort(x, axis=0, descending=True), numbers(5, 3))


def test_scattered_rows(device: Device) -> None:
    def program(x: Any, values: Any, at: Any) -> Any:
        out = primitives.copy(x)
        return primitives.scatter(out, at, primitives.copy(values))

    for rows, kind in ((6, np.int32), (130, np.int8)):  # no int8 is 130
        at = device.from_numpy(np.array([3, 0, -1], kind))
        given = numbers(rows, 2), numbers(3, 2, seed=1)
        assert_along(device, partial(program, at=at), *given)
    twice = device.from_numpy(np.array([3, 3, 0], np.int32))
    x, values = device.from_numpy(numbers(6, 2)), device.from_numpy(numbers(3, 2))
    with pt.Tape() as tape:
        out = primitives.scatter(x, twice, values)
    with pytest.raises(UnsupportedError, match="comes twice"):
        tape.gradient(out, values, seed=device.from_numpy(np.ones((6, 2))))


@pt.fuse
def gelu(x, a):
    return 0.5 * x * (1 + np.tanh(0.7978846 * (x + a * x * x * x)))


@pt.fuse
def spread(x, y):
    d = x - y
    return np.sum(d * d, axis=1), np.max(d, axis=1)


def test_fused_functions(device: Device) -> None:
    if device.for_arrays() is not device or not is_ours(device):
        pytest.skip("arrays of another library")
    assert_along(device, lambda x: gelu(x, 0.044715), numbers(3, 4))
    assert_along(device, lambda x, y: tuple(spread(x, y)), numbers(3, 4), numbers(4, seed=1))


def test_views_that_are_written_are_refused(device: Device) -> None:
    if device.for_arrays() is not device or not is_ours(device):
        pytest.skip("arrays of another library")
    x = device.from_numpy(numbers(4, 3))
    with pt.Tape():
        y = x.T * 2
        with pytest.raises(LaunchError, match="view"):
            x[0] = y[:, 0]


MORE: dict[str, Callable[[Any, Any], Any]] = {
    "tensordot": lambda xp, x: xp.tensordot(x, x, axes=1),
    "matrix_power": lambda xp, x: xp.linalg.matrix_power(x, 3),
    "solve": lambda xp, x: xp.linalg.solve(x, x[:, :1]),
    "logaddexp": lambda xp, x: xp.logaddexp(x, 2 * x),
    "round": lambda xp, x: x.round(1) + x,
    "meshgrid": lambda xp, x: xp.meshgrid(x[0], x[1])[0],
    "in place": lambda xp, x: operator.iadd(x * 1, x),
    "mask": lambda xp, x: x[x > 0.4],
    "assigned": lambda xp, x: _assigned(x * 1, x),
    "fft": lambda xp, x: xp.abs(xp.fft.fft(x)),
    "real": lambda xp, x: xp.real(xp.astype(x, xp.complex128) * (1 + 2j)),
    "dot": lambda xp, x: x.dot(x[0]),
    "swapped": lambda xp, x: x.swapaxes(0, 1) * x,
    "searched": lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[1]) * x[0],
    "numerics": lambda xp, x: pt.numerics.trapezoid(x),
}


def _assigned(out: Any, x: Any) -> Any:
    out[0] = x[1] * 2
    return out


def test_every_function_is_right_or_refused() -> None:
    """Whatever takes one array: in a sum with the array itself, so that nothing goes unseen."""
    device = pt.device("cpu:native-arrays")
    xp = device.namespace()
    x = numbers(4, 4) / 16 + np.eye(4) / 4
    direction = np.random.default_rng(4).standard_normal((4, 4))
    direction += direction.T
    x = x + x.T
    right, refused, wrong = [], [], {}
    for name, function in (*_of_one_array(xp), *MORE.items()):
        found = _slopes(device, xp, function, x, direction)
        if found is None:
            refused.append(name)
        elif found and not np.isnan(found[1]):
            if abs(found[0] - found[1]) <= 1e-5 * (abs(found[1]) + 1):
                right.append(name)
            else:
                wrong[name] = found
    assert not wrong
    assert len(right) > 60, (right, refused)
    assert {"fft", "pinv", "unique_values"} <= set(refused)


def _of_one_array(xp: Any) -> list[tuple[str, Callable[[Any, Any], Any]]]:
    spaces = (xp, xp.linalg)
    names = {name: getattr(space, name) for space in spaces for name in dir(space)}
    left = {"from_dlpack", "asarray", "save", "load", "empty_like", "arange"}
    return [
        (name, lambda xp, x, f=f: f(x))
        for name, f in sorted(names.items())
        if inspect.isfunction(f) and name[0] != "_" and name not in left
    ]


def _slopes(
    device: Device, xp: Any, function: Any, x: Any, direction: Any
) -> tuple[float, float] | tuple[()] | None:
    """The slope by the tape and that of differences; nothing for what gives no floats."""

    def loss(given: Any) -> Any:
        made = function(xp, given)
        parts = made if isinstance(made, tuple | list) else (made,)
        floats = [p for p in parts if getattr(p, "dtype", None) == xp.float64]
        assert floats, "no floats"
        return xp.sum(given) + sum(xp.sum(p * p) for p in floats)

    try:
        ends = [float(loss(device.from_numpy(x + by * direction))) for by in (1e-6, -1e-6)]
    except (TypeError, ValueError, LookupError, AssertionError, AttributeError, DTypeError):
        return ()
    start = device.from_numpy(x)
    try:
        with pt.Tape() as tape:
            end = loss(start)
        found = tape.gradient(end, start)
    except (UnsupportedError, LaunchError):
        return None
    return float((device.to_numpy(found) * direction).sum()), (ends[0] - ends[1]) / 2e-6
