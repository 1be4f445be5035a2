"""Model files that do not hold what they say."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable.forecast.forecaster import Settings
from portable.nn import MLP, ModelFileError

Array = np.ndarray[Any, Any]


def hostile(path: Path, state: dict[str, Array], sizes: str) -> str:
    from safetensors.numpy import save_file

    save_file(state, path, {"sizes": sizes, "activation": "relu"})
    with pytest.raises(ModelFileError) as caught:
        MLP.load(path, device="simulator")
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_files_that_do_not_hold_what_they_say_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "hostile.safetensors"
    state = MLP([2, 3, 1], device="simulator").state_dict()
    none: dict[str, Array] = {}
    tracemalloc.start()
    assert "20000, 20000 has 0.weight, 0.bias, too" in hostile(path, none, "20000,20000")
    assert "0.weight has shape (3, 2)" in hostile(path, state, "20000,20000,1")
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert "0.weight has shape (3, 2)" in hostile(path, state, "2, 4, 1")
    assert "has 4.weight, 4.bias, too" in hostile(path, state, "2,3,1,1")
    assert "has no 2.bias, 2.weight" in hostile(path, state, "2,3")
    assert "each a whole number from 1" in hostile(path, state, "2,-3,1")
    assert "no sizes and activation" in hostile(path, state, "9" * 5000)
    mixed = {**state, "2.bias": state["2.bias"].astype(np.float64)}
    assert "parameters are F32 and F64" in hostile(path, mixed, "2,3,1")
    whole = {name: value.astype(np.int32) for name, value in state.items()}
    assert "parameters are I32; networks are all of one" in hostile(path, whole, "2,3,1")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"window": 1e999}', '{"window": 10}', "null", "NaN"]
)
def test_settings_of_a_forecast_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="damaged settings"):
        Settings.from_metadata({"forecast": text})
