"""Kernels that find the leading columns of rows, and the rows that lead at places."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.gf2.election_kernels import NO_COLUMN
from portable.gf2.layout import WORD
from portable.lang.function import function
from portable.lang.kernel import kernel


@kernel
def begin_owners(owners: kl.Array, columns: kl.Scalar, *, backward: bool) -> None:
    """-1 to the places of columns, `NO_COLUMN` to those beyond the last one, and 0 behind them."""
    i = kl.global_id(0)
    places = owners.shape[0] - 1
    if i < places:
        word, bit = i // WORD, i % WORD
        column = word * WORD + (WORD - 1 - bit)
        if backward:
            column = (places // WORD - 1 - word) * WORD + bit
        owners[i] = kl.where(column < columns, -1, NO_COLUMN)
    elif i == places:
        owners[i] = 0


@kernel
def find_owners(words: kl.Array, owners: kl.Array) -> None:
    """Each row to the place of its highest column, a workgroup to a row.

    Behind the places it counts rows that are empty, or that lead where another one does.
    """
    row, places = kl.group_id(0), owners.shape[0] - 1
    lead = lead_of(words, row)
    if kl.local_id(0) == 0:
        before = kl.cast(0, kl.i32)
        if lead >= 0:
            position = (places // WORD - 1 - lead // WORD) * WORD + lead % WORD
            before = kl.atomic_max(owners, position, row)
        if before >= 0:
            kl.atomic_add(owners, places, 1)


@kernel
def find_leads(words: kl.Array, leads: kl.Array) -> None:
    """The highest column of each row, -1 for an empty one; a workgroup looks at a row."""
    lead = lead_of(words, kl.group_id(0))
    if kl.local_id(0) == 0:
        leads[kl.group_id(0)] = lead


@function
def lead_of(words: kl.Array, row: kl.Scalar) -> Any:
    """The highest column of a row, -1 if it is empty, by the workgroup."""
    lead = kl.cast(-1, kl.i32)
    word = words.shape[1] - 1 - kl.local_id(0)
    while word >= 0:
        value = words[row, word]
        if value != 0:
            lead = word * WORD + 63 - kl.cast(kl.clz(value), kl.i32)
            word = 0
        word = word - kl.local_size(0)
    return kl.workgroup_reduce(kl.maximum, lead)
