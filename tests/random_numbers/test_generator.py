"""Random arrays: the same numbers everywhere, of the distributions that were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import portable as pt
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.random import Generator

from .philox import blocks, lemire32, lemire64


@pytest.fixture
def rng(device: Device) -> Generator:
    try:
        pt.xp(device)
    except TypeError:
        pytest.skip(f"{device.name} has no arrays of its own")
    return Generator(77, device=device)


def host(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(pt.to_numpy(x))


def test_uniform_numbers_are_the_words_upper_bits(rng: Generator) -> None:
    found = host(rng.uniform((3, 7)))
    words = blocks(77, 0, 6).reshape(-1)[:21].reshape(3, 7)
    assert found.dtype == np.float32
    assert np.array_equal(found, ((words >> np.uint32(8)) * 2.0**-24).astype(np.float32))


def test_each_call_goes_on_where_the_last_one_ended(rng: Generator) -> None:
    rng.uniform(5)
    rng.jump(2**62)
    words = blocks(77, 2 + 2**62, 1)[0]
    assert np.array_equal(host(rng.uniform(4)) * 2.0**24, words >> np.uint32(8))


@pytest.mark.needs_float64
def test_uniform_numbers_in_double_precision(rng: Generator) -> None:
    found = host(rng.uniform(5, low=-1.0, high=1.0, dtype="float64"))
    words = blocks(77, 0, 3).astype(np.uint64).reshape(-1, 2)
    bits = ((words[:, 0] << np.uint64(32)) | words[:, 1]) >> np.uint64(11)
    assert np.array_equal(found, 2.0 * (bits[:5] * 2.0**-53) - 1.0)


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_integers_are_fair(rng: Generator, dtype: str) -> None:
    found = host(rng.integers(3, 100, 9, dtype=dtype))
    assert 0 <= int(rng.integers(7, dtype=dtype)) < 7
    expected = [3 + lemire32(77, i // 4, i % 4, 97) for i in range(9)]
    assert found.dtype == dtype
    assert found.tolist() == expected


def test_integers_that_are_drawn_again(rng: Generator) -> None:
    size = 3 * 2**30
    found = host(rng.integers(0, size, 40, dtype="uint32"))
    assert found.tolist() == [lemire32(77, i // 4, i % 4, size) for i in range(40)]


@pytest.mark.parametrize(("low", "high"), [(-(2**63), 2**63 - 1), (-5, 3 * 2**61)])
def test_integers_of_64_bits(rng: Generator, low: int, high: int) -> None:
    found = host(rng.integers(low, high, 9))
    expected = [low + lemire64(77, i // 2, 2 * (i % 2), high - low) for i in range(9)]
    assert found.tolist() == expected


def test_all_64_bits(rng: Generator) -> None:
    found = host(rng.integers(0, 2**64, 4, dtype="uint64"))
    words = blocks(77, 0, 2).astype(np.uint64).reshape(-1, 2)
    assert np.array_equal(found, (words[:, 0] << np.uint64(32)) | words[:, 1])


def test_normal_numbers(rng: Generator) -> None:
    found = host(rng.normal(4001, mean=3.0, deviation=2.0))
    a, b = ((blocks(77, 0, 1001).reshape(-1, 2)).astype(np.float64)).T
    radius, angle = np.sqrt(-2 * np.log((a + 0.5) * 2.0**-32)), 2 * np.pi * b * 2.0**-32
    expected = 3 + 2 * np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
    assert np.allclose(found, expected[:4001], rtol=0, atol=2e-5)
    assert stats.kstest((found - 3) / 2, "norm").pvalue > 1e-3


@pytest.mark.needs_float64
def test_distributions(rng: Generator) -> None:
    assert stats.kstest(host(rng.uniform(3000, dtype="float64")), "uniform").pvalue > 1e-3
    assert stats.kstest(host(rng.normal(3000, dtype="float64")), "norm").pvalue > 1e-3
    waits = host(rng.exponential(3000, scale=4.0, dtype="float64"))
    assert stats.kstest(waits / 4, "expon").pvalue > 1e-3
    counts = np.bincount(host(rng.integers(0, 10, 3000)), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_halves_and_moments(rng: Generator) -> None:
    found = host(rng.exponential(4000, scale=0.5, dtype="float16"))
    assert found.dtype == np.float16
    assert (found >= 0).all()
    assert abs(found.astype(float).mean() - 0.5) < 0.04


def test_streams_and_seeds_differ(device: Device) -> None:
    drawn = [
        host(Generator(seed, stream=stream, device=device).uniform(32))
        for seed, stream in ((0, 0), (1, 0), (0, 1), (2**32, 0))
    ]
    for i, x in enumerate(drawn):
        for y in drawn[:i]:
            assert not (x == y).any()


def test_permutations(rng: Generator) -> None:
    order = host(rng.permutation(100))
    keys = blocks(77, 0, 50).astype(np.uint64).reshape(-1, 2)
    assert np.array_equal(order, np.argsort((keys[:, 0] << np.uint64(32)) | keys[:, 1]))
    x = pt.asarray(np.arange(12.0, dtype=np.float32).reshape(3, 4), device=rng._device)
    if type(x) is type(rng.uniform(1)):
        columns = host(rng.permutation(x, axis=1))
        assert sorted(columns[0].tolist()) == [0, 1, 2, 3]
        assert np.array_equal(columns, columns[0] + 4 * np.arange(3)[:, None])


def test_choices(rng: Generator) -> None:
    assert len(set(host(rng.choice(20, (4, 5), replace=False)).reshape(-1).tolist())) == 20
    few = host(rng.choice(3000, 150, replace=False))  # of which some come again
    assert len(set(few.tolist())) == 150
    assert few.min() >= 0 > few.max() - 3000
    assert host(rng.choice(3, 200)).max() == 2
    likely = rng.uniform(3) * 0 + pt.xp(rng._device).asarray(np.array([0, 0.25, 0.75], np.float32))
    counts = np.bincount(host(rng.choice(3, 2000, p=likely)), minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 500) < 100


def test_empty_arrays(rng: Generator) -> None:
    assert host(rng.uniform((0, 3))).shape == (0, 3)
    assert host(rng.permutation(0)).shape == (0,)
    assert host(rng.normal()).shape == ()


@pytest.mark.needs_processor
def test_mistakes() -> None:
    rng = Generator(device="cpu")
    with pytest.raises(ValueError, match="seed=-1"):
        Generator(-1)
    with pytest.raises(ValueError, match="from 5 to 4"):
        rng.integers(5, 5)
    with pytest.raises(ValueError, match="do not fit into int8"):
        rng.integers(0, 200, dtype="int8")
    with pytest.raises(DTypeError, match="int32 is no real"):
        rng.uniform(3, dtype="int32")
    with pytest.raises(DTypeError, match="float32 is no integer"):
        rng.integers(0, 3, dtype="float32")
    with pytest.raises(ShapeError, match="-1"):
        rng.uniform((-1, 2))
    with pytest.raises(ValueError, match="without replacing"):
        rng.choice(3, 4, replace=False)
    with pytest.raises(ShapeError, match="3 elements"):
        rng.choice(4, 1, p=np.ones(3))
    with pytest.raises(TypeError, match="normal calls NumPy's scale= deviation="):
        rng.normal(3, scale=2.0)
    assert repr(rng) == "Generator(seed=0, stream=0, block=0)"


@pytest.mark.parametrize("shape", ["5", 2.5, (2, None)])
def test_what_is_no_shape(shape: Any) -> None:
    with pytest.raises(ShapeError, match="integer or several of them"):
        Generator(1, device="simulator").normal(shape)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_uniform_over_nearly_the_whole_range(device: Device, kind: str) -> None:
    most = float(np.finfo(kind).max)
    drawn = pt.to_numpy(Generator(1, device=device).uniform(4001, low=-most, high=most, dtype=kind))
    assert np.isfinite(drawn).all()
    assert drawn.min() < -0.99 * most
    assert drawn.max() > 0.99 * most
    assert abs(np.mean(drawn.astype(np.float64)) / most) < 0.05


@pytest.mark.parametrize(
    ("function", "given", "said"),
    [
        ("uniform", {"low": float("nan")}, "low=nan"),
        ("uniform", {"high": float("inf")}, "high=inf"),
        ("uniform", {"high": 1e39}, "finite number of float32"),
        ("uniform", {"high": 1e5, "dtype": "float16"}, "finite number of float16"),
        ("uniform", {"low": 2, "high": 1}, "low may not be more than high"),
        ("normal", {"deviation": -1}, "deviation=-1"),
        ("normal", {"mean": float("nan")}, "mean=nan"),
        ("exponential", {"scale": -0.5}, "scale=-0.5"),
        ("exponential", {"scale": float("nan")}, "scale=nan"),
    ],
)
def test_distributions_that_are_none(function: str, given: dict[str, Any], said: str) -> None:
    rng = Generator(device="simulator")
    with pytest.raises(ValueError, match=said):
        getattr(rng, function)(3, **given)


@pytest.mark.parametrize("given", [(0.5, 3.2), (0, 3.0), ("a", 3), (None, 3)])
def test_integers_take_integers(given: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="it takes an integer"):
        Generator(device="simulator").integers(*given)


def test_integers_of_numpy_are_integers(device: Device) -> None:
    ours = Generator(np.uint64(7), stream=np.int8(3), device=device)
    same = Generator(7, stream=3, device=device)
    for draw in (
        lambda rng, kind: rng.integers(kind(2), kind(90), 5),
        lambda rng, kind: rng.choice(kind(9), 5),
        lambda rng, kind: rng.permutation(kind(9)),
    ):
        assert pt.to_numpy(draw(ours, np.int32)).tolist() == pt.to_numpy(draw(same, int)).tolist()
    with pytest.raises(ValueError, match=r"seed=True"):
        Generator(True)


@pytest.mark.parametrize(
    ("p", "said"),
    [
        ([0.5, float("nan"), 0.5], "NaN or negative"),
        ([1.5, -0.5, 0], "NaN or negative"),
        ([0.0, 0.0, 0.0], "sum 0"),
        ([1.0, 1.0, 1.0], "sum 3"),
        ([float("inf"), 0.0, 0.0], "sum inf"),
    ],
)
def test_what_are_no_probabilities(device: Device, p: list[float], said: str) -> None:
    rng = Generator(device=device)
    with pytest.raises(ValueError, match=said):
        rng.choice(3, 5, p=pt.asarray(np.float32(p), device=device))


def test_what_cannot_be_is_never_chosen(device: Device) -> None:
    p = np.float32([0, 0.3, 0, 0.7, 0, 0])
    drawn = pt.to_numpy(Generator(5, device=device).choice(6, 5000, p=pt.asarray(p, device=device)))
    assert set(drawn.tolist()) == {1, 3}
    assert abs(np.mean(drawn == 3) - 0.7) < 0.03
