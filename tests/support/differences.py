"""Gradients of kernels beside finite differences, along random directions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import portable
from portable.gradients import kernels, vjp
from portable.lang.arguments.structs import flattened, instance, is_composite, items_of

_STEP = 1e-6


@contextmanager
def small_strips() -> Iterator[None]:
    """Has devices add to copies of gradients even where that does not pay."""
    with (
        patch.object(kernels, "_FEWEST_SAVED", 0),
        patch.object(kernels, "_FEWEST_IN_ROWS", 0),
        patch.object(kernels, "_DEAREST", {True: 1e9, False: 1e9}),
    ):
        yield


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def _copied(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_mapped(x, lambda y: y.copy() if isinstance(y, np.ndarray) else y) for x in args)


def _mapped(x: Any, change: Any) -> Any:
    if is_composite(type(x)):
        return instance(type(x), tuple(_mapped(y, change) for y in items_of(x)))
    return change(x)


def _empty_gradient(x: Any) -> Any:
    """Where a gradient goes: of numbers an array of one, of complex arrays pairs."""
    if _is_float(x):
        real = x.real.dtype
        kind = np.float32 if real.itemsize == 2 else real
        return np.zeros(x.shape + (2,) * (x.dtype.kind == "c"), kind)
    return np.zeros(1) if isinstance(x, float) else None


def _real(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A complex array as pairs."""
    if x.dtype.kind != "c":
        return x
    return np.ascontiguousarray(x).view(x.real.dtype).reshape(*x.shape, 2)


def gradients_of(
    device: str,
    kernel: Any,
    key: Any,
    args: Sequence[Any],
    seeds: Sequence[Any],
    constants: dict[str, Any],
) -> list[Any]:
    """The gradients of the sum of what a kernel leaves in its arrays times seeds.

    The seeds are of the arguments taken apart, None where the kernel leaves nothing.
    """
    given = iter(seeds)

    def made(x: Any) -> Any:
        seed, gradient = next(given), _empty_gradient(x)
        if gradient is not None and seed is not None:
            gradient[...] = seed
        return gradient

    gradients = tuple(_mapped(x, made) for x in args)
    with portable.use(device):
        vjp(kernel)[key](*_copied(args), *gradients, **constants)
        portable.synchronize()
    return flattened(gradients)


def _run(
    device: str, kernel: Any, key: Any, args: Sequence[Any], constants: dict[str, Any]
) -> list[Any]:
    given = _copied(args)
    with portable.use(device):
        kernel[key](*given, **constants)
        portable.synchronize()
    return flattened(given)


def _directions(args: Sequence[Any], count: int) -> Iterator[list[Any]]:
    rng = np.random.default_rng(7)
    for _ in range(count):
        yield [
            None if (y := _empty_gradient(x)) is None else rng.standard_normal(y.shape)
            for x in flattened(tuple(args))
        ]


def _moved(args: Sequence[Any], direction: Sequence[Any], by: float) -> tuple[Any, ...]:
    parts = iter(direction)

    def change(x: Any) -> Any:
        part = next(parts)
        if part is None:
            return x
        if isinstance(x, float):
            return x + by * float(part[0])
        if x.dtype.kind == "c":
            part = part[..., 0] + 1j * part[..., 1]
        return x + by * part

    return tuple(_mapped(x, change) for x in args)


def assert_gradients(
    device: str,
    kernel: Any,
    key: Any,
    *args: Any,
    rtol: float = 1e-6,
    count: int = 3,
    step: float = _STEP,
    retries: int = 0,
    **constants: Any,
) -> None:
    """A kernel's gradients by all its floats are those of central differences.

    Parameters
    ----------
    device : str
    kernel : kernel
    key
        Its ndrange, and workgroup.
    *args
        NumPy arrays of doubles, floats, and what has no gradient.
    rtol, step : float
    count : int
        Of directions.
    retries : int
        With how many smaller and greater steps to try again.
    **constants
        As of the kernel.
    """
    before, after = flattened(_copied(args)), _run(device, kernel, key, args, constants)
    rng = np.random.default_rng(3)
    seeds = [
        rng.standard_normal(_real(y).shape)
        if _is_float(x) and not np.array_equal(x, y, equal_nan=True)
        else None
        for x, y in zip(before, after, strict=True)
    ]
    if retries and all(seed is None for seed in seeds):
        return  # a random kernel in which all work-items return at once
    if retries and not all(np.isfinite(y).all() for y in after if _is_float(y)):
        return  # one that overflows
    assert any(seed is not None for seed in seeds), "the kernel changed nothing"
    found = gradients_of(device, kernel, key, args, seeds, constants)

    def loss(given: tuple[Any, ...]) -> float:
        left = _run(device, kernel, key, given, constants)
        return sum(
            float((_real(x) * s).sum()) for x, s in zip(left, seeds, strict=True) if s is not None
        )

    for direction in _directions(args, count):
        pairs = [(g, d) for g, d in zip(found, direction, strict=True) if g is not None]
        parts = [g.astype(float) * d for g, d in pairs]
        told = sum(float(p.sum()) for p in parts)
        scale = sum(float(np.abs(p).sum()) for p in parts) + 1e-9
        slopes = []
        for by in _steps(step, retries):
            ahead, behind = (loss(_moved(args, direction, x)) for x in (by, -by))
            slopes.append((ahead - behind) / (2 * by))
            if abs(told - slopes[-1]) <= rtol * max(scale, abs(slopes[-1])):
                break
        else:
            if retries and max(slopes) - min(slopes) > 0.05 * max(map(abs, slopes)):
                continue  # so steep or rough that differences say nothing
            raise AssertionError(f"the derivative is {told}; differences give {slopes}")


def _steps(step: float, retries: int) -> list[float]:
    """Steps of differences: others than the first for where it crosses a branch or rounds."""
    return [step, *(step * 10 ** (i + 1) for i in range(-retries, retries) if i != -1)]
