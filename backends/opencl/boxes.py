"""Arrays as NVIDIA's copy engine is told of them, for launches through OpenCL.

A tensor map holds an address, and OpenCL tells nobody the address of a buffer but kernels. So a map
is made for another address, and a kernel of one work-item writes it with the right one, ahead of
the kernel that takes boxes. No document promises that OpenCL's kernels may have such copies: a
small one finds out, once for each driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache as kept_in_process
from functools import cached_property
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pyopencl as cl

from portable.backend.program import Argument, Box
from portable.dtypes import uint32
from portable.errors import DeviceError, PortableError
from portable_backends.common.tensor_maps import BOXES_BYTES, describing
from portable_backends.opencl.probes import ITEMS, answer, asked_isolated, quiet, remembered

_OTHER: Final = (1 << 32, 1 << 33)
"""Addresses of no array."""

_AT_ONCE: Final = 2
"""Maps that a launch writes: most kernels take boxes of two arrays."""

_DESCRIBE: Final = """
__kernel void describe(
    __global char *x, long x_offset, ulong16 x_map, __global ulong16 *x_out,
    __global char *y, long y_offset, ulong16 y_map, __global ulong16 *y_out)
{
    x_map.s0 = (ulong)(x + x_offset);
    *x_out = x_map;
    y_map.s0 = (ulong)(y + y_offset);
    *y_out = y_map;
}
"""


class Described(NamedTuple):
    """An array in a buffer, some bytes from its beginning, and its map but for the address."""

    buffer: Any
    offset: int
    words: bytes


def describing_later(
    argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Callable[[Any, int], Described]:
    """A function from an array's buffer, and where it lies there, to what describes it.

    Parameters
    ----------
    argument, shape, strides
        As of `describing`.

    Raises
    ------
    LaunchError
        Where the driver refuses.
    DeviceError
        If maps do not begin with addresses, as they were seen to.
    """
    describe = describing(argument, shape, strides)
    maps = [np.frombuffer(describe(address, 0), np.uint64) for address in _OTHER]
    if [int(x[0]) for x in maps] != [*_OTHER] or (maps[0][1:] != maps[1][1:]).any():
        raise DeviceError("the driver's tensor maps do not begin with addresses; update Portable")
    words = maps[0].tobytes()
    return lambda buffer, offset: Described(buffer, offset, words)


class Maps:
    """Writes the maps of a context's launches. Not safe under threads: callers hold a lock.

    Parameters
    ----------
    context : pyopencl.Context
    """

    def __init__(self, context: cl.Context) -> None:
        self._context = context
        self._rooms: list[Any] = []

    @cached_property
    def _kernel(self) -> cl.Kernel:
        with quiet:
            kernel: cl.Kernel = cl.Program(self._context, _DESCRIBE).build().describe
        return kernel

    def room(self) -> Any:
        """Memory for a map."""
        return cl.Buffer(self._context, cl.mem_flags.READ_WRITE, BOXES_BYTES)

    def rooms(self, count: int) -> list[Any]:
        """Memory for the maps of launches one after the other, of one queue."""
        self._rooms += [self.room() for _ in range(count - len(self._rooms))]
        return self._rooms[:count]

    def write(self, queue: cl.CommandQueue, arrays: Sequence[Described], rooms: list[Any]) -> None:
        """Enqueues what writes the maps of arrays."""
        kernel = self._kernel
        for first in range(0, len(arrays), _AT_ONCE):
            some = [*zip(arrays, rooms, strict=True)][first : first + _AT_ONCE]
            some = [some[0], some[-1]]
            given = [(x.buffer, np.int64(x.offset), x.words, room) for x, room in some]
            for i, value in enumerate(chain.from_iterable(given)):
                kernel.set_arg(i, value)
            cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))


_COLUMNS: Final = 16
_ROWS: Final = ITEMS // _COLUMNS
_PROBE: Final = f"""
#define PTX __asm__ volatile
__kernel __attribute__((reqd_work_group_size({ITEMS}, 1, 1)))
void probe(__global const ulong *map, __global uint *out) {{
    __local uint array[{ITEMS}] __attribute__((aligned(128)));
    __local ulong arrived[1];
    const uint to = (uint)(size_t)array, at = (uint)(size_t)arrived;
    PTX("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"((ulong)map) : "memory");
    if (get_local_id(0) == 0) {{
        PTX("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        PTX("fence.mbarrier_init.release.cluster;" ::: "memory");
        PTX("fence.proxy.async.shared::cta;" ::: "memory");
        PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], {4 * ITEMS};"
            :: "r"(at) : "memory");
        PTX("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {{%2, %3}}], [%4];"
            :: "r"(to), "l"((ulong)map), "r"(0), "r"(1), "r"(at) : "memory");
    }}
    barrier(CLK_LOCAL_MEM_FENCE);
    uint done = 0;
    for (uint i = 0; i < 1000000 && !done; i++)
        PTX("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
            "selp.u32 %0, 1, 0, p; }}" : "=r"(done) : "r"(at) : "memory");
    out[get_local_id(0)] = array[get_local_id(0)];
}}
"""
"""Copies all rows but the first of a matrix."""


@kept_in_process
def copies_boxes(device: cl.Device) -> bool:
    """Whether a device's driver copies boxes of arrays that are described so."""
    ask = lambda: asked_isolated(__name__, device)  # noqa: E731
    return bool(remembered(device, _DESCRIBE + _PROBE, ask, 0))


def copies(device: cl.Device) -> bool:
    """The same, found out now and in this process.

    Raises
    ------
    pyopencl.Error
        If a kernel that was built cannot be run.
    """
    context = cl.Context([device])
    try:
        with quiet:
            kernel = cl.Program(context, _PROBE).build(["-w"]).probe
        described = describing_later(
            Argument("box", 0, 0, uint32, Box((1, 0), (_COLUMNS, _ROWS), (1, 1), 0)),
            (_ROWS + 1, _COLUMNS),
            (4 * _COLUMNS, 4),
        )
    except (cl.Error, OSError, AttributeError, PortableError):
        return False
    x = np.arange((_ROWS + 2) * _COLUMNS, dtype=np.uint32)
    out, flags = np.zeros(ITEMS, np.uint32), cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    given, result = (cl.Buffer(context, flags, hostbuf=a) for a in (x, out))
    queue, maps = cl.CommandQueue(context), Maps(context)
    maps.write(queue, [described(given, 4 * _COLUMNS)], maps.rooms(1))
    kernel(queue, (ITEMS,), (ITEMS,), *maps.rooms(1), result)
    cl.enqueue_copy(queue, out, result)
    return bool((out == x[2 * _COLUMNS :]).all())


if __name__ == "__main__":
    answer(copies)
