"""What goes back through ``x[key] = value`` of `portable.array`."""

from __future__ import annotations

from math import prod
from typing import Any

from portable import array as xp
from portable import recording
from portable.array.functions.manipulation import copy_into
from portable.array.methods import indexing
from portable.gradients.recorders import TapeLike
from portable.primitives.base.storage import Storage


def assigned(_: TapeLike, function: Any, args: Any, kwargs: Any) -> None:
    """An assignment to elements, as choices between these and values, which are recorded.

    What is in one piece is copied to, which is recorded as it is. Of several values for one element
    the same stays as where it is found out which one does.
    """
    put, (x, key, value) = function.__wrapped__, args
    if not indexing.is_advanced(key):
        part = x if key is Ellipsis else x.part(key)
        if part.is_contiguous or not x.is_contiguous:
            put(x, key, value)
            return
    x.check_writable()
    if not isinstance(value, Storage | int | float | complex):
        value = xp.asarray(value, device=x.device)
    with recording.unwatched():
        put(xp.asarray(x, copy=True), key, value)  # which says what is wrong with them
    key = indexing.without_rest(x, key)
    if indexing.is_mask(key) and key.ndim and indexing.is_one(value):
        _fill(x, key, value)
        return
    with recording.unwatched():
        places = indexing.get(_numbers(x, x.shape), key)
        which = xp.full(x.size, -1, dtype=places.dtype, device=x.device)
        put(which, xp.reshape(places, (-1,)), _numbers(x, (places.size,)))
        which = xp.reshape(which, x.shape)
        chosen, which = which >= 0, xp.maximum(which, 0)
    if not places.size:
        return
    if isinstance(value, Storage):
        values = xp.broadcast_to(xp.astype(value, x.dtype, copy=False), places.shape)
        value = indexing.get(xp.reshape(values, (-1,)), which)
    copy_into(x, xp.where(chosen, value, x))


def _fill(x: Any, mask: Any, value: Any) -> None:
    """One value where a mask of the first dimensions is true; waits for nothing."""
    if not mask.size:
        return
    if isinstance(value, Storage):
        value = xp.reshape(xp.astype(value, x.dtype, copy=False), ())
    chosen = xp.reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    copy_into(x, xp.where(chosen, value, x))


def _numbers(x: Any, shape: tuple[int, ...]) -> Any:
    """As many numbers from 0 as a shape has elements."""
    return xp.reshape(xp.arange(prod(shape), device=x.device), shape)
