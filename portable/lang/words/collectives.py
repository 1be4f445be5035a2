"""Places of work-items, barriers, and what a workgroup works out together."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
    "global_id",
    "global_size",
    "group_id",
    "local_id",
    "local_linear_id",
    "local_size",
    "num_groups",
    "num_sub_groups",
    "sub_group_all",
    "sub_group_any",
    "sub_group_broadcast",
    "sub_group_id",
    "sub_group_local_id",
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
    "sub_group_size",
    "workgroup_all",
    "workgroup_any",
    "workgroup_broadcast",
    "workgroup_range",
    "workgroup_reduce",
    "workgroup_scan",
]


# Where a work-item stands, and among how many.


@word
def global_id(dim: int = 0) -> Any:
    """This work-item's index in the ndrange; dimension 0 varies fastest."""


@word
def local_id(dim: int = 0) -> Any:
    """This work-item's index in its workgroup."""


@word
def group_id(dim: int = 0) -> Any:
    """This workgroup's index."""


@word
def global_size(dim: int = 0) -> Any:
    """The work-items that run: the ndrange; of whole workgroups where they meet (see `kl`)."""


@word
def local_size(dim: int = 0) -> int:  # type: ignore[empty-body]
    """The workgroup's extent, a compile-time constant."""


@word
def num_groups(dim: int = 0) -> Any:
    """The number of workgroups."""


@word
def local_linear_id() -> Any:
    """This work-item's number in its workgroup, dimension 0 fastest."""


@word
def sub_group_id() -> Any:
    """The number of this work-item's sub-group in the workgroup."""


@word
def sub_group_local_id() -> Any:
    """This work-item's number in its sub-group."""


@word
def sub_group_size() -> int:  # type: ignore[empty-body]
    """Work-items per sub-group, a compile-time constant: 1 where the device has none."""


@word
def num_sub_groups() -> int:  # type: ignore[empty-body]
    """Sub-groups per workgroup, a compile-time constant."""


# Exchange within a sub-group, the work-items that a device runs in step.


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


# -- collectives -----------------------------------------------------------------------------------


@word
def workgroup_reduce(op: Any, x: Any, *, width: int | None = None) -> Any:
    """`x` of all work-items, combined by `op`; every work-item gets it, and it counts as uniform.

    With `width`, a constant that divides the work-items, of so many neighbours each, who get their
    own result; then it does not count as uniform.

    `op` is a function of two values that gives one of the same types: `add`, `maximum`, or any
    marked `portable.function`. It has to be associative and need not commute: values are combined
    in the order of `local_linear_id`. `x` is a number, or a tuple or struct of numbers. The whole
    workgroup has to get here. Local memory and barriers that are needed are included; memory of
    the caller's own is not ordered by it. A workgroup of one costs nothing.

    >>> @pt.function
    ... def larger(x, y):
    ...     return x if x.value >= y.value else y
    >>> best = kl.workgroup_reduce(larger, Found(value, index))  # doctest: +SKIP
    """


@word
def workgroup_scan(
    op: Any,
    x: Any,
    *,
    inclusive: bool = True,
    initial: Any = None,
    total: bool = False,
    width: int | None = None,
) -> Any:
    """`x` of the work-items up to this one, combined by `op` as `workgroup_reduce` does.

    With ``inclusive=False`` that of the work-items before this one; then `initial` is needed, which
    is combined from the left in any case where it is given: it is what the first work-item gets.
    ``total=True`` gives a pair, with what all have combined, `initial` included, as the second.
    With `width`, a constant that divides the work-items, so many neighbours each are scanned by
    themselves.
    """


@word
def workgroup_any(x: Any) -> Any:
    """Whether some work-item's `x`, a bool, is true; counts as uniform."""


@word
def workgroup_all(x: Any) -> Any:
    """Whether every work-item's `x`, a bool, is true; counts as uniform."""


@word
def workgroup_broadcast(x: Any, index: Any) -> Any:
    """`x` of the work-item whose `local_linear_id` is `index`, the same for all; uniform.

    `x` is a number, or a tuple or struct of numbers.
    """


@word
def workgroup_range(start: Any, stop: Any = None, step: Any = 1, *, unroll: int = 0) -> Any:
    """For loops only: a range whose rounds the work-items of the workgroup share out.

    Neighbours take neighbouring rounds (in CUDA's words, a block-stride loop); one work-item alone
    walks through all of them.
    """
