"""From an index with arrays in it to what it names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from portable.array.functions.searching import nonzero
from portable.backend import Device
from portable.errors import BadIndexError
from portable.primitives.base.storage import Storage, expanded_index
from portable.primitives.maps.engine import check_operands
from portable.primitives.moves.positions import complaint
from portable.primitives.moves.selection import Selection, first_dimensions

_ARRAYS: Final = (Storage, np.ndarray, list, bool, np.bool_)
_ALL: Final = slice(None)


def without_rest(x: Any, key: Any) -> Any:
    """An index with arrays without full slices behind the first, which say nothing: the array."""
    if not isinstance(key, tuple) or not isinstance(key[0], Storage):
        return key
    first, *rest = key
    full = sum(isinstance(item, slice) and item == _ALL for item in rest)
    ellipses = sum(item is Ellipsis for item in rest)
    if full + ellipses < len(rest) or ellipses > 1:
        return key
    dims = first.ndim if is_mask(first) else 1
    return first if dims + full <= x.ndim else key


def is_advanced(key: Any) -> bool:
    """Whether an index has arrays in it."""
    if isinstance(key, tuple):
        return any(isinstance(item, _ARRAYS) for item in key)
    return isinstance(key, _ARRAYS)


def is_mask(item: Any) -> bool:
    """Whether part of an index is an array of bools."""
    return isinstance(item, Storage) and item.dtype.kind == "b"


def check_mask(x: Any, mask: Any, dim: int) -> None:
    """Refuses a mask of another shape than that of the dimensions of `x` from `dim` on.

    Parameters
    ----------
    x : Array
        What is indexed.
    mask : Array
        Bools.
    dim : int
        The first dimension that it is for.
    """
    covered = x.shape[dim : dim + mask.ndim]
    # The standard takes an extent of 0 for any other: nothing is chosen.
    fits = all(n in (m, 0) for n, m in zip(mask.shape, covered, strict=False))
    if len(covered) != mask.ndim or not fits:
        raise BadIndexError(f"a mask of shape {mask.shape} for dimensions of shape {covered}")
    check_operands("an index", (x, mask))


def selection_of(x: Any, key: Any) -> Selection:
    """What an index with arrays names in `x`.

    Waits for the device where there are masks. Integers known on the host are checked here.

    Raises
    ------
    BadIndexError
        For what is no index, a mask of another shape, or an integer on the host out of range.
    """
    if isinstance(key, Storage) and key.dtype.is_integer and x.ndim:
        check_operands("an index", (x, key))
        return Selection(x, (key,), 0, False)
    items = key if isinstance(key, tuple) else (key,)
    known = False
    if not all(map(_is_plain, items)):
        items, known = _with_integers(x, [_as_index(item, x.device) for item in items])
    indices = tuple([item for item in items if isinstance(item, Storage)])
    check_operands("an index", (x, *indices))
    view = x.part(tuple([_ALL if isinstance(item, Storage) else item for item in items]))
    slots, first_axis = _slots("".join(map(_letter, items)), x.ndim)
    if slots != tuple(range(first_axis, first_axis + len(slots))):
        view = first_dimensions(view, slots)
    return Selection(view, indices, first_axis, known)


def _is_plain(item: Any) -> bool:
    """Whether an item is an array of integers of a device, or none at all."""
    if isinstance(item, Storage):
        return item.dtype.is_integer
    return not isinstance(item, _ARRAYS)


def _as_index(item: Any, device: Device) -> Any:
    """An item as an array of the device, or, if it holds integers, one of the host."""
    if isinstance(item, list | np.ndarray | bool | np.bool_):
        item = np.asarray(item)
        if not item.size and item.dtype.kind == "f":
            item = item.astype(np.int64)  # an empty list
        if item.dtype.kind == "b":
            item = device.from_numpy(item)
    if isinstance(item, np.ndarray | Storage) and item.dtype.kind not in "biu":
        raise BadIndexError(f"an index of dtype {item.dtype.name}; expected integers or bools")
    return item


def _with_integers(x: Any, items: list[Any]) -> tuple[tuple[Any, ...], bool]:
    """The items with arrays of integers of the device alone, and whether all are in range."""
    extra = sum(item.ndim - 1 for item in items if is_mask(item))
    out: list[Any] = []
    dim = 0
    for item in expanded_index(tuple(items), x.shape, extra):
        numbers = _integers(x, item, dim)
        out += numbers or (item,)
        dim += len(numbers) or item is not None
    return tuple(out), not any(isinstance(item, Storage) and not is_mask(item) for item in items)


def _integers(x: Any, item: Any, dim: int) -> tuple[Any, ...]:
    """The arrays of integers of the device that an item comes to, if it is an array."""
    if is_mask(item):
        if not item.ndim:
            raise BadIndexError("an index of one bool stands alone; beside others take a mask")
        check_mask(x, item, dim)
        return nonzero(item)
    if isinstance(item, np.ndarray):
        bad = complaint(item, x.shape[dim])
        if bad:
            raise BadIndexError(bad)
        return (x.device.from_numpy(item),)
    return (item,) if isinstance(item, Storage) else ()


def _letter(item: Any) -> str:
    """An array, a slice, a new dimension, an ellipsis or an integer."""
    if isinstance(item, Storage):
        return "a"
    if isinstance(item, slice):
        return "s"
    return "n" if item is None else "e" if item is Ellipsis else "i"


@lru_cache(maxsize=1024)
def _slots(letters: str, ndim: int) -> tuple[tuple[int, ...], int]:
    """Which dimensions of the view by integers and slices have arrays, and where the result's go.

    These come in their place, or first where a slice or None stands between arrays and integers,
    which count as arrays of no dimensions.
    """
    missing = ndim - sum(letter in "asi" for letter in letters)
    letters = letters.replace("e", "s" * missing)
    named = [n for n, letter in enumerate(letters) if letter in "ai"]
    slots = tuple(d for d, letter in enumerate(letters.replace("i", "")) if letter == "a")
    together = named[-1] - named[0] == len(named) - 1
    return slots, slots[0] if together else 0
