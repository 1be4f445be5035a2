"""Functions that are made of Python text, for what runs at every launch."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=512)
def maker_of(text: str) -> Callable[..., Any]:
    """The function ``make`` that a text defines, which takes the values of its names."""
    namespace: dict[str, Any] = {}
    exec(text, namespace)  # noqa: S102  (it is made of literals of this package and of backends')
    made: Callable[..., Any] = namespace["make"]
    return made
