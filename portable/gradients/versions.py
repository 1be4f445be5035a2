"""What arrays of a tape held when they were read, though parts of them were written since.

Arrays that lie in another one (`rows[t]` in `rows`) are a family with it, their root. What is about
to be written is kept where something still needs it, and no more than that. On the way back one
copy of a root takes what was kept again, write by write, and so becomes what it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from portable import recording
from portable.errors import LaunchError
from portable.gradients.memory_of import Memory, is_real, memory_of
from portable.primitives import copy


class Value:
    """An array at one time.

    Attributes
    ----------
    memory : Memory
    needed : bool
        Whether a gradient will need what was in it, now or before parts of it were overwritten.
    sample : int, array or None
        Of when something read it: a digest of a NumPy array, some elements of another one.
    begin, end : int
        Between which writes of the tape's it was so; `end` is None while it is.
    kept : array or None
        A copy, made when the whole of it was overwritten.
    """

    def __init__(self, live: Any, memory: Memory, versions: Versions, begin: int) -> None:
        self.live: Final = live
        self.memory: Final = memory
        self.needed = False
        self.sample: Any = None
        self.begin: Final = begin
        self.end: int | None = None
        self.kept: Any = None
        self._versions = versions

    @property
    def array(self) -> Any:
        """What was in it; of a family, until that of another time is asked for."""
        if self.end is None or self.kept is not None:
            return self.live if self.kept is None else self.kept
        family = self._versions.family(self.memory)
        return self.live if family is None else family.at(self, self.end)

    def lent(self) -> tuple[Any, Family | None]:
        """The same to be written to, and the family to which it has to be given back, if any."""
        family = self._versions.family(self.memory)
        if family is None or self.end is None or self.kept is not None:
            return copy(self.array), None
        return self.array, family


class _Write(NamedTuple):
    """What was written, and a copy of what was there if something needs it."""

    memory: Memory
    kept: Any


class Family:
    """A contiguous array and those that lie in it.

    Attributes
    ----------
    root : array
    memory : Memory
    parts : dict
        Which of its elements, in order, the arrays are, by their memory; it is one of them.
    """

    def __init__(
        self, root: Any, memory: Memory, parts: dict[Memory, slice], writes: list[_Write]
    ) -> None:
        self.root: Final = root
        self.memory: Final = memory
        self.parts: Final = parts
        self._writes = writes
        self._work: Any = None
        self._time = 0

    def part(self, whole: Any, memory: Memory) -> Any:
        """The part of an array like the root, or of its gradient, that an array is."""
        if memory == self.memory:
            return whole
        pairs = tuple(whole.shape[len(self.memory.shape) :])
        return whole.reshape((-1, *pairs))[self.parts[memory]].reshape((*memory.shape, *pairs))

    def overlapping(self, memory: Memory) -> list[Memory]:
        """Those that share elements with one, itself among them."""
        return [x for x in self.parts if x.overlaps(memory)]

    def at(self, value: Value, end: int) -> Any:
        """An array as it was before a write, in a copy of the root."""
        if self._work is None or self._time < value.begin:
            self._work, self._time = copy(self.root), len(self._writes)
        if self._time > end:
            self.restore(range(end, self._time))
            self._time = end
        return self.part(self._work, value.memory)

    def restore(self, writes: range) -> None:
        """Takes writes back in the copy of the root, the last one first."""
        for memory, kept in reversed(self._writes[writes.start : writes.stop]):
            if kept is not None and memory in self.parts:
                copy(kept, self.part(self._work, memory))

    def forget(self) -> None:
        """Gives the copy of the root up."""
        self._work = None


class Versions:
    """The arrays of a tape.

    Attributes
    ----------
    writes : list
        What was written, in order.
    """

    def __init__(self) -> None:
        self.writes: Final[list[_Write]] = []
        self._current: Final[dict[Memory, Value]] = {}
        self._families: Final[dict[Memory, Family]] = {}
        self._views: Final[set[Memory]] = set()

    def family(self, memory: Memory) -> Family | None:
        """The family of an array; None of one that shares memory with no other."""
        return self._families.get(memory)

    def overlapping(self, memory: Memory) -> list[Memory]:
        """The arrays of its family that share elements with one, itself among them."""
        family = self._families.get(memory)
        return [memory] if family is None else family.overlapping(memory)

    def forget(self) -> None:
        """Gives up what was worked out on the way back."""
        for family in self._families.values():
            family.forget()

    def value(self, x: Any, *, view: bool = False) -> Value:
        """An array as it is now; `view`: one whose gradient a record hands on to another one."""
        memory = memory_of(x)
        known = self._current.get(memory)
        if known is None:
            if view:
                self._views.add(memory)
            else:
                self._join(x, memory)
            known = self._current[memory] = Value(x, memory, self, len(self.writes))
        return known

    def glimpse(self, x: Any) -> Value:
        """An array as it is now, of which nothing will be kept: it may share memory in any way."""
        memory = memory_of(x)
        return self._current.get(memory) or Value(x, memory, self, len(self.writes))

    def is_view(self, value: Value) -> bool:
        """Whether a record hands the gradient of an array on to another one."""
        return value.memory in self._views

    def rows(self, value: Value, numbers: Iterable[int] | None) -> list[Value]:
        """Rows of an array; the whole for None, and where its library gives no views of rows."""
        if numbers is None or not value.memory.is_contiguous:
            return [value]
        rows = [value.live[number] for number in numbers]
        views = all(_part(value.memory, memory_of(x)) is not None for x in rows)
        return [self.value(x) for x in rows] if views else [value]

    def is_part(self, x: Any, whole: Any) -> bool:
        """Whether an array lies in another one as a part of the same family would."""
        root = memory_of(whole)
        return root not in self._views and _part(root, memory_of(x)) is not None

    def _join(self, x: Any, memory: Memory) -> None:
        """Finds the family of a new array, if it shares memory with those that are known."""
        others = [v for v in self._current.values() if v.memory.overlaps(memory)]
        others = [v for v in others if v.memory not in self._views]
        if not others:
            return
        known = {id(f): f for f in (self._families.get(v.memory) for v in others) if f is not None}
        parts = {y for f in known.values() for y in f.parts} | {v.memory for v in others}
        for family in known.values():
            at = _part(family.memory, memory)
            if at is not None and len(parts) == len(family.parts):
                family.parts[memory], self._families[memory] = at, family
                return
        roots = [(f.root, f.memory) for f in known.values()]
        roots += [(v.live, v.memory) for v in others]
        for root, of_root in [*roots, *((y, memory_of(y)) for y in _bases(x))]:
            places = {y: _part(of_root, y) for y in (*parts, memory, of_root)}
            fit = {y: at for y, at in places.items() if at is not None}
            if len(fit) == len(places):
                made = Family(root, of_root, fit, self.writes)
                self._families.update(dict.fromkeys(fit, made))
                return
        if is_real(x) or any(is_real(v.live) for v in others):
            raise LaunchError(
                f"a tape is given an array of shape {memory.shape} that shares memory with one of "
                f"shape {others[0].memory.shape}, and neither lies in the other, or in an array of "
                "both, in one piece: pass the same view each time, the array that both are of "
                "first, or copy it"
            )
        self._views.add(memory)

    def overwrite(self, values: Sequence[Value]) -> range:
        """Keeps what is about to be overwritten, where a gradient will need it; the writes made."""
        first = len(self.writes)
        for value in values:
            memory = value.memory
            if self._current.get(memory) is not value or memory.low == memory.high:
                continue
            touched = [v for v in self._current.values() if v.memory.overlaps(memory)]
            self._refuse_views(value, touched)
            with recording.unwatched():
                kept = copy(value.live) if any(v.needed for v in touched) else None
            self.writes.append(_Write(memory, kept))
            for v in touched:
                fresh = Value(v.live, v.memory, self, len(self.writes))
                fresh.needed = v.needed and not memory.covers(v.memory)
                v.end = len(self.writes) - 1
                self._current[v.memory] = fresh
            value.kept = kept
        return range(first, len(self.writes))

    def _refuse_views(self, value: Value, touched: Sequence[Value]) -> None:
        """Refuses to write to what a record on the tape sees as another view."""
        for other in touched:
            if other is not value and not self._views.isdisjoint((other.memory, value.memory)):
                raise LaunchError(
                    f"an array of shape {value.memory.shape} is written of which the tape knows a "
                    f"view of shape {other.memory.shape}: write to a copy"
                )


def _bases(x: Any) -> list[Any]:
    """An array, and those that it is a view of, as far as its library tells."""
    result: list[Any] = []
    while x is not None and hasattr(x, "shape") and hasattr(x, "dtype"):
        result.append(x)
        x = getattr(x, "base", None)
    return result


def _part(root: Memory, inner: Memory) -> slice | None:
    """Which elements of an array, in order, another one is; None if it is no piece of it."""
    begin, rest = divmod(inner.address - root.address, root.itemsize)
    fits = root.low <= inner.low and inner.high <= root.high and inner.low < inner.high
    alike = root.owner == inner.owner and root.dtype == inner.dtype and not rest
    if not (fits and alike and root.is_contiguous and inner.is_contiguous):
        return None
    return slice(begin, begin + (inner.high - inner.low) // root.itemsize)
