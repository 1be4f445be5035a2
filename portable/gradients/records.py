"""What a tape keeps of each launch and operation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.errors import DataError, UnsupportedError
from portable.gradients.kernels import AdjointKernel
from portable.gradients.memory_of import Memory, is_real
from portable.gradients.sums import add_to, nought_for
from portable.gradients.versions import Family, Value, Versions
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.structs import mapped
from portable.lang.kernel import kernel
from portable.namespace import device_of
from portable.primitives import copy, fill


def take_sample(value: Value) -> None:
    """Remembers some elements of an array."""
    if isinstance(value.array, np.ndarray):
        value.sample = _sample(value.array)
    else:
        some = _some(value.array, value.memory)
        value.sample = None if some is None else copy(some)


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

    def check(self, value: Value) -> None:
        """Looks whether something else wrote to an array, as far as some elements tell.

        Raises
        ------
        DataError
            If it did, and the array is NumPy's; of others `tell` will tell.
        """
        if isinstance(value.sample, int):
            if _sample(value.array) != value.sample:
                raise _was_written(value.memory.shape)
        elif value.sample is not None:
            self._look(value.sample, _some(value.array, value.memory))

    def _look(self, sample: Any, now: Any) -> None:
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
    """Some elements from all over an array, a view if it is in C order; None without any."""
    size = prod(memory.shape)
    if not size:
        return None
    if memory.is_contiguous:
        return x.reshape((-1,))[:: max(1, size // _SAMPLED)]
    most = max(1, round(_SAMPLED ** (1 / len(memory.shape))))
    return copy(x[tuple(slice(None, None, max(1, n // most)) for n in memory.shape)]).reshape((-1,))


_SAMPLED: Final = 256


_WHOLE: Final = 1 << 16
"""Bytes up to which NumPy's arrays are compared whole."""


def _sample(x: np.ndarray[Any, Any]) -> int:
    """A digest of an array, or of elements from all over a large one."""
    if x.nbytes <= _WHOLE:
        return hash(x.tobytes())
    step = x.size // _SAMPLED
    return hash(x.flat[np.arange(0, x.size, step)].tobytes())


class Gradients:
    """Those of arrays, on the way back: of a family one that is as large as its root.

    Parameters
    ----------
    active : set of Memory
        The arrays that depend on what gradients are asked for.
    versions : Versions
    """

    def __init__(self, active: set[Memory], versions: Versions) -> None:
        self.active = active
        self._versions = versions
        self._found: dict[Memory, Any] = {}

    def _root(self, memory: Memory) -> Memory:
        family = self._versions.family(memory)
        return memory if family is None else family.memory

    def held(self, memory: Memory) -> Any:
        """That of an array if there is one, else None."""
        family = self._versions.family(memory)
        whole = self._found.get(self._root(memory))
        return whole if family is None or whole is None else family.part(whole, memory)

    def of(self, value: Value, *, clear: bool = True) -> Any:
        """Where the gradient of an array grows; None if it needs none.

        One that begins here is nought; unless `clear` it may hold anything, if no array shares its
        memory.
        """
        held = self.held(value.memory)
        if held is not None or value.memory not in self.active:
            return held
        if clear or self._versions.family(value.memory) is not None:
            return self._begun(value)
        made = self._found[value.memory] = nought_for(value.live, None)
        return made

    def _begun(self, value: Value) -> Any:
        family = self._versions.family(value.memory)
        root = value.live if family is None else family.root
        self._found[self._root(value.memory)] = nought_for(root)
        return self.held(value.memory)

    def begin(self, value: Value, seed: Any) -> None:
        """That of an array where the way back begins."""
        if self._versions.family(value.memory) is None:
            self._found[value.memory] = seed
        else:
            copy(seed, self._begun(value))

    def taken(self, value: Value) -> Any:
        """That of an array that is written by what is gone back through; nought before that."""
        if self._root(value.memory) == value.memory:
            return self._found.pop(value.memory, None)
        part = self.held(value.memory)
        if part is None or not part.size:
            return part
        total = copy(part)
        fill(part, 0)
        return total


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

    def depends_on(self, active: set[Memory]) -> bool:
        """Whether it reads one of some arrays."""
        return any(x.memory in active for x in self.reads)

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
    wrote : range
        Which of the tape's writes are its own.
    """

    adjoint: Any
    key: Any
    args: tuple[Any, ...]
    constants: Mapping[str, Any]
    values: dict[int, Value]
    both: set[int]
    reads: list[Value]
    writes: list[Value]
    wrote: range = range(0)

    def back(self, gradients: Gradients) -> None:
        """Launches the adjoint."""
        again: list[tuple[Any, Any]] = []
        fresh: set[int] = set()
        borrowed: list[Family | None] = []
        used: set[Memory] = set()

        def gradient(number: int, x: Any) -> Any:
            value = self.values.get(number)
            if value is None or not is_array(x) or not is_real(x):
                return None
            if gradients.held(value.memory) is None and self._may_begin(value):
                fresh.add(number)
            total = gradients.of(value, clear=number not in fresh)
            if total is None or not any(value.memory.overlaps(x) for x in used):
                used.add(value.memory)
                return total
            more = nought_for(x)
            again.append((total, more))
            return more

        def given(number: int, x: Any) -> Any:
            value = self.values.get(number)
            if value is None:
                return x
            if number not in self.both:
                return value.array
            array, family = value.lent()
            borrowed.append(family)
            return array

        args = _numbered(self.args, given)
        slopes, launcher = _numbered(self.args, gradient), self.adjoint[self.key]
        if fresh:
            launcher.begin(args, slopes, fresh, self.constants)
        else:
            launcher(*args, *slopes, **self.constants)
        for family in borrowed:
            if family is not None:
                family.restore(self.wrote)
        for total, more in again:
            add_to(total, more)

    def _may_begin(self, value: Value) -> bool:
        """Whether the gradient of an array need not be nought before."""
        if not isinstance(self.adjoint, AdjointKernel):
            return False
        return not any(value.memory.overlaps(x.memory) for x in self.writes)


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

    def depends_on(self, active: set[Memory]) -> bool:
        """Whether it reads what shares memory with some arrays, which may be of no family."""
        return any(x.memory.overlaps(y) for x in self.reads for y in active)

    def back(self, gradients: Gradients) -> None:
        """Refuses, unless it only overwrote what it wrote.

        Raises
        ------
        UnsupportedError
            Naming it.
        """
        if self.depends_on(gradients.active):
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
