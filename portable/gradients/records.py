"""What a tape keeps of each launch and operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.dtypes import dtype
from portable.errors import DataError, UnsupportedError
from portable.gradients.memory_of import Memory, is_real
from portable.gradients.sums import add_to, nought_for
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import mapped
from portable.lang.kernel import kernel
from portable.namespace import device_of
from portable.primitives import copy


@dataclass(eq=False)
class Value:
    """An array at one time: itself as long as nothing else is written to it, then a copy.

    Attributes
    ----------
    array : array
    memory : Memory
    sample : bytes, array or None
        Some of its elements when something read it: of NumPy's arrays on the host, of others where
        they live.
    """

    array: Any
    memory: Memory
    sample: Any = None

    def take_sample(self) -> None:
        """Remembers some elements."""
        if self.sample is not None:
            return
        if isinstance(self.array, np.ndarray):
            self.sample = _sample(self.array)
        else:
            some = _some(self.array, self.memory)
            self.sample = None if some is None else copy(some)

    def check(self, changed: Changed) -> None:
        """Looks whether something else wrote to it, as far as some elements tell.

        Raises
        ------
        DataError
            If it did, and the array is NumPy's; of others `changed` will tell.
        """
        if isinstance(self.sample, bytes):
            if _sample(self.array) != self.sample:
                raise _was_written(self.memory.shape)
        elif self.sample is not None:
            changed.look(self.sample, _some(self.array, self.memory))


def _was_written(shape: tuple[int, ...] | None = None) -> DataError:
    which = "an array" if shape is None else f"an array of shape {shape}"
    return DataError(
        f"{which} was written after something on the tape read it, by what the tape does not see; "
        "write to it by a kernel or by portable.primitives.copy inside the tape's with statement, "
        "or to another array"
    )


class Changed:
    """Compares samples on their device, and reports at the end."""

    def __init__(self) -> None:
        self._flags: dict[Any, Any] = {}

    def look(self, sample: Any, now: Any) -> None:
        """Compares some elements with what they were."""
        device = device_of(sample)
        if device not in self._flags:
            self._flags[device] = device.from_numpy(np.zeros(1, np.int32))
        _compare[sample.shape[0]](sample, now, self._flags[device])

    def tell(self) -> None:
        """Raises where some differed.

        Raises
        ------
        DataError
            If some did.
        """
        if any(int(device.to_numpy(flag)[0]) for device, flag in self._flags.items()):
            raise _was_written()


@kernel
def _compare(before: Any, now: Any, flag: Any) -> None:
    """Raises a flag where elements differ; NaN is as NaN."""
    i = kl.global_id(0)
    a, b = before[i], now[i]
    if a != b and not (a != a and b != b):
        kl.atomic_max(flag, 0, 1)


def _some(x: Any, memory: Memory) -> Any:
    """A view of some elements from all over an array in C order; None of another one."""
    size, kind = prod(memory.shape), dtype(x.dtype)
    descending = all(a >= b for a, b in pairwise(memory.strides))
    whole = memory.high - memory.low == size * kind.itemsize
    if not size or not descending or not whole or kind.is_complex:
        return None
    return x.reshape((-1,))[:: max(1, size // _SAMPLED)]


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
