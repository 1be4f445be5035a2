"""Numbers as people read them."""

from __future__ import annotations

from typing import Final

_UNITS: Final = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
_NONE: Final = "-"


def seconds(x: float | None) -> str:
    """With three digits and the unit that suits."""
    if x is None:
        return _NONE
    unit, factor = next((u for u in _UNITS if x * u[1] >= 1), ("ps", 1e12))
    return f"{x * factor:.3g} {unit}" if x * factor < 1000 else f"{x * factor:.0f} {unit}"


def percent(x: float | None) -> str:
    """A fraction in hundredths."""
    if x is None:
        return _NONE
    return f"{100 * x:.2g} %" if x < 0.1 else f"{100 * x:.0f} %"


def number(x: float | None) -> str:
    """With three digits, or all those before the point."""
    if x is None:
        return _NONE
    return f"{x:.3g}" if x < 1000 else f"{x:,.0f}"
