"""The set functions of the Array API; all wait for the device to learn the result's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from portable.array.creation import ones
from portable.array.elementwise import not_equal
from portable.array.engine import check_operands
from portable.array.gathering import gathered
from portable.array.manipulation import astype, concat, reshape
from portable.array.scattering import scattered
from portable.array.searching import nonzero
from portable.array.sorting import ordered
from portable.array.statistics import cumulative_sum
from portable.dtypes import bool_, int64

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """Distinct elements, where each first stands, which of them each element is, how often."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements in order, and how often each occurs."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements in order, and which of them each element is."""

    values: Array
    inverse_indices: Array


class _Groups(NamedTuple):
    """Sorted elements, where they stood, whether each begins a group, and where groups begin."""

    values: Any
    order: Any
    begins: Any
    starts: Any


def _groups(name: str, x: Any) -> _Groups:
    check_operands(name, (x,))
    values, order = ordered(reshape(x, (-1,)), descending=False)
    if not x.size:
        return _Groups(values, order, x.device.empty((0,), bool_), x.device.empty((0,), int64))
    first = ones((1,), dtype=bool_, device=x.device)
    begins = concat([first, not_equal(values[1:], values[:-1])])
    (starts,) = nonzero(begins)
    return _Groups(values, order, begins, starts)


def _counts(x: Any, starts: Any) -> Any:
    from portable.array.creation import asarray

    end = asarray([x.size], dtype=int64, device=x.device)
    ends = concat([starts[1:], end]) if starts.size else starts
    return ends - starts


def _inverse(x: Any, groups: _Groups) -> Any:
    out = x.device.empty((x.size,), int64)
    if x.size:
        numbers = cumulative_sum(astype(groups.begins, int64)) - 1
        scattered(out, groups.order, numbers)
    return reshape(out, x.shape)


def _at(x: Any, positions: Any) -> Array:
    return gathered(x, positions)  # type: ignore[no-any-return]


def unique_values(x: Array, /) -> Array:
    """The distinct elements, in order; each NaN is one."""
    groups = _groups("unique_values", x)
    return _at(groups.values, groups.starts)


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, in order, and how often each occurs."""
    groups = _groups("unique_counts", x)
    return UniqueCounts(_at(groups.values, groups.starts), _counts(x, groups.starts))


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, in order, and which of them each element is."""
    groups = _groups("unique_inverse", x)
    return UniqueInverse(_at(groups.values, groups.starts), _inverse(x, groups))


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, in order, where each first stands, the inverse, and the counts."""
    groups = _groups("unique_all", x)
    return UniqueAll(
        _at(groups.values, groups.starts),
        _at(groups.order, groups.starts),
        _inverse(x, groups),
        _counts(x, groups.starts),
    )
