"""Barriers, fences, and what is the same for a whole workgroup."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "assume_uniform",
    "barrier",
    "fence",
    "workgroup_uniform",
]


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
