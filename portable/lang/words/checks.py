"""What a kernel's author holds for certain."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = ["check"]


@word
def check(condition: Any, message: str = "") -> None:
    """Reports work-items for which a bool does not hold, where checks are on; else costs nothing.

    The simulator always reports. Compiled kernels do with ``PORTABLE_CHECK=1`` in the environment,
    at the next synchronisation, as `portable.errors.CheckError`; the work-item goes on.
    """
