"""Code written for the standard, run on these arrays: SciPy, array-api-extra, array-api-strict."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import portable
import portable.array as xp
from portable.array.methods import numpy_methods
from portable.backend import Device

# SciPy reads SCIPY_ARRAY_API once, when it is imported: a process of its own.
SCIPY = """
import os, sys
os.environ["SCIPY_ARRAY_API"] = "1"
import numpy as np, portable
from scipy import constants, cluster, differentiate, fft, integrate, linalg, optimize, signal
from scipy import special, stats
from scipy.spatial.transform import Rotation
import scipy.cluster.vq, scipy.optimize.elementwise
device = portable.device(sys.argv[1])
portable.use(device)
a = np.random.default_rng(0).standard_normal((20, 6))
FEW = {
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
    "constants.convert_temperature": lambda x: constants.convert_temperature(x, "C", "K"),
}
MORE = {
    "differentiate.derivative": lambda x: differentiate.derivative(lambda t: t**3, x[:, 0]).df,
    "special.rel_entr": lambda x: special.rel_entr(x**2, x**2 + 1),
    **{
        f"stats.{name}": getattr(stats, name)
        for name in (
            "circstd", "circvar", "differential_entropy", "iqr", "kstat", "kstatvar",
            "median_abs_deviation", "rankdata", "tmax", "tmean", "tmin", "tsem", "tstd", "tvar",
        )
    },
    "stats.boxcox_llf": lambda x: stats.boxcox_llf(0.5, x**2),
    "stats.describe": lambda x: stats.describe(x).variance,
    "stats.false_discovery_control": lambda x: stats.false_discovery_control(x**2 / 99),
    "stats.gstd": lambda x: stats.gstd(x**2),
    "stats.gzscore": lambda x: stats.gzscore(x**2),
    "stats.hmean": lambda x: stats.hmean(x**2),
    "stats.mode": lambda x: stats.mode(x).mode,
    "stats.pmean": lambda x: stats.pmean(x**2, 2.0),
    "stats.quantile": lambda x: stats.quantile(x, 0.3, axis=0),
    "stats.trim_mean": lambda x: stats.trim_mean(x, 0.1),
    "stats.yeojohnson_llf": lambda x: stats.yeojohnson_llf(0.5, x),
    "stats.zmap": lambda x: stats.zmap(x, x + 1),
    **{
        f"fft.{name}": getattr(fft, name)
        for name in (
            "fft2", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn",
            "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
        )
    },
    "fft.fht": lambda x: fft.fht(x[:, 0], 0.1, 0.2),
    "integrate.cumulative_trapezoid": lambda x: integrate.cumulative_trapezoid(x, axis=0),
    "integrate.cubature": lambda x: integrate.cubature(
        lambda t: t[:, 0] ** 2, x[0, :1] * 0, x[0, :1] * 0 + 1
    ).estimate,
    "linalg.block_diag": lambda x: linalg.block_diag(x, x),
    "optimize.elementwise.bracket_minimum": lambda x: optimize.elementwise.bracket_minimum(
        lambda t, c: (t - c) ** 2, x[0] - 1, args=(x[0],)
    ).bracket[1],
    "optimize.rosen": lambda x: optimize.rosen(x[0]),
    "optimize.rosen_der": lambda x: optimize.rosen_der(x[0]),
    "optimize.rosen_hess": lambda x: optimize.rosen_hess(x[0]),
    "constants.lambda2nu": lambda x: constants.lambda2nu(x**2),
    "constants.nu2lambda": lambda x: constants.nu2lambda(x**2),
    "signal.envelope": lambda x: signal.envelope(x[:, 0], bp_in=(1, 4)),
    "signal.freqz": lambda x: signal.freqz(x[:5, 0], worN=8)[1],
    "signal.hilbert": signal.hilbert,
    "signal.hilbert2": signal.hilbert2,
    "signal.oaconvolve": lambda x: signal.oaconvolve(x[:, 0], x[:5, 1]),
    "signal.resample": lambda x: signal.resample(x[:, 0], 30),
    "signal.vectorstrength": lambda x: signal.vectorstrength(x[:, 0], 2.0)[0],
    "Rotation.apply": lambda x: Rotation.from_quat(x[:4, :4]).apply(x[4:8, :3]),
    "Rotation.as_euler": lambda x: Rotation.from_quat(x[:, :4]).as_euler("xyz"),
    "Rotation.as_matrix": lambda x: Rotation.from_quat(x[:, :4]).as_matrix(),
    "Rotation.from_euler": lambda x: Rotation.from_euler("xyz", x[:, :3]).as_quat(),
    "Rotation.from_rotvec": lambda x: Rotation.from_rotvec(x[:, :3]).as_quat(),
    "Rotation.inv": lambda x: Rotation.from_quat(x[:, :4]).inv().as_rotvec(),
    "Rotation.magnitude": lambda x: Rotation.from_quat(x[:, :4]).magnitude(),
    # A quaternion and its negative are one rotation: eigenvectors have either sign.
    "Rotation.mean": lambda x: Rotation.from_quat(x[:, :4]).mean().as_matrix(),
}
# Compilers take their time: the rest are run where nothing is compiled.
chosen = FEW | MORE if device.interprets else dict(list(FEW.items())[::3])
for name, function in chosen.items():
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
    """All of its functions, against those on NumPy's arrays."""
    xpx = pytest.importorskip("array_api_extra")
    a = np.random.default_rng(0).standard_normal((4, 5))
    number = np.random.default_rng(1).integers(0, 9, (4, 5))
    functions = {
        "angle": lambda x, n: xpx.angle(x + 1j),
        "apply_where": lambda x, n: xpx.apply_where(x > 0, x, lambda y: y**2, lambda y: -y),
        "argpartition": lambda x, n: xpx.argpartition(x, 2)[..., 2],
        "at": lambda x, n: xpx.at(x, (slice(None), 1)).set(7.0, copy=True),
        "atleast_nd": lambda x, n: xpx.atleast_nd(x[0, :], ndim=3),
        "cov": lambda x, n: xpx.cov(x),
        "create_diagonal": lambda x, n: xpx.create_diagonal(x[0, :], offset=1),
        "deg2rad": lambda x, n: xpx.deg2rad(x),
        "isclose": lambda x, n: xpx.isclose(x, x + 1e-9, equal_nan=True),
        "isin": lambda x, n: xpx.isin(n[0, :], n[1, :]),
        "kron": lambda x, n: xpx.kron(x, x),
        "lazy_apply": lambda x, n: xpx.lazy_apply(lambda y: y * 2, x),
        "nan_to_num": lambda x, n: xpx.nan_to_num((x - x) / (x - x)),
        "nanmax": lambda x, n: xpx.nanmax(x, axis=1),
        "nanmean": lambda x, n: xpx.nanmean(x, axis=0),
        "nanmin": lambda x, n: xpx.nanmin(x, axis=1),
        "nansum": lambda x, n: xpx.nansum(x, axis=0),
        "nunique": lambda x, n: xpx.nunique(n),
        "one_hot": lambda x, n: xpx.one_hot(n[0, :], 9),
        "pad": lambda x, n: xpx.pad(x, ((1, 2), (0, 1)), constant_values=3.0),
        "partition": lambda x, n: xpx.partition(x, 2)[..., 2],
        "rad2deg": lambda x, n: xpx.rad2deg(x),
        "searchsorted": lambda x, n: xpx.searchsorted(x[0, :], x[1, :]),
        "setdiff1d": lambda x, n: xpx.setdiff1d(n[0, :], n[1, :]),
        "sinc": lambda x, n: xpx.sinc(x),
        "union1d": lambda x, n: xpx.union1d(n[0, :], n[1, :]),
        "unravel_index": lambda x, n: xpx.unravel_index(n, (3, 4))[0],
    }
    a[0].sort()
    for name, function in functions.items():
        with np.errstate(invalid="ignore"):
            expected = function(a, number)
        got = portable.to_numpy(function(ours.from_numpy(a), ours.from_numpy(number)))
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


def test_a_function_of_ones_own_stands_for_numpys(ours: Device) -> None:
    x = xp.asarray([3.0, -1.0, 4.0], device=ours)
    assert not numpy_methods._registered
    try:

        @xp.implements(np.ptp)
        def spread(x: Any, axis: Any = None) -> Any:
            return xp.max(x, axis=axis) - xp.min(x, axis=axis)

        @xp.implements(np.float_power)
        def power(x: Any, y: Any) -> Any:
            return x**y

        assert float(np.ptp(x)) == 5
        assert float(np.float_power(x, 2)[0]) == 9
    finally:
        numpy_methods._registered.clear()
    with pytest.raises(TypeError, match="no function of NumPy's"):
        xp.implements(len)
