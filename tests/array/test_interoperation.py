"""Code written for the standard, run on these arrays: SciPy, array-api-extra, array-api-strict."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device

# SciPy reads SCIPY_ARRAY_API once, when it is imported: a process of its own.
SCIPY = """
import os, sys
os.environ["SCIPY_ARRAY_API"] = "1"
import numpy as np, portable
from scipy import constants, cluster, differentiate, fft, integrate, signal, special, stats
import scipy.cluster.vq
device = portable.device(sys.argv[1])
portable.use(device)
a = np.random.default_rng(0).standard_normal((20, 6))
for name, function in {
    "special.logsumexp": lambda x: special.logsumexp(x, axis=0),
    "special.softmax": lambda x: special.softmax(x, axis=0),
    "special.log_softmax": lambda x: special.log_softmax(x, axis=0),
    "special.xlogy": lambda x: special.xlogy(x**2, x**2),
    "stats.zscore": stats.zscore,
    "stats.skew": stats.skew,
    "stats.kurtosis": stats.kurtosis,
    "stats.moment": lambda x: stats.moment(x, 3),
    "stats.variation": lambda x: stats.variation(x + 9),
    "stats.gmean": lambda x: stats.gmean(x**2),
    "stats.circmean": stats.circmean,
    "stats.sem": stats.sem,
    "fft.fft": fft.fft,
    "fft.rfftn": fft.rfftn,
    "integrate.trapezoid": lambda x: integrate.trapezoid(x, axis=0),
    "integrate.cumulative_simpson": lambda x: integrate.cumulative_simpson(x, axis=0),
    "signal.fftconvolve": lambda x: signal.fftconvolve(x[:, 0], x[:5, 1]),
    "cluster.vq.whiten": cluster.vq.whiten,
    "differentiate.derivative": lambda x: differentiate.derivative(lambda t: t**3, x[:, 0]).df,
    "constants.convert_temperature": lambda x: constants.convert_temperature(x, "C", "K"),
}.items():
    found = portable.to_numpy(function(device.from_numpy(a)))
    np.testing.assert_allclose(found, function(a), rtol=1e-9, atol=1e-12, err_msg=name)
"""


def test_scipy(ours: Device) -> None:
    pytest.importorskip("scipy")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCIPY, ours.name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_array_api_extra(ours: Device) -> None:
    xpx = pytest.importorskip("array_api_extra")
    a = np.random.default_rng(0).standard_normal((4, 5))
    x = ours.from_numpy(a)
    pairs = {
        "cov": (xpx.cov(x), np.cov(a)),
        "kron": (xpx.kron(x, x), np.kron(a, a)),
        "pad": (xpx.pad(x, 2), np.pad(a, 2)),
        "sinc": (xpx.sinc(x), np.sinc(a)),
        "isclose": (xpx.isclose(x, x + 1e-12), np.isclose(a, a + 1e-12)),
        "create_diagonal": (xpx.create_diagonal(x[0]), np.diag(a[0])),
        "setdiff1d": (xpx.setdiff1d(x[0], x[0, :3]), np.setdiff1d(a[0], a[0, :3])),
        "atleast_nd": (xpx.atleast_nd(x[0], ndim=3), np.atleast_3d(a[0]).reshape(1, 1, 5)),
        "nunique": (xpx.nunique(x), np.asarray(20)),
        "isin": (xpx.isin(x[0], x[0, :2]), np.isin(a[0], a[0, :2])),
        "one_hot": (xpx.one_hot(xp.asarray([1, 0], device=ours), 3), np.eye(3)[[1, 0]]),
        "at": (xpx.at(x, (slice(None), 1)).set(7.0, copy=True)[:, 1], np.full(4, 7.0)),
        "nan_to_num": (xpx.nan_to_num(x / 0.0), np.nan_to_num(a * np.inf)),
    }
    for name, (found, expected) in pairs.items():
        got = portable.to_numpy(found)
        np.testing.assert_allclose(got, expected, rtol=1e-9, err_msg=name)


def test_it_has_every_function_of_the_standard() -> None:
    strict = pytest.importorskip("array_api_strict")
    later = {"broadcast_shapes", "isin", "Device", "__version__"}
    for theirs, mine in ((strict, xp), (strict.linalg, xp.linalg), (strict.fft, xp.fft)):
        names = {n for n in theirs.__all__ if "flags" not in n.lower()}
        assert not {n for n in names if not hasattr(mine, n)} - later


def test_a_function_written_for_the_standard(ours: Device) -> None:
    a = np.random.default_rng(0).standard_normal((50, 4))
    found = portable.to_numpy(_whitened(ours.from_numpy(a)))
    np.testing.assert_allclose(np.cov(found.T), np.eye(4), atol=1e-9)


def _whitened(x: Any) -> Any:
    """Principal components of unit variance, in functions of the standard alone."""
    space = x.__array_namespace__()
    centred = x - space.mean(x, axis=0, keepdims=True)
    left, _, _ = space.linalg.svd(centred, full_matrices=False)
    scores = left / space.std(left, axis=0, correction=1, keepdims=True)
    order = space.argsort(space.max(space.abs(scores), axis=0), descending=True)
    return space.take(scores, order, axis=1)
