"""Accesses that no other comes between."""

from __future__ import annotations

from typing import Any

from portable.lang.words.word import word

__all__ = [
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
]


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
