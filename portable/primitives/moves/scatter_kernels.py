"""Elements to positions, of which several may be the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.primitives.maps.elementwise_kernel import Body, product_of
from portable.primitives.moves.index_kernels import Where, checked, named

__all__ = ["scatter"]


@function
def put(x: Any, at: Any, value: Any) -> None:
    """Writes an element that others may write too: one of theirs stays."""
    if kl.target.lone_work_items:
        # A plain store is indivisible there, and compilers make vectors of nothing else.
        x[*at] = value
    else:
        kl.atomic_store(x, at, value)


@function
def in_range(x: Any, indices: Any, flag: Any, AXIS: Any) -> Any:
    """Whether all indices into dimensions of `x` from `AXIS` on are in range; else `flag` is set.

    The work-items of a workgroup look at all of them together.
    """
    bad = kl.local(1, kl.i32)
    item = kl.local_id(0) + kl.local_size(0) * kl.local_id(1)
    if item == 0:
        bad[0] = 0
    kl.barrier()
    step = kl.local_size(0) * kl.local_size(1)
    for n in range(item, product_of(indices[0].shape), step):
        given = named(indices, n)
        for d in kl.static_range(len(indices)):
            checked(given[d], x.shape[AXIS + d], bad)
    kl.barrier()
    if item == 0 and bad[0] != 0:
        kl.atomic_or(flag, 0, 1)
    return bad[0] == 0


@dataclass(frozen=True)
class _Scattered(Body):
    """What a sweep over the values does to one of them."""

    x: Any
    indices: Any
    values: Any
    where: Where
    number: bool

    def do(self, outer: Any, row: Any, m: Any, lanes: Any) -> None:
        """Writes it to where its indices say."""
        at = (*outer, m)
        target = self.where.chosen(self.x, self.where.named(self.indices, at), None, at)
        put(self.x, target, self.values if self.number else self.values[*at])


@kernel
def scatter(
    x: Any, indices: Any, flag: Any, values: Any,
    *, WHERE: Any, NUMBER: bool, AT_ONCE: bool, SHARE: Any,
) -> None:  # fmt: skip
    """``x[..., i[n], j[n], ..., ...] = values[..., n, ...]``, unless an index is out of range.

    Parameters
    ----------
    x : array
        What is written.
    indices : tuple of array
        ``i, j, ...``, of integers and one shape: see `index_kernels.Where.chosen`.
    flag : array or None
        Says in its only element whether an index is out of range; None is none.
    values : array or number
        What is assigned, `n` being in the first of the dimensions.
    WHERE : Where
        The dimensions of `x` that the indices are for.
    NUMBER : bool
        Whether `values` is a number.
    AT_ONCE : bool
        Whether each workgroup finds out by itself if an index is out of range, and sets `flag`.
    SHARE : Share
        How work-items share the values, one at a time.
    """
    shape = (
        *x.shape[: WHERE.axis],
        product_of(indices[0].shape),
        *x.shape[WHERE.axis + WHERE.count :],
    )
    good = True
    if AT_ONCE:
        good = in_range(x, indices, flag, WHERE.axis)
    elif flag is not None:
        good = flag[0] == 0
    if good:
        SHARE.sweep(shape, _Scattered(x, indices, values, WHERE, NUMBER))
