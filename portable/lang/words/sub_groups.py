"""Exchange within a sub-group, the work-items that a device runs in step."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "sub_group_all",
    "sub_group_any",
    "sub_group_broadcast",
    "sub_group_reduce_add",
    "sub_group_reduce_and",
    "sub_group_reduce_max",
    "sub_group_reduce_min",
    "sub_group_reduce_or",
    "sub_group_reduce_xor",
    "sub_group_scan_add",
    "sub_group_shuffle",
    "sub_group_shuffle_down",
    "sub_group_shuffle_up",
    "sub_group_shuffle_xor",
]


@word
def sub_group_shuffle(x: Any, index: Any) -> Any:
    """`x` of the work-item numbered `index`."""


@word
def sub_group_shuffle_xor(x: Any, index: Any) -> Any:
    """`x` of the work-item numbered own xor `index`."""


@word
def sub_group_shuffle_up(x: Any, index: Any) -> Any:
    """`x` of the work-item `index` below; own `x` where there is none."""


@word
def sub_group_shuffle_down(x: Any, index: Any) -> Any:
    """`x` of the work-item `index` above; own `x` where there is none."""


@word
def sub_group_broadcast(x: Any, index: Any) -> Any:
    """`x` of the work-item numbered `index`, the same for all."""


@word
def sub_group_reduce_add(x: Any) -> Any:
    """The sum of `x` over the sub-group."""


@word
def sub_group_reduce_min(x: Any) -> Any:
    """The least `x` of the sub-group."""


@word
def sub_group_reduce_max(x: Any) -> Any:
    """The greatest `x` of the sub-group."""


@word
def sub_group_reduce_and(x: Any) -> Any:
    """Bitwise and over the sub-group."""


@word
def sub_group_reduce_or(x: Any) -> Any:
    """Bitwise or over the sub-group."""


@word
def sub_group_reduce_xor(x: Any) -> Any:
    """Bitwise exclusive or over the sub-group."""


@word
def sub_group_scan_add(x: Any) -> Any:
    """The sum of `x` up to and including this work-item."""


@word
def sub_group_any(x: Any) -> Any:
    """Whether some work-item's `x` is true."""


@word
def sub_group_all(x: Any) -> Any:
    """Whether every work-item's `x` is true."""
