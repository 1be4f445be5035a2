"""Ctrl-C while a network is trained, whatever is being done at that moment."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

from portable.nn import MLP, fit


@pytest.mark.needs_processor
@pytest.mark.parametrize("watched", [False, True])
def test_ctrl_c_leaves_a_network_that_works(watched: bool) -> None:
    x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    y = x[:, :2]
    given: dict[str, Any] = {"validation": (x, y), "patience": 10**6} if watched else {}
    model = MLP([3, 7, 2], device="cpu")
    fit(model, x, y, epochs=1, batch_size=8, **given)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for delay in (0.03, 0.0517, 0.0831, 0.11):
            signal.setitimer(signal.ITIMER_REAL, delay)
            history = fit(model, x, y, epochs=10**7, batch_size=8, **given)
            assert history.stopped == "interrupted"
            assert np.isfinite(model.vector).all()
            assert np.isfinite(model(x)).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
