"""What it costs to start a kernel, beside the library beneath."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from portable import kernel
from portable import lang as kl
from portable.backend import Device, Program
from portable.dtypes import float32
from portable.errors import UnsupportedError
from portable.lang.launch.plan import Lowered
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Ways
from portable_bench.peers import Peers, peer

_LABELS = {1: "1 array", 3: "3 arrays, 1 number"}


class Launch(Operation):
    """The host's time per launch: a warm call, a prepared one, and the library's own.

    A size is the number of arrays. The kernels have next to nothing to do.
    """

    name = "launch"
    axes = ("ARRAYS",)
    sizes = dict.fromkeys(("cpu", "gpu", "simulator"), Sizes("1,3"))
    dtypes = (float32,)
    timed = "enqueue"
    in_place = True

    def complete(self, size: Size) -> Size:
        if len(size) != 1 or size[0] not in _LABELS:
            raise ValueError("expected the number of arrays, 1 or 3")
        return size

    def label(self, size: Size) -> str:
        return _LABELS[size[0]]

    def shapes(self, size: Size) -> Shapes:
        return ((256,),) * size[0]

    def work(self, case: Case) -> None:
        """None worth counting."""

    def exact(self, x: Any, *more: Any) -> Any:
        return 2 * x + more[0] if more else 2.0

    def prepare(self, case: Case, *arrays: Any) -> Run:
        return called(*arrays)

    def ways(self, case: Case) -> Ways:
        return {"warm": called, "prepared": prepared}

    def peers(self, case: Case) -> Peers:
        return [peer(case, "raw", lambda *arrays: raw(case.device, *arrays))]


@kernel
def fill(x: Any) -> None:
    """One argument."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = 2.0


@kernel
def saxpy(a: Any, x: Any, y: Any, z: Any) -> None:
    """Three arrays and a number."""
    i = kl.global_id(0)
    if i < z.shape[0]:
        z[i] = a * x[i] + y[i]


def called(*arrays: Any) -> Run:
    """A launch as users write it."""
    launch, args = _launch(*arrays)
    return partial(launch, *args)


def prepared(*arrays: Any) -> Run:
    """A launch whose arguments are bound beforehand."""
    launch, args = _launch(*arrays)
    run: Run = launch.prepare(*args)
    return run


def _launch(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    """The last array is what the kernel writes."""
    n = arrays[-1].shape[0]
    if len(arrays) == 1:
        return fill[n, n], arrays
    return saxpy[n, n], (2.0, *arrays)


def raw(device: Device, *arrays: Any) -> Run:
    """The same program over the same workgroups, started by the library's own means.

    Its arguments are made beforehand.
    """
    launch, args = _launch(*arrays)
    lowered = launch.lower(*args)
    program = lowered.program
    makers = {"opencl": _opencl, "cpu": _opencl, "sycl": _sycl, "cuda": _cupy, "rocm": _cupy}
    if program is None or device.backend not in makers:
        raise UnsupportedError(f"{device.name} has no library beneath to compare launches with")
    make = _native if program.dialect == "llvm" else makers[device.backend]
    return make(device, program, lowered, arrays)


def _native(
    device: Any, program: Program, lowered: Lowered, arrays: Sequence[Any]
) -> Callable[[], Any]:
    """The job that the threads are given, without what Portable does to make one."""
    executable = device.compile(program)
    run: Callable[[], None] = executable.prepare(lowered.groups, lowered.arguments)
    return run


def _opencl(
    device: Any, program: Program, lowered: Lowered, arrays: Sequence[Any]
) -> Callable[[], Any]:
    import pyopencl as cl

    runtime = device._runtime
    kernel = cl.Kernel(runtime.built(program), program.entry)
    kernel.set_scalar_arg_dtypes(
        [None if a.kind == "pointer" else a.type.numpy for a in program.arguments]
    )
    queue, groups, local = runtime.queue, lowered.groups, program.workgroup
    size = tuple(n * extent for n, extent in zip(groups, local, strict=True))
    arguments = lowered.arguments
    if runtime.blocking:
        return lambda: kernel(queue, size, local, *arguments).wait()
    return lambda: kernel(queue, size, local, *arguments)


_C_TYPES = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def _sycl(
    device: Any, program: Program, lowered: Lowered, arrays: Sequence[Any]
) -> Callable[[], Any]:
    from dpctl.utils import SequentialOrderManager

    queue = arrays[0].sycl_queue
    executable: Any = lowered.executable
    kernel = executable._kernel
    arguments = [
        x if a.kind == "pointer" else _C_TYPES[a.type.name](x)
        for a, x in zip(program.arguments, lowered.arguments, strict=True)
    ]
    local = list(program.workgroup[::-1])
    size = [n * extent for n, extent in zip(lowered.groups[::-1], local, strict=True)]

    def launch() -> None:
        order = SequentialOrderManager[queue]
        event = queue.submit_async(kernel, arguments, size, local, order.submitted_events)
        order.add_event_pair(queue._submit_keep_args_alive(arguments, [event]), event)

    return launch


def _cupy(
    device: Device, program: Program, lowered: Lowered, arrays: Sequence[Any]
) -> Callable[[], Any]:
    import cupy

    module = cupy.RawModule(code=program.source, options=program.flags)
    kernel = module.get_function(program.entry)
    pointers = iter(arrays)
    arguments = tuple(
        next(pointers) if a.kind == "pointer" else a.type.numpy.type(x)
        for a, x in zip(program.arguments, lowered.arguments, strict=True)
    )
    groups, local = lowered.groups, program.workgroup
    shared = program.local_bytes if program.dynamic_local else 0
    return lambda: kernel(groups, local, arguments, shared_mem=shared)
