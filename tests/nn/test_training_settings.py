"""What training refuses: data that does not fit, and settings out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable import lang as kl
from portable.backend import Device
from portable.errors import DTypeError, ShapeError
from portable.nn import MLP, SGD, Adam, Flatten, Linear, Sequential, fit, huber, quantile
from tests.nn.both_ways import SIZES, samples

pytestmark = pytest.mark.usefixtures("in_use")


def test_data_that_does_not_fit_is_refused(device: Device) -> None:
    model = MLP(SIZES, device=device)
    x, y = samples(12, SIZES, "float32")
    fixed: Any = {"epochs": 1, "batch_size": 4}
    with pytest.raises(ShapeError, match=r"x has shape \(12, 2\)"):
        fit(model, y, y, **fixed)
    with pytest.raises(ShapeError, match=r"y has shape \(12, 3\)"):
        fit(model, x, x, **fixed)
    with pytest.raises(ShapeError, match="x has 12 rows and y 11"):
        fit(model, x, y[:11], **fixed)
    with pytest.raises(ShapeError, match="at least one"):
        fit(model, x[:0], y[:0], **fixed)
    with pytest.raises(DTypeError, match="y is float16"):
        fit(model, x, y.astype(np.float16), **fixed)
    with pytest.raises(DTypeError, match="list is no array"):
        fit(model, x.tolist(), y, **fixed)
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="fit: x holds NaN; leave such samples out"):
        fit(model, x, y, **fixed)
    with pytest.raises(ValueError, match="validation y holds an infinity"):
        fit(model, x[:3], y[:3], validation=(x[:3], np.full((3, 2), np.inf, np.float32)), **fixed)


def test_settings_out_of_range_are_refused(device: Device) -> None:
    model = MLP(SIZES, device=device)
    x, y = samples(12, SIZES, "float32")
    fixed: Any = {"epochs": 1, "batch_size": 4}
    for name, value in (("epochs", 0), ("batch_size", 0), ("clip_norm", 0.0), ("patience", 0)):
        with pytest.raises(ValueError, match=f"{name}=0"):
            fit(model, x, y, **{**fixed, name: value})
    for name in ("epochs", "batch_size", "patience"):
        with pytest.raises(TypeError, match=rf"{name}=1\.5: expected a whole number"):
            fit(model, x, y, **{**fixed, name: 1.5})
    for optimizer in ("adam", Adam):
        with pytest.raises(TypeError, match=r"optimizer=.*; give SGD, Adam or AdamW"):
            fit(model, x, y, optimizer=optimizer, **fixed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there are mse, mae, huber"):
        fit(model, x, y, loss="hinge", **fixed)
    with pytest.raises(ValueError, match="patience needs a validation part"):
        fit(model, x, y, patience=3, **fixed)
    with pytest.raises(ValueError, match="leaves 0 to train on"):
        fit(model, x, y, validation=0.99, **fixed)
    with pytest.raises(ValueError, match="validation=nan: expected"):
        fit(model, x, y, validation=float("nan"), **fixed)
    with pytest.raises(ValueError, match=r"SGD\(lr=1e\+300.*beyond float32.*1e\+300"):
        fit(model, x, y, optimizer=SGD(1e300), **fixed)
    with pytest.raises(ShapeError, match="3 levels"):
        fit(model, x, y, loss=quantile((0.1, 0.5, 0.9)), **fixed)


def test_losses_and_optimizers_check_their_settings() -> None:
    with pytest.raises(ValueError, match="above 0"):
        huber(0)
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile((0.5, 1.0))
    with pytest.raises(ValueError, match="one or more numbers"):
        quantile(0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"SGD\(momentum=1\.5\)"):
        SGD(momentum=1.5)
    with pytest.raises(ValueError, match=r"Adam\(betas\[1\]=1\)"):
        Adam(betas=(0.9, 1))


class _Single(Flatten):
    """A layer of one's own that has no kernels for narrow numbers."""

    dtypes = (kl.f32, kl.f64)


def test_layers_say_what_they_are_worked_out_in(device: Device) -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(DTypeError, match=r"is worked out in float32, float64, not in bfloat16"):
        Sequential(_Single(), Linear(4, 1), dtype="bfloat16", device=device)


def test_settings_are_known_and_complete(device: Device) -> None:
    model = MLP((1, 1), device=device)
    x = np.zeros((2, 1), np.float32)
    wrong: Any = {"epochs": 1, "batchsize": 1}
    with pytest.raises(TypeError, match="fit needs batch_size and knows no batchsize"):
        fit(model, x, x, **wrong)
