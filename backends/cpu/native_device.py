"""The processor by LLVM: NumPy arrays, and kernels that are compiled in this process.

Launches are finished when they return. Ctrl-C stops a launch between workgroups: those that run are
waited for, for two seconds. It is heard while a workgroup runs during a kernel's first launch and
after one that was long; during others between two workgroups of the calling thread.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np

from portable.backend import ArrayView, Capabilities, Executable, Program, ViewCode
from portable.errors import CompileError, DeviceError, ShapeError
from portable.system import cache
from portable_backends.common.gate import Gate
from portable_backends.common.host_use import host_memory_use
from portable_backends.common.limits import check
from portable_backends.cpu import processor
from portable_backends.cpu.native_compiler import Linked, compiler
from portable_backends.cpu.native_executable import NativeExecutable
from portable_backends.cpu.native_pool import SYSTEMS, pool
from portable_backends.cpu.numpy_device import NumPyDevice

_HostArray = np.ndarray[Any, Any]
_new_view: Callable[..., ArrayView] = tuple.__new__
_WORD: Final = ctypes.sizeof(ctypes.c_size_t)
_DATA: Final = object.__basicsize__
"""Where NumPy's arrays have the address of their elements, by its stable ABI."""


def _memory_in_words() -> Any:
    """All memory as words, by their numbers; None where arrays are not laid out as expected.

    An array's own attributes make an object each, which takes ten times as long.
    """
    if _WORD != 8:
        return None
    words = (ctypes.c_size_t * (2**59)).from_address(0)
    samples = np.zeros(3, np.int16), np.zeros((2, 2)), np.frombuffer(b"abcd", np.uint8)
    for x in samples:
        if words[(id(x) + _DATA) >> 3] != _asked(x):
            return None
    return words


def _asked(array: _HostArray) -> int:
    return int(array.__array_interface__["data"][0])


class AddressedMemory:
    """For devices whose kernels take addresses of the host's memory."""

    def __init__(self) -> None:
        self._words = _memory_in_words()
        self._code = self._code_of_views()

    def view(self, array: _HostArray) -> ArrayView:
        """Describe `array`; its handle is the address of its first element."""
        flags = array.flags
        if not flags.aligned:
            raise ShapeError(
                f"a {array.dtype} array whose memory is not aligned to its elements cannot be "
                "passed to a kernel; pass a copy (x.copy())"
            )
        words = self._words
        at = words[(id(array) + _DATA) >> 3] if words is not None else _asked(array)
        # Past the constructor, which would be a third of the time that this takes.
        return _new_view(
            ArrayView,
            (array.dtype, array.shape, array.strides, at, at, 0, None, flags.writeable, None),
        )

    def behind(self, handle: Any, by: int) -> Any:
        """A later address."""
        return handle + by

    def view_code(self, array: _HostArray) -> ViewCode | None:
        """How compiled code sees arrays like this one, if it can be written to."""
        flags = array.flags
        if type(array) is not np.ndarray or not (flags.aligned and flags.writeable):
            return None
        return self._code

    def _code_of_views(self) -> ViewCode:
        # Launches compare where arrays begin modulo 16, by which they are aligned as the first was.
        same = (
            "{x}.dtype is {x}_dtype and {x}.shape == {x}_shape and {x}.strides == {x}_strides "
            "and {x}.flags.writeable"
        )
        handle = "asked({x})"
        if self._words is not None:
            handle = f"words[(id({{x}}) + {_DATA}) >> 3]"
        return ViewCode(
            np.ndarray,
            same=same,
            handle=handle,
            address="{x}_handle",
            offset="0",
            owner="None",
            names={"words": self._words, "asked": _asked},
        )


_PACKAGE: Final = "llvmlite"
_LOCAL_MEMORY: Final = 256 * 1024
"""Ordinary memory of each thread, of which so much stays in the caches of most processors."""

_MAX_WORKGROUP: Final = 4096


def why_not() -> str:
    """Why kernels cannot be compiled here; empty where they can. Imports nothing large."""
    if importlib.util.find_spec(_PACKAGE) is None:
        return f"{_PACKAGE} is not installed"
    if processor.machine() is None or sys.platform not in SYSTEMS:
        return f"LLVM's kernels are not made for {processor.instruction_set()} on {sys.platform}"
    return ""


def _version() -> str:
    try:
        return f"{_PACKAGE} {version(_PACKAGE)}"
    except PackageNotFoundError:
        return _PACKAGE


def _capabilities() -> Capabilities:
    total = host_memory_use().total or 0
    vector_bytes = processor.vector_bytes()
    return Capabilities(
        dialect="llvm",
        kind="cpu",
        vendor="llvm",
        architecture=processor.instruction_set(),
        name=processor.model_name(),
        driver=_version(),
        float64=True,
        native_half=True,
        local_memory=_LOCAL_MEMORY,
        local_memory_opt_in=_LOCAL_MEMORY,
        local_memory_dedicated=False,
        max_workgroup=_MAX_WORKGROUP,
        max_workgroup_shape=(_MAX_WORKGROUP,) * 3,
        compute_units=processor.threads(),
        vector_bytes=vector_bytes,
        vector_registers=processor.vector_registers(),
        vectorizes_work_items=True,
        lone_work_items=True,
        streaming_stores=True,
        compressed_bytes=64 if vector_bytes == 64 else 0,
        float_atomics=True,
        memory_orders="acq_rel",
        forward_progress=True,
        unified_memory=True,
        global_memory=total,
        max_allocation=total,
    )


class _Gate(Gate):
    """Forked children may use the processor: they have threads of their own."""

    def refuse(self) -> None:
        """Nobody."""


class NativeDevice(NumPyDevice):
    """The processor, with kernels compiled by LLVM and run by threads of this package."""

    name = "cpu:native"
    words = frozenset({"native", "llvm", "cpu", "numpy"})

    def __init__(self) -> None:
        self.capabilities = _capabilities()
        self._memory = AddressedMemory()
        self._gate = _Gate(self.name, lambda: None, opened=False)

    def compile(self, program: Program) -> Executable:
        """Compile by LLVM, or take the object that is kept on the disk."""
        check(program, self.capabilities)
        what = f"kernel {program.name}"
        image = compiler.object_of(program.source, what)
        try:
            return self._executable(program, self._link(program, image))
        except DeviceError:  # of a damaged object
            image = compiler.compile(program.source, what)
        try:
            linked = self._link(program, image)
        except DeviceError as error:
            raise CompileError(f"LLVM does not link {what}", program.source, str(error)) from None
        cache.store(compiler.name_of(program.source), image)
        return self._executable(program, linked)

    def _link(self, program: Program, image: bytes) -> Linked:
        return compiler.link(image, (program.entry,), {"portable_print": pool.print_address})

    def _executable(self, program: Program, linked: Linked) -> Executable:
        self._gate.open()
        return NativeExecutable(program, linked, pool, self._gate, self)

    def program_facts(self) -> dict[str, str]:
        """LLVM's version and the processor: others may lack instructions."""
        return compiler.facts()

    def export(self, program: Program) -> bytes:
        """The object file."""
        check(program, self.capabilities)
        return compiler.object_of(program.source, f"kernel {program.name}")

    def load(self, program: Program, code: bytes) -> Executable:
        """Link an object file."""
        check(program, self.capabilities)
        return self._executable(program, self._link(program, code))

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""
