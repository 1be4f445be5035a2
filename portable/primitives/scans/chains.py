"""Running totals by levels, as numbers are counted by digits: no chain of additions becomes long.

A total that goes on from element to element is rounded at each, and drifts. So a chain of additions
ends after `CHAIN` of them; what it comes to goes to the first level, after `CHAIN` chains that
level's total to the second, and so on. The total so far is that of all levels, the last one first:
its error grows with the logarithm of the length, for a few additions in `CHAIN`. See
`portable.primitives.reductions.merging` on sums.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.reductions.merging import CHAIN


@function
def levels_of(nothing: kl.Scalar, COUNT: int) -> Any:
    """Totals of so many levels, of nothing yet."""
    return tuple([nothing for _ in range(COUNT)])


@function
def chain_added(levels: Any, number: kl.Scalar, total: Any, nothing: Any, op: Any) -> Any:
    """The levels' totals, the first level first, once the `number`-th chain came to `total`."""
    first = op(levels[0], total)
    if len(levels) == 1:
        return (first,)
    others = levels[1:]
    if number % CHAIN == CHAIN - 1:
        others = chain_added(others, number // CHAIN, first, nothing, op)
        first = nothing
    return (first, *others)


@function
def total_of_levels(levels: Any, op: Any) -> Any:
    """What all levels come to: small totals first, which are rounded less."""
    total = levels[0]
    for k in kl.static_range(1, len(levels)):
        total = op(levels[k], total)
    return total
