"""Warnings and remarks that are given once in a process."""

from __future__ import annotations

import warnings
from typing import Final

from portable.errors import Location, Remark
from portable.system.files import fork_safe_lock

_told: Final[set[str]] = set()
_telling: Final = fork_safe_lock()


def warn_once(text: str, subject: str = "") -> None:
    """A warning that this process has not given before, or none on the same subject."""
    if _is_new(subject or text):
        warnings.warn(text, stacklevel=3)


def remark(text: str, location: Location) -> None:
    """A `portable.errors.Remark` on a line of a kernel that this process has not given before."""
    if _is_new(f"{location}: {text}"):
        warnings.warn_explicit(text, Remark, location.file, location.line)


def _is_new(text: str) -> bool:
    with _telling:
        new = text not in _told
        _told.add(text)
    return new
