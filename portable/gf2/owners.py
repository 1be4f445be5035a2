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
from portable.gf2.owner_kernels import begin_owners, find_owners
from portable.gf2.tuning import shape_for
from portable.lang.launch.geometry import groups

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
