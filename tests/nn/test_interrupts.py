"""Ctrl-C while a network is trained, whatever is being done at that moment."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from portable.nn import MLP, fit
from tests.support.patience import alarms_interrupt


class _Alarm:
    """A schedule whose first question, when training has begun, sets an alarm.

    Set before, it might come while a busy machine still prepares the training, and end the tests.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay

    def __call__(self, step: int, steps: int) -> float:
        if self._delay:
            signal.setitimer(signal.ITIMER_REAL, self._delay)
            self._delay = 0.0
        return 1.0


@pytest.mark.needs_processor
@pytest.mark.parametrize("watched", [False, True])
def test_ctrl_c_leaves_a_network_that_works(watched: bool) -> None:
    x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    y = x[:, :2]
    given: dict[str, Any] = {"validation": (x, y), "patience": 10**6} if watched else {}
    model = MLP([3, 7, 2], device="cpu")
    fit(model, x, y, epochs=1, batch_size=8, **given)
    with alarms_interrupt():
        for delay in (0.03, 0.0517, 0.0831, 0.11):
            alarm = _Alarm(delay)
            history = fit(model, x, y, epochs=10**7, batch_size=8, schedule=alarm, **given)
            assert history.stopped == "interrupted"
            assert np.isfinite(model.vector).all()
            assert np.isfinite(model(x)).all()
