"""Copies between global and local memory."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "bulk_copy",
    "bulk_wait",
    "completion",
    "copy",
    "copy_async",
    "copy_commit",
    "copy_wait",
    "pipeline",
]

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
