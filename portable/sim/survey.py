"""What is known of a kernel before it is launched."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Final

from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.types import Array
from portable.lang.ir.walk import all_statements

_BESIDE: Final = ("bulk.", "mbarrier.", "tensor.", "wgmma.")
"""Instructions of what runs beside the work-items."""

_COPIES: Final = s.CopyTile | s.CopyVector | s.BulkCopy

_SWIZZLE_BYTES: Final = 1024
"""Where a local array begins: a multiple of the widest pattern of swizzles."""


class Survey:
    """What launches of a kernel share.

    Attributes
    ----------
    written : frozenset of Array
        Global arrays that it writes.
    storing, copying, ordered, proxied : bool
        Whether it writes memory, copies asynchronously, has ordered atomics, fences, mbarriers or
        barriers of a part, has instructions of the asynchronous proxy.
    mbarriers : dict
        By local array and element, the number of an mbarrier.
    """

    def __init__(self, kernel: Kernel) -> None:
        statements = list(all_statements(kernel.body))
        instructions = [x for x in statements if isinstance(x, s.Instruction)]
        self._kernel = kernel
        self.written = kernel.written
        self.proxied = any(x.name.startswith(_BESIDE) for x in instructions)
        self.storing = any(isinstance(y, Array) for x in statements for y in x.written())
        self.copying = self.proxied or any(isinstance(x, _COPIES) for x in statements)
        self.ordered = self.proxied or any(
            isinstance(x, s.Fence)
            or (isinstance(x, s.Atomic) and x.order != "relaxed")
            or (isinstance(x, s.Barrier) and x.meeting > 0)
            for x in statements
        )
        self.mbarriers = self._mbarriers(instructions)

    def _mbarriers(self, instructions: list[s.Instruction]) -> dict[tuple[Array, int], int]:
        used = {
            array
            for x in instructions
            if x.name.startswith("mbarrier.")
            for array, _ in x.addresses
        }
        arrays = [a for a in self._kernel.arrays if a in used]
        elements = [(a, i) for a in arrays for i in range(prod(a.shape))]
        return {element: number for number, element in enumerate(elements)}

    @cached_property
    def addresses(self) -> dict[Array, int]:
        """Where local arrays begin, in bytes."""
        addresses, end = {}, _SWIZZLE_BYTES
        for array in self._kernel.arrays:
            if array.space == "local" and array.layout is not None:
                addresses[array] = end
                size = array.layout.size * array.dtype.itemsize
                end += -(-size // _SWIZZLE_BYTES) * _SWIZZLE_BYTES
        return addresses
