"""Groups train what one device trains, and members that cannot go on say why."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import parallel
from portable.backend import Device
from portable.errors import ShapeError
from portable.nn import MLP, SGD, Conv2d, Flatten, Linear, Network, ReLU, Sequential, fit, team
from portable.parallel import Member, ParallelError
from tests.support.mpi import run_processes
from tests.support.patience import alarms_interrupt

Array = np.ndarray[Any, Any]

SCRIPT = Path(__file__).with_name("processes.py")


def classes(count: int) -> tuple[Array, Array]:
    random = np.random.default_rng(4)
    return random.standard_normal((count, 1, 4, 4)).astype(np.float32), random.integers(0, 3, count)


def images(device: Device) -> Sequential:
    return Sequential(Conv2d(1, 2, 2), ReLU(), Flatten(), Linear(18, 3), device=device)


def apart(a: Network, b: Network) -> float:
    other = b.state_dict()
    return max(float(np.abs(v - other[k]).max()) for k, v in a.state_dict().items())


def test_members_train_what_one_trains(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three, by batches of 8, 8 and 1: the last leaves members without samples."""
    monkeypatch.setattr(team, "_BUCKET", 64)
    x, y = classes(21)
    layers = Flatten(), Linear(16, 6), ReLU(), Linear(6, 3)
    settings: Any = {
        "loss": "cross_entropy",
        "optimizer": SGD(0.1, momentum=0.9),
        "epochs": 2,
        "batch_size": 8,
        "validation": 4 / 21,
        "clip_norm": 0.5,
    }
    alone, together = (Sequential(*layers, device=device) for _ in range(2))
    group = parallel.group([device] * 3)
    with pt.use(device):
        expected = fit(alone, x, y, **settings)
        found = fit(together, device.from_numpy(x), y, **settings, group=group)
    assert apart(alone, together) < 1e-6
    for name in ("train", "validation", "accuracy", "validation_accuracy"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5)


def test_several_kinds_of_devices_train_a_perceptron() -> None:
    """Small ones go layer by layer then; processors and the simulator stay in step."""
    random = np.random.default_rng(0)
    x = random.standard_normal((12, 3)).astype(np.float32)
    settings: Any = {"epochs": 2, "batch_size": 5, "patience": 1, "validation": (x, x[:, :2])}
    names = [d.name for d in pt.devices() if d.backend == "cpu"][:1]
    alone, together = (MLP([3, 4, 2], device="simulator", seed=1) for _ in range(2))
    expected = fit(alone, x, x[:, :2], **settings)
    group = parallel.group([*names, "simulator"])
    found = fit(together, x, x[:, :2], **settings, group=group)
    assert apart(alone, together) < 1e-6
    assert found.validation == pytest.approx(expected.validation, rel=1e-5)


def test_gradients_beyond_half_precision_cost_a_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As layer by layer on one device: the scale of losses is halved by all members alike."""
    monkeypatch.setattr("portable.nn.fused.training_shape", lambda *given, **more: None)
    x = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float16)
    settings: Any = {"optimizer": SGD(0.01), "epochs": 8, "batch_size": 8}
    alone, together = (MLP([3, 2], device="simulator", dtype="float16") for _ in range(2))
    with pt.use("simulator"):
        expected = fit(alone, x, 20 * x[:, :2], **settings)
    found = fit(together, x, 20 * x[:, :2], **settings, group=parallel.group(["simulator"] * 2))
    assert apart(alone, together) < 2e-2
    assert found.train == pytest.approx(expected.train, rel=1e-2)
    assert found.train[1] == pytest.approx(found.train[0], rel=1e-6)  # the first was left out
    assert found.train[-1] < 0.99 * found.train[0]


def test_a_training_that_diverges_does_so_everywhere() -> None:
    x, y = classes(8)
    model = images(pt.device("simulator"))
    before = model.state_dict()
    with pytest.warns(UserWarning, match="diverged in epoch 0"):
        history = fit(
            model,
            x,
            y,
            loss="cross_entropy",
            optimizer=SGD(1e38),
            epochs=3,
            batch_size=4,
            group=parallel.group(["simulator"] * 2),
        )
    assert (history.stopped, history.kept_epoch) == ("diverged", -1)
    assert all((value == before[name]).all() for name, value in model.state_dict().items())


def test_what_does_not_fit_is_one_error() -> None:
    x, y = classes(8)
    group = parallel.group(["simulator"] * 2)
    settings: Any = {"loss": "cross_entropy", "epochs": 1, "batch_size": 4, "group": group}
    model = images(pt.device("simulator"))
    with pytest.raises(ShapeError, match="layer 0, Conv2d"):
        fit(model, np.concatenate([x, x], 1), y, **settings)
    with pytest.raises(ValueError, match="validation=2"):
        fit(model, x, y, **settings, validation=2)


def test_interrupting_a_group_leaves_a_network_that_works() -> None:
    """Ctrl-C reaches the thread that waits for the members, and so all of them."""
    once = iter([True])

    def interrupts(step: int, steps: int) -> float:
        if step == 2 and next(once, False):
            own = threading.main_thread().ident
            assert own is not None
            signal.pthread_kill(own, signal.SIGALRM)
        return 1.0

    x, y = classes(8)
    model = images(pt.device("simulator"))
    before = model.state_dict()
    with alarms_interrupt():
        history = fit(
            model,
            x,
            y,
            loss="cross_entropy",
            epochs=500,
            batch_size=4,
            schedule=interrupts,
            group=parallel.group(["simulator"] * 2),
        )
    assert history.stopped == "interrupted"
    assert 1 <= history.epochs < 500
    after = model.state_dict()
    assert all(np.isfinite(value).all() for value in after.values())
    assert not (after["0.weight"] == before["0.weight"]).all()


def test_members_told_different_things_refuse_all_of_them() -> None:
    """As processes may be; threads of one call cannot."""
    x, y = classes(8)

    def work(member: Member) -> None:
        from portable.nn.training import agree, plan_of

        model = images(member.device)
        plan = plan_of(loss="cross_entropy", epochs=1 + member.rank, batch_size=4)
        with pytest.raises(
            ParallelError, match=r"member 0: epochs 1, y .*; member 1: epochs 2, y "
        ):
            agree(member, model, plan, x, y[:: 1 - 2 * member.rank], None)

    parallel.group(["simulator"] * 2).run(work)


def test_processes_train_what_one_trains() -> None:
    done = run_processes(2, SCRIPT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["apart"] < 1e-6
    assert found["train"] == pytest.approx(found["alone"], rel=1e-5)
    assert all("told to train different things: member 0: epochs 1" in e for e in found["refused"])
    assert all("y has classes from 0 to 99" in e for e in found["failed"])


@pytest.mark.parametrize("who", ["0", "1", "all"])
def test_ctrl_c_in_a_process_ends_the_training_of_all(who: str) -> None:
    """Wherever in a step it comes; none of them waits for those who left."""
    done = run_processes(2, SCRIPT.with_name("interrupted.py"), who, "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "interrupted and the same"
    assert "was interrupted: all end together soon" in done.stderr
