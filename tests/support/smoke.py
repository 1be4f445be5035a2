"""A minute's proof that a device works: ``python -m tests.support.smoke --device cpu:native``.

For processors that are slow to reach, such as one that another one emulates: a plain program that
needs NumPy and the project alone, a check for each part of it against NumPy.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click
import numpy as np

import portable
import portable as pt
from portable import lang as kl
from portable import nn, primitives
from portable.conv import conv2d
from portable.linalg import gemm, svdvals

_GROUP: Final = 64


@pt.kernel
def _saxpy(a, x, y):  # type: ignore[no-untyped-def]
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] = a * x[i] + y[i]


@pt.kernel
def _sums_by_workgroup(x, out):  # type: ignore[no-untyped-def]
    """One sum of each workgroup's elements, halving with barriers."""
    tile = kl.local((_GROUP,), x.dtype)
    i = kl.local_id(0)
    tile[i] = x[kl.global_id(0)]
    kl.barrier()
    half = _GROUP // 2
    while half > 0:
        if i < half:
            tile[i] = tile[i] + tile[i + half]
        kl.barrier()
        half //= 2
    if i == 0:
        out[kl.group_id(0)] = tile[0]


@pt.kernel
def _histogram(x, counts):  # type: ignore[no-untyped-def]
    i = kl.global_id(0)
    if i < x.shape[0]:
        kl.atomic_add(counts, x[i] % counts.shape[0], 1)


@pt.kernel
def _functions(x, out):  # type: ignore[no-untyped-def]
    i = kl.global_id(0)
    if i < x.shape[0]:
        out[i] = kl.exp(kl.sin(x[i])) + kl.log(x[i] * x[i] + 1) - kl.tanh(x[i])


def _near(actual: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(portable.to_numpy(actual), wanted, rtol=tolerance, atol=tolerance)


def _kernels(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 1003)).astype(np.float32)
    wanted = 2 * x + y
    given, changed = portable.asarray(x), portable.asarray(y.copy())
    _saxpy[x.size, _GROUP](2.0, given, changed)
    _near(changed, wanted, 1e-6)


def _barriers(rng: np.random.Generator) -> None:
    x = rng.integers(-9, 9, 40 * _GROUP).astype(np.int32)
    sums = portable.asarray(np.zeros(40, np.int32))
    _sums_by_workgroup[x.size, _GROUP](portable.asarray(x), sums)
    np.testing.assert_array_equal(portable.to_numpy(sums), x.reshape(40, -1).sum(1))


def _atomics(rng: np.random.Generator) -> None:
    x = rng.integers(0, 1000, 5000).astype(np.int32)
    counts = portable.asarray(np.zeros(17, np.int32))
    _histogram[x.size, _GROUP](portable.asarray(x), counts)
    np.testing.assert_array_equal(portable.to_numpy(counts), np.bincount(x % 17, minlength=17))


def _elementary(rng: np.random.Generator) -> None:
    for kind, tolerance in ((np.float32, 2e-6), (np.float64, 1e-14)):
        x = rng.normal(size=777).astype(kind)
        out = portable.asarray(np.zeros_like(x))
        _functions[x.size, _GROUP](portable.asarray(x), out)
        _near(out, np.exp(np.sin(x)) + np.log(x * x + 1) - np.tanh(x), tolerance)


def _products(rng: np.random.Generator) -> None:
    for kind, tolerance in ((np.float32, 1e-4), (np.float64, 1e-12), (np.float16, 5e-2)):
        a, b = rng.normal(size=(2, 129, 129)).astype(kind)
        given = portable.asarray(a), portable.asarray(b)
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        _near(gemm(*given), wanted, tolerance)


def _singular_values(rng: np.random.Generator) -> None:
    for kind, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
        a = rng.normal(size=(100, 80)).astype(kind)
        wanted = np.linalg.svd(a, compute_uv=False)
        found = portable.to_numpy(svdvals(portable.asarray(a)))
        np.testing.assert_allclose(found, wanted, atol=tolerance * wanted[0])


def _reductions(rng: np.random.Generator) -> None:
    x = rng.normal(size=(37, 501)).astype(np.float32)
    given = portable.asarray(x)
    _near(primitives.reduce(given), x.sum(dtype=np.float64), 1e-3)
    _near(primitives.reduce(given, axis=0), x.sum(axis=0), 1e-4)
    _near(primitives.scan(given), np.cumsum(x, axis=-1), 1e-3)
    np.testing.assert_array_equal(portable.to_numpy(primitives.sort(given)), np.sort(x))


def _convolution(rng: np.random.Generator) -> None:
    x = rng.normal(size=(2, 3, 12, 13)).astype(np.float32)
    w = rng.normal(size=(5, 3, 3, 3)).astype(np.float32)
    patches = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    wanted = np.einsum("nchwij,kcij->nkhw", patches, w)
    _near(conv2d(portable.asarray(x), portable.asarray(w)), wanted, 1e-4)


def _network(rng: np.random.Generator) -> None:
    x = rng.normal(size=(256, 2)).astype(np.float32)
    y = x[:, :1] - 2 * x[:, 1:]
    model = nn.MLP([2, 16, 1], dtype="float32", seed=1)
    history = nn.fit(model, x, y, epochs=60, batch_size=32, progress=False)
    first, last = history.train[0], history.train[-1]
    assert last < first / 10, f"training ends at a loss of {last}; it began at {first}"


CHECKS: Final[tuple[Callable[[np.random.Generator], None], ...]] = (
    _kernels,
    _barriers,
    _atomics,
    _elementary,
    _products,
    _singular_values,
    _reductions,
    _convolution,
    _network,
)


def main() -> int:
    """Runs every check, prints a line for each, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", help="where to run; by default %(default)s")
    device = portable.use(parser.parse_args().device)
    click.echo(f"{device} on {platform.machine()}")
    failed = 0
    for check in CHECKS:
        begin = time.perf_counter()
        try:
            check(np.random.default_rng(1))
            verdict = "passed"
        except Exception as error:  # noqa: BLE001 - a failure must not hide those that follow
            failed += 1
            verdict = f"FAILED: {type(error).__name__}: {error}"
        name = check.__name__.strip("_").replace("_", " ")
        click.echo(f"{name:16} {time.perf_counter() - begin:6.1f} s  {verdict}")
    click.echo(f"{len(CHECKS) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
