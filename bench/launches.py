"""Small kernels started in three ways: by a call, prepared, and by the library beneath."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from portable import kernel
from portable import lang as kl
from portable.backend import Device, Program
from portable.errors import UnsupportedError
from portable.lang.launch.plan import Lowered
from portable_bench.operation import Run


def raw_launch(device: Device, lowered: Lowered, arrays: Sequence[Any]) -> Callable[[], Any]:
    """The same program over the same workgroups with the same arguments, arguments made beforehand.

    Parameters
    ----------
    device : Device
        Where to.
    lowered : Lowered
        What a launch of ours hands to it.
    arrays : sequence
        The arrays among the kernel's parameters, by position.
    """
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


@kernel
def fill(x: kl.Array) -> None:
    """One argument."""
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = 2.0


@kernel
def saxpy(a: kl.Scalar, x: kl.Array, y: kl.Array, z: kl.Array) -> None:
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


def raw(device: Device, *arrays: Any) -> Run:
    """The same generated program, started by the library's own means."""
    launch, args = _launch(*arrays)
    return raw_launch(device, launch.lower(*args), arrays)


def _launch(*arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    """The last array is what the kernel writes."""
    n = arrays[-1].shape[0]
    if len(arrays) == 1:
        return fill[n, n], arrays
    return saxpy[n, n], (2.0, *arrays)
