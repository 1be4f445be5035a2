"""Transforms against SciPy's in double precision, and by what they must obey."""

from __future__ import annotations

from math import log2, sqrt
from typing import Any

import numpy as np
import pytest
import scipy.fft
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable
import portable.array as xp
from portable.array.fourier import one_axis, passes
from portable.array.fourier.access import Form
from portable.array.fourier.passes import launch_in_vectors
from portable.array.fourier.plan import PassOptions
from portable.backend import Device
from portable.errors import BadIndexError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
BOUND = 2.0
"""Errors in the 2-norm are below so many units of rounding times ``sqrt(1 + log2(n))``.

SciPy's in double precision, which results are compared with, are no smaller.
"""


def numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Of normal distribution."""
    a = RNG.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * RNG.standard_normal(shape)
    return a.astype(dtype)


def check(found: Any, expected: np.ndarray, n: int) -> None:
    """Shape, type, and the error in the 2-norm."""
    a = portable.to_numpy(found)
    assert a.shape == expected.shape
    assert (a.dtype.kind == "c") == (expected.dtype.kind == "c")
    size = np.linalg.norm(expected)
    error = np.linalg.norm(a - expected)
    bound = BOUND if a.dtype.itemsize // (1 + (a.dtype.kind == "c")) == 4 else 2 * BOUND
    assert error <= bound * np.finfo(a.dtype).eps * sqrt(1 + log2(n)) * size


def lengths_for(device: Device, few: list[Any], many: list[Any]) -> list[Any]:
    """Each length has a program of its own unless a device is a processor: so fewer elsewhere."""
    return many if device.capabilities.kind == "cpu" else few


def test_every_short_length(ours: Device) -> None:
    few = [*range(1, 18), 21, 24, 37, 49, 60, 64]
    for n in lengths_for(ours, few, list(range(1, 65))):
        a = numbers((11, n), np.complex128)  # A whole vector of lines, and a part of one.
        check(xp.fft.fft(ours.from_numpy(a)), scipy.fft.fft(a), n)


def test_lengths_of_all_kinds(ours: Device) -> None:
    many = [*RNG.integers(1100, 5000, 8).tolist(), 4093, 2**13, 3**9, 5 * 7 * 11 * 13, 2**20]
    for n in lengths_for(ours, [180, 1024], many):
        a = numbers((n,), np.complex128)
        check(xp.fft.fft(ours.from_numpy(a)), scipy.fft.fft(a), n)


@pytest.mark.parametrize("n", [5, 6, 34])
@pytest.mark.parametrize("extent", [6, 19])
@pytest.mark.parametrize("name", ["rfft", "irfft", "hfft", "ihfft"])
def test_real_numbers(simulated: Device, name: str, extent: int, n: int) -> None:
    a = numbers((2, extent), np.float64 if name in ("rfft", "ihfft") else np.complex128)
    for norm in ("backward", "ortho"):
        expected = getattr(scipy.fft, name)(a, n, norm=norm)
        check(getattr(xp.fft, name)(simulated.from_numpy(a), n=n, norm=norm), expected, n)


@pytest.mark.parametrize("n", [5, 10])
def test_into_reals_from_reals(simulated: Device, n: int) -> None:
    a = numbers((3, 6), np.float64)
    for name in ("irfft", "hfft"):
        expected = getattr(scipy.fft, name)(a, n)
        check(getattr(xp.fft, name)(simulated.from_numpy(a), n=n), expected, n)


def test_many_real_rows(ours: Device) -> None:
    a = numbers((37, 37), np.float32)
    half = scipy.fft.rfft(a.astype(np.float64), 36)
    check(xp.fft.rfft(ours.from_numpy(a), n=36), half, 36)
    back = ours.from_numpy(half.astype(np.complex64))
    check(xp.fft.irfft(back, n=36), scipy.fft.irfft(half, 36), 36)


@pytest.mark.parametrize("axis", [0, 1])
def test_real_rows_along_and_across(ours: Device, axis: int) -> None:
    """Of even length, cut, filled up, misplaced by a number, and with a large prime factor."""
    long = [(2, 9000, 9000)] if axis else []
    for rows, extent, n in lengths_for(ours, [(5, 20, 20)], [(17, 41, 38), *long]):
        a = numbers((rows, extent + 1), np.float64)
        x, a = ours.from_numpy(a if axis else a.T.copy()), a[:, 1:]
        x = x[:, 1:] if axis else x[1:]
        half = scipy.fft.rfft(a, n)
        found = xp.fft.rfft(x, n=n, axis=axis)
        check(found if axis else found.T, half, n)
        back = xp.fft.irfft(found, n=n, axis=axis)
        check(back if axis else back.T, scipy.fft.irfft(half, n), n)
        check(xp.fft.ihfft(x, n=n, axis=axis), scipy.fft.ihfft(a.T if not axis else a, n, axis), n)


def test_rows_with_gaps(ours: Device) -> None:
    """Steps between the numbers of halves of Hermitian rows; rows of one number, some left out."""
    half = numbers((3, 40), np.complex128)
    found = xp.fft.irfft(ours.from_numpy(half)[:, ::-2])
    check(found, scipy.fft.irfft(half[:, ::-2]), 38)
    a = numbers((3, 20, 1), np.complex128)
    check(xp.fft.fft(ours.from_numpy(a)[:, :17]), a[:, :17], 1)
    half = numbers((3, 4, 20), np.complex128)
    check(xp.fft.irfft(ours.from_numpy(half)[:, :3]), scipy.fft.irfft(half[:, :3]), 38)
    a = numbers((8, 9, 5), np.complex128)[:, :, :2]  # two rows of nine lie side by side
    x = ours.from_numpy(a.base)[:, :, :2]
    check(xp.fft.fft(x, axis=0), scipy.fft.fft(a, axis=0), 8)


@pytest.mark.parametrize("extent", [17, 9])
def test_two_real_rows_as_one(ours: Device, extent: int) -> None:
    """Of odd lengths with a large prime factor."""
    a = numbers((4, extent), np.float64)
    half = scipy.fft.rfft(a, 17)
    found = xp.fft.rfft(ours.from_numpy(a), n=17)
    check(found, half, 17)
    check(xp.fft.irfft(found, n=17), scipy.fft.irfft(half, 17), 17)
    check(xp.fft.ihfft(ours.from_numpy(a)), scipy.fft.ihfft(a), 17)
    check(xp.fft.hfft(found[:, :7], n=17), scipy.fft.hfft(half[:, :7], 17), 17)


def test_arrays_of_several_dimensions(ours: Device) -> None:
    a = numbers((20, 6, 18), np.complex128)
    x = ours.from_numpy(a)
    check(xp.fft.fftn(x), scipy.fft.fftn(a), a.size)
    check(xp.fft.ifftn(x, s=(6, -1), axes=(2, 0)), np.fft.ifftn(a, (6, 20), (2, 0)), a.size)


def test_views_with_strides(simulated: Device) -> None:
    a = numbers((10, 6, 8), np.complex128)
    x = simulated.from_numpy(a)
    check(xp.fft.ifft(x[::-2, ::3, ::2], axis=0), scipy.fft.ifft(a[::-2, ::3, ::2], axis=0), 5)
    check(xp.fft.fft(xp.permute_dims(x, (2, 0, 1))), scipy.fft.fft(a.transpose(2, 0, 1)), 6)
    check(xp.fft.fft(xp.broadcast_to(x[0], (3, 6, 8))), scipy.fft.fft(a[[0, 0, 0]]), 8)


CUT = {12: (4, 3), 6: (2, 3), 30: (2, 3, 5), 15: (3, 5), 36: (6, 6)}


@pytest.mark.parametrize("n", [12, 30, 17])
def test_rows_cut_into_passes(simulated: Device, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(one_axis, "transformed", one_axis.Plans(one_axis._written))
    monkeypatch.setattr(passes, "parts_by_workgroups", lambda x, out, m, kind: CUT[m])
    for rows, extent in ((3, n), (1, n - 5)):
        a = numbers((rows, extent), np.complex128)
        check(xp.fft.ifft(simulated.from_numpy(a), n=n), scipy.fft.ifft(a, n), n)
        found = xp.fft.fft(simulated.from_numpy(a.T.copy()), n=n, axis=0)
        check(found, scipy.fft.fft(a.T, n, axis=0), n)
    a = numbers((2, n // 2 + 1), np.complex64)
    check(xp.fft.irfft(simulated.from_numpy(a), n=n), scipy.fft.irfft(a, n), n)
    check(xp.fft.rfft(simulated.from_numpy(a.real), n=n), scipy.fft.rfft(a.real, n), n)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("parts", [(10,), (2, 5)], ids=str)
def test_vectors_of_lines(
    simulated: Device, monkeypatch: pytest.MonkeyPatch, parts: tuple[int, ...], axis: int
) -> None:
    """What processors run, under the simulator's checks of indices."""
    monkeypatch.setattr(one_axis, "transformed", one_axis.Plans(one_axis._written))
    monkeypatch.setattr(passes, "parts_by_workgroups", lambda *_: parts)
    monkeypatch.setattr(passes, "launch_by_workgroups", launch_in_vectors)
    for shape, dtype in (((5, 8), np.complex64), ((6, 7), np.float32)):
        a = numbers(shape, dtype)
        found = xp.fft.fft(simulated.from_numpy(a), n=10, axis=axis)
        check(found, scipy.fft.fft(a.astype(np.complex128), 10, axis=axis), 10)


@pytest.mark.parametrize("n", [9, 10])
def test_vectors_of_halves(simulated: Device, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    monkeypatch.setattr(one_axis, "transformed", one_axis.Plans(one_axis._written))
    monkeypatch.setattr(passes, "parts_by_workgroups", lambda *_: (n,))
    monkeypatch.setattr(passes, "launch_by_workgroups", launch_in_vectors)
    a = numbers((6, 5), np.complex64)
    check(xp.fft.irfft(simulated.from_numpy(a), n=n), scipy.fft.irfft(a, n), n)


LENGTHS = st.sampled_from([1, 2, 12, 13, 17])
SCALES = st.floats(0.25, 8)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(n=LENGTHS, rows=st.integers(1, 3), scale=SCALES)
def test_linearity_and_parseval_and_round_trip(
    simulated: Device, n: int, rows: int, scale: float
) -> None:
    a, b = numbers((rows, n), np.complex128), numbers((rows, n), np.complex128)
    x, y = simulated.from_numpy(a), simulated.from_numpy(b)
    found = xp.fft.fft(x)
    check(xp.fft.fft(x + scale * y) - found, scale * scipy.fft.fft(b), 2**20)
    check(xp.fft.ifft(found), a, n)
    power = portable.to_numpy(xp.sum(xp.abs(found) ** 2))
    np.testing.assert_allclose(power, n * np.sum(np.abs(a) ** 2), rtol=1e-13)


def test_what_is_not_finite_stays_in_its_row(simulated: Device) -> None:
    a = numbers((2, 12), np.complex64)
    a[0, 3] = np.nan
    found = portable.to_numpy(xp.fft.fft(simulated.from_numpy(a)))
    assert np.isnan(found[0]).all()
    check(xp.fft.fft(simulated.from_numpy(a))[1:], scipy.fft.fft(a[1:]), 12)


def test_no_numbers(simulated: Device) -> None:
    x = xp.zeros((0, 4), dtype=xp.float32, device=simulated)
    assert xp.fft.fft(x).shape == (0, 4)
    assert xp.fft.fft(x).dtype == xp.complex64
    assert xp.fft.irfft(x, n=5, axis=0).shape == (5, 4)
    with pytest.raises(ValueError, match="0 data points"):
        xp.fft.fft(x, axis=0)
    assert xp.fft.fftn(xp.ones((), device=simulated)).dtype.is_complex


def test_mistakes(simulated: Device) -> None:
    x = xp.ones((3, 4), device=simulated)
    with pytest.raises(ValueError, match="-2 data points"):
        xp.fft.rfft(x, n=-2)
    with pytest.raises(ValueError, match="norms backward"):
        xp.fft.fft(x, norm="unitary")  # type: ignore[arg-type]
    with pytest.raises(BadIndexError):
        xp.fft.fft(x, axis=2)
    with pytest.raises(ShapeError, match="1 lengths"):
        xp.fft.fftn(x, s=(2,), axes=(0, 1))
    with pytest.raises(ShapeError, match="at least one axis"):
        xp.fft.rfftn(x, axes=())
    with pytest.raises(TypeError, match="an integer as length"):
        xp.fft.fft(x, n=2.5)  # type: ignore[arg-type]
    for kind in (xp.int32, xp.float16):
        with pytest.raises(DTypeError):
            xp.fft.fft(xp.astype(x, kind))
    with pytest.raises(DTypeError, match="rfft takes float32 and float64"):
        xp.fft.rfft(xp.astype(x, xp.complex64))


def test_ends_of_passes() -> None:
    options = PassOptions(
        True, Form.MERGED, 8, "turns", Form.PAIRED, "table", True, True, "factors", 0.5
    )
    assert options.first() == PassOptions(True, Form.MERGED, 8, "turns", Form.PAIRED, "table")
    assert options.last() == PassOptions(
        False, None, 0, None, Form.PAIRED, None, True, True, "factors", 0.5
    )
