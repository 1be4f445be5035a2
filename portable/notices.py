"""What users are told once, although it goes on being so."""

from __future__ import annotations

import warnings
from typing import Final

from portable.locks import fork_safe_lock

__all__ = ["warn_once"]

_told: Final[set[str]] = set()
_telling: Final = fork_safe_lock()


def warn_once(text: str) -> None:
    """A warning that this process has not given before."""
    with _telling:
        if text in _told:
            return
        _told.add(text)
    warnings.warn(text, stacklevel=3)
