"""Arrays of the workgroup and of the work-item, vectors, and their loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.lang.words.word import word

__all__ = [
    "assume_uniform",
    "atomic_add",
    "atomic_and",
    "atomic_compare_exchange",
    "atomic_exchange",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
    "atomic_sub",
    "atomic_xor",
    "barrier",
    "compress",
    "count",
    "fence",
    "local",
    "private",
    "shuffle2",
    "splat",
    "vector",
    "vload",
    "vstore",
    "workgroup_uniform",
]

# Accesses that no other comes between.


@word
def atomic_load(array: Any, index: Any, *, order: str = "relaxed", scope: str = "device") -> Any:
    """The element, read indivisibly; `order` is "relaxed" or "acquire"."""


@word
def atomic_store(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> None:
    """Writes the element indivisibly; `order` is "relaxed" or "release".

    A relaxed one may be of 8 or 16 bits too. Of those that several work-items store, one stays.
    """


@word
def atomic_add(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Adds to the element, indivisibly; returns the old one."""


@word
def atomic_sub(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Subtracts from the element, indivisibly; returns the old one."""


@word
def atomic_min(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Makes the element the smaller of itself and the value, indivisibly; returns the old one."""


@word
def atomic_max(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Makes the element the larger of itself and the value, indivisibly; returns the old one."""


@word
def atomic_and(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Bitwise and with the element, indivisibly; returns the old one."""


@word
def atomic_or(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Bitwise or with the element, indivisibly; returns the old one."""


@word
def atomic_xor(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Bitwise exclusive or with the element, indivisibly; returns the old one."""


@word
def atomic_exchange(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Replaces the element, indivisibly; returns the old one."""


@word
def atomic_compare_exchange(
    array: Any,
    index: Any,
    expected: Any,
    value: Any,
    *,
    order: str = "relaxed",
    scope: str = "device",
) -> Any:
    """Replaces the element where it equals `expected`; returns the element from before."""


# Barriers, fences, and what is the same for a whole workgroup.


@word
def barrier(*, sub_groups: int | None = None) -> None:
    """All work-items of the workgroup meet; orders their local and global memory accesses.

    Of a constant number of `sub_groups` only the first so many meet, and the others, which come
    here too, go on at once; where a device cannot do so, all meet. Refused unless every work-item
    provably gets here together.
    """


@word
def fence(order: str = "acq_rel", scope: str = "device") -> None:
    """Orders this work-item's accesses as others in `scope` ("workgroup", "device") see them."""


@word
def workgroup_uniform(x: Any) -> Any:
    """`x` as the workgroup's first work-item has it, for all of them; counts as uniform.

    `workgroup_broadcast` gives that of any work-item.
    """


@word
def assume_uniform(x: Any) -> Any:
    """`x`, which the author vouches is the same for the workgroup; the simulator checks it."""


# -- memory ----------------------------------------------------------------------------------------


@word
def local(shape: int | Sequence[int], dtype: Any) -> Any:
    """An array shared by the workgroup, of static shape; its contents start undefined."""


@word
def private(shape: int | Sequence[int], dtype: Any, lanes: int = 1, *, fill: Any = None) -> Any:
    """An array of this work-item alone, of static shape; elements may be vectors of `lanes`.

    Its contents start undefined, or all with the value `fill`: a number, also in every lane, or of
    an array of structs a struct.
    """


@word
def vload(array: Any, *index: Any, lanes: int, axis: int = -1, ahead: int = 0) -> Any:
    """A vector of `lanes` (2, 3, 4, 8, 16, 32) neighbours along `axis`, the first at `index`.

    A processor brings what lies `ahead` elements further in memory, a constant, to its caches.
    OpenCL has vectors of 32 lanes on processors alone.
    """


@word
def vstore(array: Any, *index_and_value: Any, axis: int = -1, streaming: bool = False) -> None:
    """Writes a vector, the last argument, to neighbours along `axis`, the first at the index.

    `streaming`, a constant, says that it will not be read soon: where it fills a line of the
    processor's caches, it passes them by, and the line is not read from memory first.
    """


@word
def vector(*elements: Any) -> Any:
    """A vector of 2, 3, 4, 8, 16 or 32 numbers.

    ``v[l]`` takes a lane (`l` a constant), ``v[a:b]`` some lanes as a shorter vector.
    """


@word
def splat(x: Any, lanes: int) -> Any:
    """A vector whose lanes all hold `x`."""


@word
def shuffle2(x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """A vector of lanes of two alike, numbered through both; `lanes` are constants."""


@word
def compress(x: Any, mask: Any) -> Any:
    """The lanes of a vector for which `mask`, a vector of bool, holds, in order; then zeros.

    With `count` this moves what is wanted to where it belongs, vectors at a time: each is stored
    whole, and the next one is stored over what does not count of it. Where
    ``kl.target.compressed_bytes`` is 0 the lanes go one by one, at many times the cost.
    """


@word
def count(mask: Any) -> Any:
    """For how many lanes of a vector of bool it holds."""
