"""NumPy's arrays are worked on by the device that a test runs on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import portable as pt


@pytest.fixture(autouse=True)
def _in_use(request: pytest.FixtureRequest) -> Iterator[None]:
    if "device" not in request.fixturenames:
        yield
        return
    with pt.use(request.getfixturevalue("device")):
        yield
