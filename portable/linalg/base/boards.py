"""How workgroups that run at the same time tell each other numbers, and meet.

A number goes to a board in pieces of 32 bits, each in one word with a mark: whoever finds the mark
has the number, so that atomics need no order, and telling takes one way through memory. Meeting
takes two, and what was written to any array before is seen after it.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.scans.board_kernels import joined, pieces_of


@function
def publish(board: kl.Array, number: kl.Scalar, value: kl.Scalar, mark: kl.Scalar) -> None:
    """Lets all workgroups see the `number`-th number of a board of u64.

    No earlier mark of this place may be `mark`.
    """
    pieces = pieces_of(value, value.dtype)
    for p in kl.static_range(len(pieces)):
        word = pieces[p] | (kl.cast(mark, kl.u64) << 32)
        kl.atomic_store(board, number * len(pieces) + p, word)


@function
def awaited(board: kl.Array, number: kl.Scalar, mark: kl.Scalar, KIND: Any) -> Any:
    """The `number`-th number of a board, as soon as it has this mark."""
    PIECES = KIND.itemsize // 4
    words = kl.private(PIECES, kl.u64)
    for p in kl.static_range(PIECES):
        words[p] = kl.atomic_load(board, number * PIECES + p)
        while (words[p] >> 32) != kl.cast(mark, kl.u64):
            words[p] = kl.atomic_load(board, number * PIECES + p)
    return joined(words, 0, KIND)


@function
def meet(counts: kl.Array, slot: kl.Scalar, times: kl.Scalar, GROUPS: int) -> None:
    """All workgroups meet for so many times; what they wrote before is seen after."""
    kl.barrier()
    if GROUPS > 1:
        if kl.local_id(0) == 0:
            kl.atomic_add(counts, slot, 1, order="acq_rel")
            while kl.atomic_load(counts, slot, order="acquire") < times * GROUPS:
                pass
        kl.barrier()
