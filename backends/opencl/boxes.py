"""Arrays as NVIDIA's copy engine is told of them, for launches through OpenCL.

A tensor map holds an address, and OpenCL tells nobody where a buffer lies but kernels: one of one
work-item does so, once for a buffer. Maps are passed to kernels by value, whose parameters have
addresses by names of NVIDIA's assembler. No document promises that OpenCL's kernels may have such
copies: a small one finds out, once for each driver.
"""

from __future__ import annotations

from functools import cache as kept_in_process
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portable.backend.program import Argument, Box
from portable.dtypes import uint32
from portable.errors import PortableError
from portable.lang.emit.opencl import OPENCL
from portable_backends.common.gate import Gate
from portable_backends.common.tensor_maps import describing
from portable_backends.opencl.probes import (
    BOX_COPY,
    ITEMS,
    answer,
    asked_isolated,
    output_of,
    quiet,
    remembered,
)

_TELL: Final = "__kernel void tell(__global char *x, __global ulong *out) { *out = (ulong)x; }"


class Addresses:
    """Where the buffers of a context lie in the memory of its device, NVIDIA's.

    A buffer lies where it is for as long as there is one. Those that were asked for are held until
    nobody else does, so that none takes the place of another unseen.

    Parameters
    ----------
    context : pyopencl.Context
        Of one device.
    gate : Gate
        To its driver.
    """

    def __init__(self, context: cl.Context, gate: Gate) -> None:
        self._context = context
        self._gate = gate
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, buffer: Any) -> int:
        """The address of a buffer, which is waited for when it is asked for first."""
        handle = buffer.int_ptr
        known = self._known.get(handle)
        if known is None:
            with self._gate.lock:
                self.let_go()
                held: Any = cl.MemoryObject.from_int_ptr(handle)
                known = self._known[handle] = held, self._told(held)
        return known[1]

    def let_go(self) -> None:
        """Gives buffers up that nobody else holds."""
        with self._gate.lock:
            for handle, (held, _) in list(self._known.items()):
                if held.reference_count == 1:
                    del self._known[handle]

    @cached_property
    def _teller(self) -> tuple[cl.CommandQueue, cl.Kernel, cl.Buffer]:
        """A queue beside all others, in which a kernel waits for no work but its own."""
        with quiet:
            kernel: cl.Kernel = cl.Program(self._context, _TELL).build().tell
        out = np.zeros(1, np.uint64)
        room = cl.Buffer(self._context, cl.mem_flags.WRITE_ONLY, out.nbytes)
        return cl.CommandQueue(self._context), kernel, room

    def _told(self, buffer: Any) -> int:
        queue, kernel, room = self._teller
        kernel.set_args(buffer, room)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        address = np.zeros(1, np.uint64)
        cl.enqueue_copy(queue, address, room)
        return int(address[0])


_COLUMNS: Final = 16
_BEGUN: Final = OPENCL.box_begun.format(name="x", entry="probe", number=0)
_SOURCE: Final = f"""
#define GIVEN {OPENCL.box.format(name="x")}
#define BEGUN {_BEGUN}
#define FROM {OPENCL.box_address.format(name="x")}
{BOX_COPY}"""


@kept_in_process
def copies_boxes(device: cl.Device) -> bool:
    """Whether a device's driver copies boxes of arrays that are described so."""
    ask = lambda: asked_isolated(__name__, device)  # noqa: E731
    return bool(remembered(device, _SOURCE, ask, 0))


def copies(device: cl.Device) -> bool:
    """The same, found out now and in this process.

    Raises
    ------
    pyopencl.Error
        If a kernel that was built cannot be run.
    """
    context, shape = cl.Context([device]), (ITEMS // _COLUMNS, _COLUMNS)
    box = Argument("box", 0, 0, uint32, Box((1, 0), shape[::-1], (1, 1), 0))

    def told(queue: cl.CommandQueue, x: cl.Buffer) -> bytes:
        address = Addresses(context, Gate("", queue.finish, opened=False)).of(x)
        return describing(box, shape, (4 * _COLUMNS, 4))(address, 0)

    try:
        out = output_of(context, _SOURCE, told=told)
    except (OSError, AttributeError, PortableError):  # of a driver that makes no maps
        return False
    expected = np.arange(_COLUMNS, ITEMS + _COLUMNS) + 1
    expected[-_COLUMNS:] = 1  # of rows that lie outside
    return out is not None and bool((out == expected).all())


if __name__ == "__main__":
    answer(copies)
