"""Fixtures of training on every device, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import portable
from portable.backend import Device
from tests.nn.both_ways import WAYS


@pytest.fixture
def in_use(device: Device) -> Iterator[None]:
    with portable.use(device):
        yield


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Networks are trained both ways, whatever their size."""
    if request.param == "layer by layer":
        monkeypatch.setattr("portable.nn.fused.training_shape", lambda *given, **more: None)
    return str(request.param)
