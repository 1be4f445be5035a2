"""Networks compute on their own device, whatever device is in use."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable import namespace
from portable.backend import Device
from portable.nn import MLP, fit


@pytest.mark.parametrize("way", ["one kernel", "layer by layer"])
@pytest.mark.needs_processor
@pytest.mark.parametrize(("own", "used"), [("simulator", "cpu"), ("cpu", "simulator")])
def test_a_network_computes_on_its_own_device(
    way: str, own: str, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every launch of NumPy's arrays asks for the device in use."""
    seen: set[Device] = set()

    def asked() -> Device:
        seen.add(found := namespace.device_for_numpy())
        return found

    monkeypatch.setattr("portable.lang.launch.launch.device_for_numpy", asked)
    if way == "layer by layer":
        monkeypatch.setattr("portable.nn.fused.forward_shape", lambda *given: None)
        monkeypatch.setattr("portable.nn.fused.training_shape", lambda *given, **more: None)
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    out = np.empty((6, 3), np.float32)
    model = MLP([4, 6, 3], device=own)
    with portable.use(used):
        model(x)
        model.prepare(x, out=out)()
        fit(model, x, x[:, :3], epochs=1, batch_size=6, validation=(x, x[:, :3]), patience=1)
        assert portable.device() is portable.device(used)
    assert seen == {portable.device(own)}
