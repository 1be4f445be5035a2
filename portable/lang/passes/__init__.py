"""Passes that turn what speed needs into what a device has.

`copies` lowers copies of tiles to each work-item's share. Matrix fragments are lowered first,
since that may give local arrays new layouts.
"""

from __future__ import annotations

from portable.backend import Capabilities
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.complements import lower_complements
from portable.lang.passes.copies import lower_copies
from portable.lang.passes.matrix import lower_matrices
from portable.lang.passes.negations import lower_negations

__all__ = ["lower"]


def lower(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    """The kernel in terms that emitters print, for one device."""
    if kernel.fragments:
        kernel = lower_matrices(kernel, capabilities)
    kernel = lower_copies(kernel, capabilities)
    return lower_complements(lower_negations(kernel)) if capabilities.is_intels_cpu else kernel
