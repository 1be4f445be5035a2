"""Where a work-item stands, and among how many."""

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
    "sub_group_id",
    "sub_group_local_id",
    "sub_group_size",
]


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
