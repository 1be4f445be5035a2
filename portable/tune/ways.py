"""Tables of ways: the kernels by which an operation may be done, in order of preference.

An operation has one table. Whoever calls it asks the table alone; a test holds that every way in it
goes through every door of the operation (`tests/doors`), so that one reached by a size, a dtype or
a device that nobody tried cannot stay unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Asked = TypeVar("Asked")
Made = TypeVar("Made")


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True)
class Way(Generic[Asked, Made]):
    """How an operation may be done.

    Attributes
    ----------
    name : str
        In plain words.
    kernels : str
        Names of the kernels that it may launch, apart by spaces; those of operations that it calls
        are theirs.
    makes : callable
        What does it: launches, a method, or the result itself, the best first; nothing where there
        is no room for it.
    takes : callable
        Whether it can do what is asked for, and is worth trying.
    """

    name: str
    kernels: str
    makes: Callable[[Asked], Iterator[Made]]
    takes: Callable[[Asked], bool] = _always


class Ways(Generic[Asked, Made]):
    """The table of an operation.

    Parameters
    ----------
    operation : str
        Its name, that of no other table.
    ways : Way
        The best first: whatever takes what is asked for is tried before those behind it.
    """

    def __init__(self, operation: str, *ways: Way[Asked, Made]) -> None:
        self.operation: Final = operation
        self.ways: Final = ways
        TABLES[operation] = self  # type: ignore[assignment]

    def of(self, asked: Asked) -> Iterator[Made]:
        """All that can do what is asked for, the best first."""
        for way in self.ways:
            if way.takes(asked):
                yield from way.makes(asked)

    def first(self, asked: Asked) -> Made:
        """The best."""
        return next(self.of(asked))


TABLES: Final[dict[str, Ways[object, object]]] = {}
"""Those of all operations that were imported, by name."""
