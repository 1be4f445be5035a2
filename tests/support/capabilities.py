"""Capabilities of devices that nobody has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portable.backend import Capabilities

_PLAIN = Capabilities(
    dialect="ir",
    kind="simulator",
    vendor="test",
    architecture="test",
    name="a test device",
    driver="1",
    float64=True,
    native_half=True,
)


def made_up(**changes: Any) -> Capabilities:
    """Those of a plain device with every number type, but for `changes`."""
    return replace(_PLAIN, **changes)
