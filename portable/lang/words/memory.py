"""Local and private arrays, vectors, their loads and stores, and copies of tiles."""

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
    "bulk_copy",
    "bulk_wait",
    "completion",
    "compress",
    "copy",
    "copy_async",
    "copy_commit",
    "copy_wait",
    "count",
    "fence",
    "local",
    "pipeline",
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
    The lanes of a vector go to neighbours along the last dimension, each by itself.
    """


@word
def atomic_add(
    array: Any, index: Any, value: Any, *, order: str = "relaxed", scope: str = "device"
) -> Any:
    """Adds to the element, indivisibly; returns the old one.

    The lanes of a vector are added to neighbours along the last dimension, each by itself: by one
    instruction of four where the device has it, the rows are that far apart, and nothing asks for
    the old ones. The other changes take vectors likewise.
    """


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
    """Replaces the element where it equals `expected`; returns the element from before.

    Of vectors each lane by itself, on neighbours along the last dimension.
    """


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


# Pipelines of tiles.


@word
def pipeline(
    accumulator: Any,
    tiles: Any,
    read: Any,
    start: Any,
    stop: Any,
    *,
    ahead: int,
    valid: Any = None,
    transposed: bool = False,
    rotated: bool = True,
    after: Any = None,
) -> None:
    """``accumulator += left @ right`` for each step, while tiles of later steps are copied.

    `tiles` are two local arrays, ``(stages, m, k)`` and ``(stages, k, n)``; a step's lie in the
    slot ``step % stages``. The function ``read(left, right, step)`` starts copies (`copy_async`)
    into the slots of a step. ``valid(step)`` gives what `mma` has by that name. With `transposed`
    left tiles are ``(stages, k, m)``.

    Steps are those from `start` to `stop`. Copies are `ahead` steps before products; so many steps
    are asked for by ``read(...)`` and `copy_commit` before the pipeline begins, and a pipeline that
    goes on where one before it ended finds them on their way. Waits and barriers are included, and
    whatever the device has for it: warps that do nothing but copy, where a workgroup has them to
    spare and nothing is `ahead`, and, unless `rotated` is False, operands of the next step that
    are in registers when it begins. With ``after(step)``, which holds no barrier and is called
    behind each product, `accumulator` holds the sums of that step alone, to be mapped into others.
    The whole workgroup has to get here.
    """


# -- copies ----------------------------------------------------------------------------------------


@word
def copy_async(target: Any, source: Any) -> None:
    """The workgroup starts copying `source` to `target`, parts of a global and a local array.

    Both have the same static shape and dtype; a source of more than two dimensions is copied to a
    target of two as if all but its last were one, in C order. A global source may have steps along
    all dimensions but the last, as in ``x[i : i + 32 : 2, k : k + 64]``. What lies outside the
    global array reads as zero and is not written. Completion: `copy_commit`, `copy_wait`, then
    `barrier`.
    """


@word
def copy(target: Any, source: Any) -> None:
    """As `copy_async`, but this work-item's share is done when it returns; `barrier` follows."""


@word
def copy_commit() -> None:
    """Closes the current group of asynchronous copies."""


@word
def copy_wait(pending: int = 0) -> None:
    """Waits until at most `pending` (a constant) closed groups of copies are unfinished."""


@word
def completion(slots: int = 1) -> Any:
    """`slots` places to wait for bulk copies into local memory."""


@word
def bulk_copy(
    target: Any, target_index: Any, source: Any, source_index: Any, count: Any, done: Any = None
) -> None:
    """This one work-item starts copying `count` consecutive elements to or from local memory.

    Into local memory, `done` is an element of a `completion` (``done[slot]``) for `bulk_wait`; to
    global memory it is left out, and `copy_commit` and `copy_wait` of this work-item follow.
    """


@word
def bulk_wait(done: Any, phase: Any, *, sub_groups: int | None = None) -> None:
    """The workgroup waits for the bulk copies into ``done`` (``completion[slot]``); also a barrier.

    `phase` is the number of earlier waits on the slot modulo 2. Of a constant number of
    `sub_groups` only the first so many wait, as at a `barrier`. Who started the copies has told
    the first work-item so before, by release and acquire, or comes to the barrier.
    """
