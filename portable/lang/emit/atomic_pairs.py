"""Additions to neighbouring elements, such as those of a point, which one instruction may do."""

from __future__ import annotations

from portable.dtypes import float32
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import reads, subexpressions


def atomic_pairs(body: s.Block) -> dict[int, tuple[s.Atomic, s.Atomic] | None]:
    """Pairs of relaxed additions of a block, nobody asking for the values from before.

    Returns
    -------
    dict
        By identities: of the later of two both, in the order of their elements; of the earlier
        one, which is done with it, None.
    """
    result: dict[int, tuple[s.Atomic, s.Atomic] | None] = {}
    waiting: list[s.Atomic] = []
    for x in body:
        if isinstance(x, s.Atomic) and _is_addition(x):
            partner = next((y for y in waiting if _are_neighbours(x, y)), None)
            if partner is None:
                waiting.append(x)
            else:
                waiting.remove(partner)
                both = (x, partner) if _last(x) < _last(partner) else (partner, x)
                result |= {id(partner): None, id(x): both}
        elif isinstance(x, s.Assign):
            waiting = [y for y in waiting if x.var.name not in _names(y)]
        elif not isinstance(x, s.Let):
            waiting.clear()
    return result


def _last(x: s.Atomic) -> int:
    """The constant that the last index is."""
    assert isinstance(x.index[-1], e.Const)
    return int(x.index[-1].value)


def _is_addition(x: s.Atomic) -> bool:
    array = x.array
    there = array.space == "global" and array.dtype is float32 and array.strides[-1:] == ("unit",)
    constant = bool(x.index) and isinstance(x.index[-1], e.Const)
    return there and constant and (x.op, x.var, x.order) == ("add", None, "relaxed")


def _are_neighbours(x: s.Atomic, y: s.Atomic) -> bool:
    same = (x.array, x.scope, x.index[:-1]) == (y.array, y.scope, y.index[:-1])
    return same and abs(_last(x) - _last(y)) == 1


def _names(x: s.Atomic) -> set[str]:
    expressions = (z for y in reads(x) for z in subexpressions(y))
    return {z.name for z in expressions if isinstance(z, e.Variable)}
