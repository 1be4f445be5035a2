"""The last workgroup to finish its part goes on with what all have written, so that none waits.

A helper function of the language itself, for kernels of devices that order memory between
workgroups (`portable.backend.Capabilities.memory_orders`).
"""

from __future__ import annotations

from typing import Any

from portable.lang import words as kl
from portable.lang.function import function


@function
def arrived_last(counts: Any, slot: Any, siblings: Any) -> Any:
    """Whether this workgroup is the last of so many to call this with the same `slot`.

    The last one can read what the others wrote before they called it, and leaves the count at zero
    for the next launch.

    Parameters
    ----------
    counts : array of int
        How many have called, by place; zeros at first.
    slot : int
    siblings : int
        The workgroups that share the place.
    """
    kl.barrier()
    before = 0
    if kl.local_linear_id() == 0:
        before = kl.atomic_add(counts, slot, 1, order="acq_rel")
        if before == siblings - 1:
            kl.atomic_store(counts, slot, 0)
    last = kl.workgroup_uniform(before) == siblings - 1
    kl.barrier()
    return last
