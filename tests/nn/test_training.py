"""The loop of training on every device, both ways: what it learns, keeps and tells."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable
from portable.backend import Device
from portable.nn import MLP, SGD, Adam, fit, huber, mse
from portable.nn.history import History
from portable.nn.layered import LayeredTrainer
from portable.nn.loss_passes import MeanLoss
from portable.nn.optimizers import Step
from tests.nn.both_ways import SIZES, Array, assert_near, network, precision, samples

pytestmark = pytest.mark.usefixtures("in_use")

LOOP: Any = {"optimizer": SGD(0.05), "batch_size": 8}


def test_training_learns(device: Device, way: str) -> None:
    x, _ = samples(24, SIZES, precision(device))
    y = np.maximum(x[:, :2], 0)
    model = network(device)
    epochs = 4 if device.interprets else 200
    history = fit(model, x, y, **LOOP, epochs=epochs)
    assert history.stopped == "epochs"
    assert history.epochs == epochs
    assert history.validation == []
    assert history.train[-1] < history.train[0] * (0.9 if epochs == 4 else 0.1)


def test_the_same_seed_gives_the_same_parameters(device: Device, way: str) -> None:
    x, y = samples(20, SIZES, precision(device))
    states = []
    for seed in (1, 1, 2):
        model = network(device)
        fit(model, x, y, **LOOP, epochs=1, seed=seed)
        states.append(model.state_dict()["0.weight"])
    assert np.array_equal(states[0], states[1])
    assert not np.array_equal(states[0], states[2])


def test_devices_agree_for_the_first_steps(device: Device, way: str) -> None:
    x, y = samples(20, SIZES, precision(device))
    states = []
    for where in (device, portable.device("simulator")):
        model = MLP(SIZES, device=where, dtype=precision(device))
        with portable.use(where):
            fit(model, x, y, **LOOP, epochs=1)
        states.append(model.state_dict())
    assert_near(states[0], states[1], precision(device))


def test_the_best_epoch_is_restored(device: Device, way: str) -> None:
    x, y = samples(10, SIZES, precision(device))
    model = network(device)
    kept: list[dict[str, Array]] = []

    def turns_back(step: int, steps: int) -> float:
        kept.append(model.state_dict())
        return 0.2 if step < 3 else -50.0

    history = fit(model, x, y, **LOOP, epochs=10, validation=0.2, schedule=turns_back, patience=2)
    best = history.best_epoch
    assert best is not None
    assert history.stopped == "patience"
    assert history.restored
    assert history.epochs == best + 3
    assert np.array_equal(model.state_dict()["0.weight"], kept[best + 1]["0.weight"])
    watched = device.from_numpy(x[8:]), device.from_numpy(y[8:])
    assert MeanLoss(model, mse)(*watched) == history.validation[best]


def test_interrupting_leaves_a_network_that_works(device: Device, way: str) -> None:
    def interrupts(step: int, steps: int) -> float:
        if step == 2:
            raise KeyboardInterrupt
        return 1.0

    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    history = fit(model, x, y, **LOOP, epochs=9, validation=(x, y), schedule=interrupts)
    assert history.stopped == "interrupted"
    assert history.epochs == 2
    assert np.isfinite(device.to_numpy(model(device.from_numpy(x)))).all()


def test_training_that_diverges_leaves_a_network_that_works(
    device: Device, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the fourth of six epochs, then in the only one, after which no loss would tell."""
    # However long an epoch takes, the second and third go at once.
    monkeypatch.setattr("portable.nn.run._SOON", math.inf)
    huge = 1e37 if precision(device) == "float32" else 1e300

    def runs_away(step: int, steps: int) -> float:
        return 1.0 if step < 3 and steps > 1 else huge

    x, y = samples(8, SIZES, precision(device))
    model, expected = network(device), network(device)
    fit(expected, x, y, **LOOP, epochs=3)
    for epochs, kept in ((6, 2), (1, -1)):
        with pytest.warns(UserWarning, match="diverged in epoch"):
            history = fit(model, x, y, **LOOP, epochs=epochs, schedule=runs_away)
        assert history.stopped == "diverged"
        assert history.restored
        assert history.kept_epoch == kept
        for name, value in expected.state_dict().items():
            assert np.array_equal(model.state_dict()[name], value)


def test_infinite_parameters_behind_finite_outputs_are_seen(device: Device) -> None:
    """What feeds units that are off for ever."""
    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    state = model.state_dict()

    def spoils(step: int, steps: int) -> float:
        if step == 1:
            model.parameters()[1][...] = device.from_numpy(np.full(7, -np.inf, x.dtype))
        return 0.0

    with pytest.warns(UserWarning, match="after epoch 0"):
        fit(model, x, y, **LOOP, epochs=3, validation=(x, y), schedule=spoils)
    assert np.array_equal(model.state_dict()["0.bias"], state["0.bias"])
    model.parameters()[1][...] = device.from_numpy(np.full(7, np.nan, x.dtype))
    with pytest.raises(ValueError, match=r"parameters of .* are NaN or infinite"):
        fit(model, x, y, **LOOP, epochs=1)


def test_the_progress_bar_shows_losses(device: Device, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = samples(8, SIZES, precision(device))
    model = network(device)
    fit(model, x, y, **LOOP, epochs=1, validation=(x, y))
    assert capsys.readouterr() == ("", "")
    fit(model, x, y, **LOOP, epochs=1, validation=(x, y), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "1/1" in err
    assert "validation" in err


def test_the_best_epoch_is_that_of_the_least_loss() -> None:
    assert History().best_epoch is None
    assert History(train=[3, 1, 2]).best_epoch == 1
    long = repr(History(train=[3.0] * 999 + [0.25], validation=[1.0], seconds=2))
    assert long == (
        "<History: 1000 epochs in 2 s, stopped by 'epochs', loss 3 to 0.25, validation 1 to 1>"
    )
    assert History(train=[3, 1, 2], validation=[1, 2, float("nan")]).best_epoch == 0


def test_bfloat16_learns_and_is_kept_in_files(device: Device, way: str, tmp_path: Path) -> None:
    kind = pytest.importorskip("ml_dtypes").bfloat16
    if device.backend == "sycl":
        pytest.skip("dpnp lacks bfloat16")
    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, None].astype(kind)
    model = MLP((1, 8, 1), device=device, dtype="bfloat16")
    history = fit(model, x, x * x, optimizer=Adam(0.03), epochs=12, batch_size=16)
    assert history.train[-1] < 0.5 * history.train[0]
    model.save(tmp_path / "model")
    again = MLP.load(tmp_path / "model", device=device)
    given = device.from_numpy(x)
    found, kept = (portable.to_numpy(m(given)) for m in (model, again))
    assert found.dtype == kind
    assert np.array_equal(found, kept)
    # Far below what half precision's numbers reach, without a scale: the parameters still move.
    small = np.full((16, 1), 1e-9, np.float32).astype(kind)
    before = model.state_dict()
    fit(model, small, small, optimizer=SGD(1.0), epochs=1, batch_size=16)
    assert any((before[name] != part).any() for name, part in model.state_dict().items())


def test_replayed_epochs_are_the_same(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a device repeats work, an epoch's arrays are filled again for the next one."""
    x, y = (device.from_numpy(part) for part in samples(9, SIZES, precision(device)))
    found, replayed = [], []

    def replay(work: Callable[[], object]) -> Callable[[], object]:
        replayed.append(work)
        return partial(work)

    for repeats in (lambda work: work, replay):
        monkeypatch.setattr(device, "replay", repeats)
        model = MLP(SIZES, device=device, dtype=precision(device))
        trainer = LayeredTrainer(model, Step(huber(0.5), Adam(0.1), 4))
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(9).astype(np.int32)[None]
            trainer.epochs(x, y, order, Adam(0.1).numbers(1 + 3 * seed, [0.1, 0.05, 0.02]))
        found.append(model.state_dict())
    assert len(replayed) == 1
    assert all((found[0][name] == part).all() for name, part in found[1].items())
