"""Which eliminator leads at each place, as the kernels of an elimination have it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.election_kernels import NO_COLUMN
from portable.gf2.layout import WORD, Order
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import shape_for
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups

# Kernels that find the leading columns of rows, and the rows that lead at places.


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


# Which eliminator leads at each place, as the kernels of an elimination have it.

_LINE: Final = 256
_LOOKERS: Final = 32


def owners_of(leads: NDArray[np.int64], order: Order) -> NDArray[np.int32]:
    """The eliminator that leads at each place, -1 where there is none, by the host."""
    owners = np.full(WORD * order.words, -1, np.int32)
    owners[order.columns :] = NO_COLUMN
    owners[leads] = np.arange(leads.size, dtype=np.int32)
    return order.by_place(owners)


def no_owners(order: Order, device: Device) -> Any:
    """The same where there are no eliminators, an array of the device."""
    return _begun(order, device)[:-1]


def found_owners(matrix: BitMatrix, order: Order) -> Any | None:
    """The same for the rows of a matrix, on its device; columns are eliminated from the last one.

    None if a row is empty, or two lead at one place.
    """
    device, rows = matrix.device, matrix.shape[0]
    owners = _begun(order, device)
    if rows:
        items = 1 if shape_for(device.capabilities).alone else _LOOKERS
        with registry.use(device):
            find_owners[groups(rows), items](matrix.words, owners)
    return None if device.to_numpy(owners[-1:])[0] else owners[:-1]


def _begun(order: Order, device: Device) -> Any:
    """Places without owners, and 0."""
    size = WORD * order.words + 1
    with registry.use(device):
        owners = device.empty((size,), kl.i32)
        begin_owners[size, _LINE](owners, order.columns, backward=order.backward)
    return owners
