"""Small kernels that find out what a driver does not tell of, once for each driver.

The answers are kept in the cache of compiled programs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np
import pyopencl as cl

from portable.system import cache
from portable_backends.common.compiled_apart import described, in_process, named
from portable_backends.opencl.covered import is_covered, uncovered
from portable_backends.opencl.remarks import quiet

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
    facts = device.platform.version, device.name, device.version, device.driver_version
    name = cache.key(question, *facts)
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


def asked_apart(module: str, device: cl.Device) -> bool | None:
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
    context: cl.Context, source: str, items: int = ITEMS, options: Sequence[str] = _QUIETLY
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
    kernel(queue, (items,), (items,), given, buffer)
    cl.enqueue_copy(queue, out, buffer)
    return out


def _built(context: cl.Context, source: str, options: Sequence[str]) -> cl.Program:
    program = cl.Program(context, source)
    built: cl.Program = program.build([*options], cache_dir=False)  # type: ignore[arg-type]
    if not is_covered(source):
        return built
    binaries: Any = built.get_info(cl.program_info.BINARIES)
    shown = uncovered(bytes(binaries[0]))
    again: cl.Program = cl.Program(context, context.devices, [shown]).build()
    return again
