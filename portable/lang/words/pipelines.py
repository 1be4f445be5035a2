"""Pipelines of tiles."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = ["pipeline"]


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
    are in registers when it begins. The whole workgroup has to get here.
    """
