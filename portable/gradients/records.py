"""What a tape keeps of each launch and operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import numpy as np

from portable.errors import DataError, UnsupportedError
from portable.gradients.memory_of import Memory, is_real
from portable.gradients.sums import add_to, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import mapped
from portable.primitives import copy

__all__ = ["Gradients", "KernelRecord", "OperationRecord", "Record", "UnseenRecord", "Value"]


@dataclass(eq=False)
class Value:
    """An array at one time: itself as long as nothing else is written to it, then a copy.

    Attributes
    ----------
    array : array
    memory : Memory
    sample : bytes or None
        Some of its elements when something read it, of NumPy's arrays, which anybody may write.
    """

    array: Any
    memory: Memory
    sample: bytes | None = None

    def take_sample(self) -> None:
        """Remembers some elements."""
        if self.sample is None and isinstance(self.array, np.ndarray):
            self.sample = _sample(self.array)

    def check(self) -> None:
        """Refuses it where something else wrote to it, as far as some elements tell.

        Raises
        ------
        DataError
            If it did.
        """
        if self.sample is not None and _sample(self.array) != self.sample:
            raise DataError(
                f"an array of shape {self.memory.shape} was written after something on the tape "
                "read it, by what the tape does not see; write to it by a kernel or by "
                "portable.primitives.copy, or to another array"
            )


_SAMPLED: Final = 256


def _sample(x: np.ndarray[Any, Any]) -> bytes:
    """Elements from all over an array."""
    step = max(1, x.size // _SAMPLED)
    return bytes(x.flat[np.arange(0, x.size, step)].tobytes())


class Gradients:
    """Those of arrays, on the way back.

    Parameters
    ----------
    active : set of Memory
        The arrays that depend on what gradients are asked for.
    """

    def __init__(self, active: set[Memory]) -> None:
        self.active = active
        self.found: dict[Memory, Any] = {}

    def of(self, value: Value) -> Any:
        """Where the gradient of an array grows; None if it needs none."""
        if value.memory in self.found:
            return self.found[value.memory]
        if value.memory not in self.active:
            return None
        made = self.found[value.memory] = nought_for(value.array)
        return made

    def taken(self, value: Value) -> Any:
        """That of an array that is written by what is gone back through; nought before that."""
        return self.found.pop(value.memory, None)


class Record(ABC):
    """One launch or operation.

    Attributes
    ----------
    reads, writes : list of Value
        The arrays that it reads and writes.
    """

    reads: list[Value]
    writes: list[Value]

    def kept(self) -> list[Value]:
        """The arrays that its gradient needs as they were."""
        return self.reads

    @abstractmethod
    def back(self, gradients: Gradients) -> None:
        """Goes back through it."""


@dataclass(eq=False)
class KernelRecord(Record):
    """A launch of a kernel.

    Attributes
    ----------
    adjoint : AdjointKernel or Kernel
    key : object
        The ndrange and workgroup.
    args : tuple
    constants : dict
    values : dict
        The arrays among the arguments, by their number with those of structs in place.
    both : set of int
        The numbers of those that it reads and writes.
    """

    adjoint: Any
    key: Any
    args: tuple[Any, ...]
    constants: Mapping[str, Any]
    values: dict[int, Value]
    both: set[int]
    reads: list[Value] = field(default_factory=list)
    writes: list[Value] = field(default_factory=list)

    def back(self, gradients: Gradients) -> None:
        """Launches the adjoint."""
        again: list[tuple[Any, Any]] = []
        used: set[Memory] = set()

        def gradient(number: int, x: Any) -> Any:
            value = self.values.get(number)
            if value is None or not is_array(x) or not is_real(x):
                return None
            total = gradients.of(value)
            if total is None or value.memory not in used:
                used.add(value.memory)
                return total
            more = nought_for(x)
            again.append((total, more))
            return more

        def given(number: int, x: Any) -> Any:
            value = self.values.get(number)
            if value is None:
                return x
            return copy(value.array) if number in self.both else value.array

        args = _numbered(self.args, given)
        self.adjoint[self.key](*args, *_numbered(self.args, gradient), **self.constants)
        for total, more in again:
            add_to(total, more)


@dataclass(eq=False)
class OperationRecord(Record):
    """An operation, and what goes back through it.

    Attributes
    ----------
    through : callable
        Takes where gradients grow.
    needs : list of Value
        The arrays that it needs as they were.
    """

    through: Callable[[Gradients], None]
    reads: list[Value]
    writes: list[Value]
    needs: list[Value]

    def kept(self) -> list[Value]:
        """The arrays that it needs."""
        return self.needs

    def back(self, gradients: Gradients) -> None:
        """Goes back through it."""
        self.through(gradients)


@dataclass(eq=False)
class UnseenRecord(Record):
    """Something that has no gradient here: refused where one would go through it.

    Attributes
    ----------
    name : str
        What the user called.
    """

    name: str
    reads: Sequence[Value]  # type: ignore[assignment]
    writes: Sequence[Value]  # type: ignore[assignment]

    def kept(self) -> list[Value]:
        """Nothing."""
        return []

    def back(self, gradients: Gradients) -> None:
        """Refuses, unless it only overwrote what it wrote.

        Raises
        ------
        UnsupportedError
            Naming it.
        """
        if any(x.memory in gradients.active for x in self.reads):
            raise UnsupportedError(
                f"{self.name} has no gradient here; give it one by portable.custom_vjp, or write "
                "it as a kernel"
            )
        for x in self.writes:
            gradients.taken(x)


def _numbered(args: tuple[Any, ...], change: Callable[[int, Any], Any]) -> tuple[Any, ...]:
    """Arguments with each changed, numbered with those of structs in place."""
    numbers = count()
    return mapped(args, lambda x: change(next(numbers), x))
