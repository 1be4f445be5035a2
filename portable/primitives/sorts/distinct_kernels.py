"""Groups of equal elements in a sorted line: what begins one, and what is asked for of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.masks.mask_kernels import Target, bits_one_by_one
from portable.primitives.reductions.merging import folded

__all__ = ["Beginnings", "Groups", "sizes_of"]


class Beginnings(NamedTuple):
    """Chooses what begins a group: a source of `portable.primitives.masks.mask_kernels`.

    Attributes
    ----------
    x : array
        The line.
    bits, counts : array or None
        As of `Mask`.
    words : None
        What a mask has.
    """

    x: Any
    bits: Any = None
    counts: Any = None
    words: Any = None

    def size(self) -> Any:
        """How many elements there are."""
        return self.x.shape[0]

    def chooses(self, i: Any) -> Any:
        """Whether an element is the first, or another than that before it; each NaN is."""
        new = i == 0
        if i > 0:
            new = self.x[i] != self.x[i - 1]
        return new

    def bits_from(self, first: Any, KIND: Any) -> Any:
        """As many bits as a `KIND` has; of 64 whole vectors are compared where there are such."""
        x, lanes, count = self.x, min(16, 64 // self.x.dtype.itemsize), 8 * KIND.itemsize
        word = kl.cast(0, KIND)
        if count == 32 or x.dtype.is_complex or first == 0 or first + count > self.size():
            word = bits_one_by_one(self, first, count, KIND)
        else:
            bits = kl.vector(*[kl.i32(1 << lane) for lane in kl.static_range(lanes)])
            for place in kl.static_range(0, count, lanes):
                old, new = [kl.vload(x, first + place - d, lanes=lanes) for d in (1, 0)]
                some = folded(kl.where(old != new, bits, bits * 0), lanes, kl.add)
                word = word | (kl.cast(some, KIND) << place)
        return word


@function
def size_of(starts: Any, k: Any, count: Any, end: Any) -> Any:
    """How many elements are in the `k`-th of so many groups."""
    stop = kl.cast(end, kl.i64)
    if k + 1 < count:
        stop = starts[k + 1]
    return stop - starts[k]


@dataclass(frozen=True)
class Groups(Target):
    """What is asked for of groups of equal elements in a sorted line; what is None is left out.

    Attributes
    ----------
    x : array
        The line.
    order : array or None
        Where each element was before it was sorted.
    values : array
        Of which element each group is.
    starts : array or None
        Where it begins.
    firsts : array or None
        Where the first of it was.
    inverse : array or None
        The group of the element that was at each place.
    sizes : array or None
        How many elements each has.
    """

    x: Any
    order: Any
    values: Any
    starts: Any
    firsts: Any
    inverse: Any
    sizes: Any

    def put(self, k: Any, at: Any) -> None:
        """Writes which element the `k`-th group is of, and where it begins."""
        self.values[k] = self.x[at]
        if self.starts is not None:
            self.starts[k] = kl.cast(at, kl.i64)
        if self.firsts is not None:
            self.firsts[k] = self.order[at]

    def look(self, k: Any, first: Any, word: Any) -> None:
        """Writes in which groups elements are, of which 64 `word` says what begins one."""
        if self.inverse is not None:
            for place in range(kl.minimum(64, self.x.shape[0] - first)):
                k = k + kl.cast((word >> kl.cast(place, kl.u64)) & 1, k.dtype)
                self.inverse[self.order[first + place]] = kl.cast(k - 1, kl.i64)

    def finish(self, count: Any, first: Any, step: Any) -> None:
        """Writes every `step`-th group's size, once all `count` are known."""
        if self.sizes is not None:
            for k in range(first, count, step):
                self.sizes[k] = size_of(self.starts, k, count, self.x.shape[0])

    def take(self, own: Any, e: Any, chosen: Any, before: Any, WIDTH: Any) -> None:
        """Writes what is asked for of a few elements, of which those chosen begin a group."""
        for u in kl.static_range(len(chosen)):
            i, k = own.begin + e + u * WIDTH, own.done + before[u]
            if chosen[u]:
                self.put(k, i)
            if self.inverse is not None and i < self.x.shape[0]:
                group = kl.cast(k, kl.i64) - kl.where(chosen[u], kl.i64(0), kl.i64(1))
                self.inverse[self.order[i]] = group


@kernel
def sizes_of(starts: Any, sizes: Any, end: Any) -> None:
    """How many elements are in each group, the last of which ends at `end`."""
    k = kl.global_id(0)
    if k < sizes.shape[0]:
        sizes[k] = size_of(starts, k, sizes.shape[0], end)
