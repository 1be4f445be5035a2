"""Element-wise operations as this package's arrays have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from portable.primitives.maps import engine

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["apply"]

apply: Final[Callable[..., Array]] = engine.apply
"""`portable.primitives.maps.engine.apply`, whose results are arrays of this package here."""
