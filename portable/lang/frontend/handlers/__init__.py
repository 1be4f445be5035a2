"""What each word of the language means, a module per group of words."""

from __future__ import annotations

from portable.lang.frontend.builder import HANDLERS
from portable.lang.frontend.handlers import (  # noqa: F401 - each registers its words
    atomics,
    collectives,
    copies,
    matrices,
    memory,
    numbers,
    pipelines,
)

__all__ = ["HANDLERS"]
