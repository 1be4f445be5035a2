"""What arrays of indices say, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import product_of, unravelled


@function
def checked(given: kl.Scalar, extent: kl.Scalar, flag: kl.Array | None) -> Any:
    """An index counted from the front; one out of range sets `flag` and counts as 0.

    Without a `flag` it is known to be in range.
    """
    n = kl.cast(given, kl.i64)
    position = kl.where(n < 0, n + extent, n)
    if flag is None:
        return position
    # An index beyond the range of i64 comes out negative.
    bad = (n >= extent) | (n < -extent) | ((n < 0) & (given > 0))
    if bad:
        kl.atomic_or(flag, 0, 1)
    return kl.where(bad, 0, position)


@function
def named(indices: tuple[kl.Array, ...], n: kl.Scalar) -> Any:
    """What arrays of indices of one shape hold for the element that comes `n`-th in C order."""
    at = unravelled(n, indices[0].shape)
    return [index[*at] for index in indices]


@dataclass(frozen=True)
class Where:
    """Which dimensions of an array indices are for; a constant of kernels.

    Attributes
    ----------
    axis, count : int
        The first of them, and how many they are.
    along : bool
        Whether indices have an element for each of the selection, instead of for each place in the
        dimension `axis` of that.
    """

    axis: int
    count: int = 1
    along: bool = False

    def named(self, indices: tuple[kl.Array, ...], at: tuple[kl.Scalar, ...]) -> Any:
        """What arrays of indices hold for the element `at` of a selection."""
        if self.along:
            return [index[*at] for index in indices]
        return named(indices, at[self.axis])

    def chosen(
        self,
        x: kl.Array,
        given: tuple[kl.Scalar, ...],
        flag: kl.Array | None,
        at: tuple[kl.Scalar, ...],
    ) -> Any:
        """Where in `x` the element `at` of a selection lies.

        `given` is what the indices hold for it: a place in each of the dimensions, or one position
        in them, in C order, which is in range. Without a `flag` all are.
        """
        extents = x.shape[self.axis : self.axis + self.count]
        if len(given) < self.count:
            inside = unravelled(given[0], extents)
        else:
            inside = [checked(n, extent, flag) for n, extent in zip(given, extents, strict=True)]
        return (*at[: self.axis], *inside, *at[self.axis + 1 :])


@kernel
def check(
    indices: tuple[kl.Array, ...], flag: kl.Array, extents: tuple[kl.Scalar, ...], *, CHUNK: int
) -> None:
    """Sets `flag` if one of the indices, of one shape, into dimensions of these extents is bad.

    Each work-item looks at `CHUNK`.
    """
    start = kl.global_id(0) * CHUNK
    for n in range(start, kl.minimum(start + CHUNK, product_of(indices[0].shape))):
        given = named(indices, n)
        for d in kl.static_range(len(indices)):
            checked(given[d], extents[d], flag)
