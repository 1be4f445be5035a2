"""Falls back to the next tuned choice where a device refuses one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from portable.errors import CompileError, LaunchError, UnsupportedError

_Choice = TypeVar("_Choice")
_Result = TypeVar("_Result")


def first_accepted(choices: Sequence[_Choice], use: Callable[[_Choice], _Result]) -> _Result:
    """What `use` makes of the first choice that the device compiles and launches.

    Raises
    ------
    CompileError, LaunchError, UnsupportedError
        For the last of them, if none is.
    """
    for choice in choices[:-1]:
        with suppress(CompileError, LaunchError, UnsupportedError):
            return use(choice)
    return use(choices[-1])
