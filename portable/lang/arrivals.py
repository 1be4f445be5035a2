"""Who comes last goes on with what the others have done: nobody waits.

A helper function of the language itself, for kernels of devices that order memory between
workgroups (`portable.backend.Capabilities.memory_orders`).
"""

from __future__ import annotations

from typing import Any

from portable.lang import words as kl
from portable.lang.function import function

__all__ = ["arrived_last"]


@function
def arrived_last(counts: Any, place: Any, siblings: Any) -> Any:
    """Whether this workgroup is the last of `siblings` to come to a place; if so it is free again.

    What the others wrote before can then be read. `counts` holds zeros where nobody came yet.
    """
    kl.barrier()
    before = 0
    if kl.local_linear_id() == 0:
        before = kl.atomic_add(counts, place, 1, order="acq_rel")
        if before == siblings - 1:
            kl.atomic_store(counts, place, 0)
    last = kl.workgroup_uniform(before) == siblings - 1
    kl.barrier()
    return last
