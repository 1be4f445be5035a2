"""Small kernels that find out what a driver does not report, once for each driver.

The answers are kept in the cache of compiled programs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cache as kept_in_process
from threading import Lock
from typing import Any, Final, NoReturn

import numpy as np
import pyopencl as cl

from portable.lang.emit.opencl import COVER
from portable.system import cache
from portable_backends.common.isolated_compiler import described, in_process, named

# Programs with instructions of one generation of NVIDIA's GPUs alone, those of ``sm_90a``.
#
# NVIDIA's OpenCL compiles for ``sm_90``, of which its assembler refuses them. But what it calls a
# program's binary is text, and is assembled for what the text says that it is for. So they stand in
# comments at first, where the compiler leaves them; in the binary they come out of these, which is
# then loaded. No document promises any of this: see `opencl_warpgroups`.

_TARGET: Final = re.compile(rb"(\.target\s+sm_90)\b")


def uncovered(binary: bytes) -> bytes:
    """The binary with these instructions out of their comments, for the GPUs that have them."""
    return _TARGET.sub(rb"\1a", binary, count=1).replace(COVER.encode(), b"")


# Compilers' remarks on generated code, which are of no use to the user.


class _Quiet:
    """A context, of any number of threads at once, in which remarks become no warnings.

    Filters of warnings are everybody's: a thread that took its own away would bring the remarks of
    the others back. The first thread sets one, the last takes it away.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._set = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._set.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore", cl.CompilerWarning)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._set.close()


quiet: Final = _Quiet()


# -- probes ----------------------------------------------------------------------------------------

ITEMS: Final = 128
"""Numbers that such a kernel gives, mostly one from each work-item."""

_QUIETLY: Final = ("-w",)
_PATIENCE: Final = 60.0
"""Seconds."""

_YES, _RAISED, _NO = 0, 1, 3
"""How a process that finds out ends, if the driver does not end it."""


def remembered(
    device: cl.Device, question: str, ask: Callable[[], int | None], otherwise: int
) -> int:
    """The answer to a question that was kept, or is found now.

    Parameters
    ----------
    device : pyopencl.Device
        Whose driver is asked.
    question : str
        All that the answer depends on but the device and its driver.
    ask : callable
        Finds the answer, which is no less than 0. None, or an error that OpenCL raises, may be of
        the moment, such as memory that others have: nothing is kept then.
    otherwise : int
        The answer where none was found.
    """
    name = cache.key(question, *described(device).values())
    kept = cache.load(name)
    if kept is not None and kept.isdigit():
        return int(kept)
    try:
        result = ask()
    except cl.Error:
        result = None
    if result is None:
        return otherwise
    cache.store(name, b"%d" % result)
    return result


def asked_isolated(module: str, device: cl.Device) -> bool | None:
    """What a module answers of a device in a process of its own, which drivers may end.

    None if there can be no such process, or if it does not get that far.

    Parameters
    ----------
    module : str
        Its name; run by itself, it calls `answer`.
    device : pyopencl.Device
        Which is asked about.
    """
    try:
        status = in_process(module, described(device), _PATIENCE).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None
    return None if status == _RAISED else status == _YES


def answer(answer: Callable[[cl.Device], bool]) -> NoReturn:
    """Ends such a process with what is found of the device that it is asked about.

    Parameters
    ----------
    answer : callable
        Finds it.
    """
    sys.exit(_YES if answer(named(json.load(sys.stdin))) else _NO)


def output_of(
    context: cl.Context,
    source: str,
    items: int = ITEMS,
    options: Sequence[str] = _QUIETLY,
    told: Callable[[cl.CommandQueue, cl.Buffer], Any] = lambda queue, x: x,
) -> np.ndarray | None:
    """What a kernel ``probe(x, out)`` writes, given the first numbers as `x`, all uint.

    None where it cannot be built.

    Parameters
    ----------
    context : pyopencl.Context
        Of one device.
    source : str
        The kernel.
    items : int
        Work-items of its one workgroup.
    options : sequence of str
        What it is built with.
    told : callable
        Makes what it is given of a queue and `x`.

    Raises
    ------
    pyopencl.Error
        If a kernel that was built cannot be run.
    """
    try:
        with quiet:
            kernel = _built(context, source, options).probe
    except cl.Error:
        return None
    queue, flags = cl.CommandQueue(context), cl.mem_flags
    x, out = np.arange(ITEMS, dtype=np.uint32), np.zeros(ITEMS, np.uint32)
    given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
    buffer = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=out)
    kernel(queue, (items,), (items,), told(queue, given), buffer)
    cl.enqueue_copy(queue, out, buffer)
    return out


def _built(context: cl.Context, source: str, options: Sequence[str]) -> cl.Program:
    program = cl.Program(context, source)
    built: cl.Program = program.build([*options], cache_dir=False)  # type: ignore[arg-type]
    if COVER not in source:
        return built
    binaries: Any = built.get_info(cl.program_info.BINARIES)
    shown = uncovered(bytes(binaries[0]))
    again: cl.Program = cl.Program(context, context.devices, [shown]).build()
    return again


# Whether NVIDIA's OpenCL copies in bulk, by instructions of its assembler.
#
# These are of PTX for `sm_90`, which is what its driver assembles for; but that it does is in no
# document, so that a kernel with a copy either way is built and run, once for each driver.

_COPY: Final = """
#define PTX __asm__ volatile
__kernel void probe(GIVEN, __global uint *out) {
    BEGUN
    __local uint array[128] __attribute__((aligned(128)));
    __local ulong arrived[1];
    const uint to = (uint)(size_t)array, at = (uint)(size_t)arrived;
    if (get_local_id(0) == 0) {
        PTX("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
        PTX("fence.mbarrier_init.release.cluster;" ::: "memory");
        PTX("fence.proxy.async.shared::cta;" ::: "memory");
        PTX("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(at) : "memory");
        PTX(COPIED :: "r"(to), "l"(FROM), "r"(at), "r"(0), "r"(1) : "memory");
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint done = 0;
    for (uint i = 0; i < 1000000 && !done; i++)
        PTX("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
            "selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    array[get_local_id(0)] += 1;
    PTX("fence.proxy.async.shared::cta;" ::: "memory");
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0) {
        PTX("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 512;"
            :: "l"((ulong)out), "r"(to) : "memory");
        PTX("cp.async.bulk.commit_group;" ::: "memory");
        PTX("cp.async.bulk.wait_group 0;" ::: "memory");
    }
}
"""


_TO: Final = ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
_BULK_COPY: Final = f"""
#define GIVEN __global const uint *x
#define BEGUN
#define FROM (ulong)x
#define COPIED "cp.async.bulk{_TO}[%1], 512, [%2];"{_COPY}"""
BOX_COPY: Final = f"""
#define COPIED "cp.async.bulk.tensor.2d{_TO}[%1, {{%3, %4}}], [%2];"{_COPY}"""
"""The same of a box of a matrix, whose description lies at ``FROM``."""


@kept_in_process
def copies_in_bulk(device: cl.Device) -> bool:
    """Whether a device's driver assembles copies in bulk, and they copy."""
    return bool(remembered(device, _BULK_COPY, lambda: copies(device), 0))


def copies(device: cl.Device) -> bool:
    """The same, found out now, in a context that a kernel that fails takes away from nobody."""
    out = output_of(cl.Context([device]), _BULK_COPY)
    return out is not None and bool((out == np.arange(1, ITEMS + 1)).all())


# How much local memory NVIDIA's OpenCL has, which tells of 48 KiB on every GPU.
#
# Kernels may declare arrays as large as the GPU has room for (seen with driver 580 on an H200), as
# those of CUDA may once they ask for it; arguments of local memory stay within what the driver
# tells of. No document promises this, so that a kernel with such an array is built and run, once
# for each driver: the answer is kept in the cache of compiled programs.

SIZES: Final = tuple(kib * 1024 for kib in (227, 226, 163, 162, 99, 98, 96, 95, 64))
"""What a workgroup may have on NVIDIA's GPUs ("CUDA C++ Programming Guide", "Technical
specifications per compute capability"), and the KiB less that OpenCL left on an H200."""

_LOCAL_ARRAY: Final = """
__kernel void probe(__global const uint *x, __global uint *out) {{
    __local uint array[{count}];
    const uint item = get_local_id(0);
    for (uint i = item; i < {count}; i += {items}) array[i] = i;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[item] = array[{count} - 1 - item];
}}
"""
"""Work-items read what others wrote, so that no compiler can leave the array out."""


@kept_in_process
def largest_array(device: cl.Device, reported: int) -> int:
    """Bytes of the largest array in local memory that a driver takes; `reported` if no larger one.

    Parameters
    ----------
    device : pyopencl.Device
        The device.
    told : int
        Bytes that its driver tells of.
    """
    question = f"{_LOCAL_ARRAY} {SIZES} {reported}"
    return remembered(device, question, lambda: largest_taken(device, reported, SIZES), reported)


def largest_taken(device: cl.Device, reported: int, sizes: Sequence[int]) -> int:
    """The first of `sizes`, which get smaller, that a kernel's array can have; else `reported`.

    In a context of its own, which a kernel that fails takes nobody else's memory away with.

    Raises
    ------
    pyopencl.Error
        If there is no room for a context, or a kernel that was built cannot be run.
    """
    context = cl.Context([device])
    larger = (size for size in sizes if size > reported)
    return next((size for size in larger if _takes(context, size)), reported)


def _takes(context: cl.Context, size: int) -> bool:
    """Whether a kernel with an array of so many bytes is built, and its elements are kept."""
    count = size // 4
    out = output_of(context, _LOCAL_ARRAY.format(count=count, items=ITEMS))
    return out is not None and bool((out == np.arange(count - ITEMS, count)[::-1]).all())
