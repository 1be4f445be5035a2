"""The outer names that a kernel was translated with, to see when one of them stands for another.

A kernel means what its names stand for when it is launched, as a Python function does. What they
stood for when it was translated is kept with the program.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CellType, FunctionType, ModuleType
from typing import Any, Final, Protocol

import numpy as np

from portable.dtypes import DType
from portable.lang.arguments.arguments import constant_key

_OURS: Final = ("portable.", "portable_backends.", "portable_bench.")
_PLAIN_VALUES: Final = (bool, int, float, complex, str, tuple, DType, np.generic)
_MISSING: Final = object()


class _Space(Protocol):
    """Where a name is looked up."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """What it stands for now."""


class _Cell:
    """What a closure holds, by its name."""

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def get(self, name: str, default: Any = None, /) -> Any:
        """What it holds now."""
        del name
        try:
            return self._cell.cell_contents
        except ValueError:
            return default


class NamesRead:
    """Names, where they are looked up, and what they stood for.

    Those of Portable's own modules do not change, nor do modules and built-ins.

    Attributes
    ----------
    found : dict
        The same one for good; empty as long as there are none.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], tuple[_Space, str, Any]] = {}

    def note(self, function: Callable[..., Any], name: str, value: Any) -> None:
        """That a function's outer name was read."""
        if isinstance(value, ModuleType) or not isinstance(function, FunctionType):
            return
        if str(function.__module__).startswith(_OURS):
            return
        free = function.__code__.co_freevars
        if name in free and function.__closure__ is not None:
            cell = function.__closure__[free.index(name)]
            self.found[id(cell), name] = _Cell(cell), name, value
        elif name in function.__globals__:
            self._note(function.__globals__, name, value)

    def note_attribute(self, owner: Any, name: str, value: Any) -> None:
        """That a name of a module was read, or a constant of a class."""
        if isinstance(owner, ModuleType):
            if not f"{owner.__name__}.".startswith((*_OURS, "numpy.")):
                self._note(vars(owner), name, value)
        elif isinstance(owner, type) and isinstance(value, _PLAIN_VALUES):
            holder = next((kind for kind in owner.__mro__ if name in vars(kind)), None)
            if holder is not None and vars(holder)[name] is value:
                self._note(vars(holder), name, value)

    def _note(self, space: Any, name: str, value: Any) -> None:
        if name in space:
            self.found[id(space), name] = space, name, value

    def hold(self) -> bool:
        """Whether all of them stand for what they stood for."""
        for key, (space, name, value) in tuple(self.found.items()):
            now = space.get(name, _MISSING)
            if now is value:
                continue
            if not _same(now, value):
                return False
            self.found[key] = space, name, now  # which is compared faster the next time
        return True

    def add(self, others: NamesRead) -> None:
        """Takes those of another translation, too."""
        self.found.update(others.found)


def _same(a: Any, b: Any) -> bool:
    """Whether two constants mean the same to a kernel."""
    try:
        return bool(constant_key(a) == constant_key(b))
    except (TypeError, ValueError):
        return False
