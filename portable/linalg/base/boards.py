"""How workgroups that run at the same time meet."""

from __future__ import annotations

from portable import lang as kl
from portable.lang.function import function


@function
def meet(counts: kl.Array, slot: kl.Scalar, times: kl.Scalar, GROUPS: int) -> None:
    """All workgroups meet for so many times; what they wrote before is seen after.

    Where memory has no order between them each launch ends before they would have to.
    """
    kl.barrier()
    if GROUPS > 1 and kl.target.memory_orders == "acq_rel":
        if kl.local_id(0) == 0:
            kl.atomic_add(counts, slot, 1, order="acq_rel")
            while kl.atomic_load(counts, slot, order="acquire") < times * GROUPS:
                pass
        kl.barrier()
