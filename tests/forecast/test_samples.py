"""The split in time order, scaling and windows, and the baselines on them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable.errors import DataError, ShapeError
from portable.forecast.evaluation import (
    Coverage,
    Score,
    autoregression,
    baselines,
    persistence,
    window_mean,
)
from portable.forecast.traces import Samples, Scaling, split_samples, windows


def test_the_protocol_of_3394_values() -> None:
    split = split_samples(np.random.default_rng(0).random(3394), 10)
    assert split.train.inputs.shape == (2707, 10)
    assert split.train.targets.shape == (2707, 1)
    assert len(split.test) == 677


def test_windows_are_followed_by_their_targets() -> None:
    samples = windows(np.arange(7.0), 3, 2)
    np.testing.assert_array_equal(samples.inputs, [[0, 1, 2], [1, 2, 3], [2, 3, 4]])
    np.testing.assert_array_equal(samples.targets, [[3, 4], [4, 5], [5, 6]])


@given(st.integers(1, 12), st.integers(1, 8), st.integers(0, 60))
def test_nothing_tested_is_trained_on(window: int, horizon: int, beyond: int) -> None:
    length = window + 2 * horizon + beyond
    split = split_samples(np.arange(float(length)), window, horizon)
    train = split.scaling.undo(split.train.targets)
    test = split.scaling.undo(split.test.targets)
    assert train.size
    assert test.size
    assert round(train.max()) < round(test.min())
    # In between nothing is lost, and the last value is tested.
    assert round(train.max()) + 1 == round(test.min())
    assert round(test.max()) == length - 1


def test_the_scaling_knows_the_training_part_alone() -> None:
    trace = np.r_[np.linspace(10, 20, 90), np.full(20, 1000.0)]
    split = split_samples(trace, 10)
    assert split.scaling == Scaling(10.0, 20.0)
    assert split.test.targets.max() == 99.0


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_scaling_is_undone(values: list[float]) -> None:
    scaling = Scaling(-3.0, 5.0)
    array = np.array(values)
    np.testing.assert_allclose(scaling.undo(scaling.apply(array)), array, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("length", [0, 5, 11])
def test_a_trace_too_short_for_one_window_of_each_part(length: int) -> None:
    with pytest.raises(ShapeError, match=f"{length} values is too short.*take at least 12"):
        split_samples(np.arange(float(length)), 10)


def test_the_shortest_trace_gives_one_sample_of_each_part() -> None:
    split = split_samples(np.arange(12.0), 10)
    assert (len(split.train), len(split.test)) == (1, 1)


@pytest.mark.parametrize(("window", "horizon"), [(0, 1), (10, 0), (-1, 1)])
def test_windows_and_horizons_are_positive(window: int, horizon: int) -> None:
    with pytest.raises(ShapeError, match="both are at least 1"):
        windows(np.arange(30.0), window, horizon)


def test_a_constant_training_part_is_refused() -> None:
    with pytest.raises(DataError, match="229 throughout"):
        split_samples(np.full(50, 229.0), 10)


# -- baselines ----------------------------------------------------------------------------------

INPUTS = np.array([[1.0, 2.0, 6.0], [4.0, 4.0, 1.0]])


def test_persistence_and_the_mean_repeat() -> None:
    np.testing.assert_array_equal(persistence(2)(INPUTS), [[6, 6], [1, 1]])
    np.testing.assert_array_equal(window_mean(2)(INPUTS), [[3, 3], [3, 3]])


@pytest.mark.parametrize("horizon", [1, 3])
def test_an_autoregression_finds_the_process_that_made_the_trace(horizon: int) -> None:
    trace = [0.3, 0.9]
    for _ in range(60):
        trace.append(0.1 + 1.2 * trace[-1] - 0.5 * trace[-2])
    samples = windows(np.array(trace), 4, horizon)
    forecast = autoregression(samples, 2)
    np.testing.assert_allclose(forecast(samples.inputs), samples.targets, atol=1e-9)


def test_an_autoregression_is_the_least_squares_solution() -> None:
    random = np.random.default_rng(1)
    samples = Samples(random.random((40, 3)), random.random((40, 1)))
    residual = autoregression(samples, 3)(samples.inputs) - samples.targets
    # Residuals are orthogonal to what they were fitted with.
    np.testing.assert_allclose(samples.inputs.T @ residual, 0, atol=1e-12)
    np.testing.assert_allclose(residual.sum(), 0, atol=1e-12)


def test_every_baseline_is_there_even_with_windows_of_one() -> None:
    samples = windows(np.arange(30.0), 10)
    assert list(baselines(samples)) == ["persistence", "window mean", "AR(1)", "AR(10)"]
    assert list(baselines(windows(np.arange(30.0), 1))) == ["persistence", "window mean", "AR(1)"]


# -- scores -------------------------------------------------------------------------------------


def test_scores() -> None:
    score = Score.of(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 4.0]]))
    assert score.mse == 13 / 4
    assert score.rmse == (13 / 4) ** 0.5
    assert score.mae == 5 / 4
    assert score.step_mse == (4.5, 2.0)


def test_coverage_counts_what_falls_between_the_bounds_and_on_them() -> None:
    lower, upper = np.zeros((4, 1)), np.ones((4, 1))
    coverage = Coverage.of(0.9, lower, upper, np.array([[0.0], [0.5], [1.0], [1.5]]))
    assert coverage == Coverage(nominal=0.9, actual=0.75, width=1.0)
