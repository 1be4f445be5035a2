"""Programs in LLVM's text, compiled in the process and called on this thread."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import platform
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from portable.backend import Capabilities, Program
from tests.support.capabilities import made_up
from tests.support.compilers import OpenCLDevice

NATIVE: Capabilities = made_up(
    dialect="llvm",
    kind="cpu",
    name="a processor by LLVM",
    local_memory=2**18,
    local_memory_opt_in=2**18,
    local_memory_dedicated=False,
    single_work_items=True,
    streaming_stores=True,
    max_workgroup=1024,
    max_workgroup_shape=(1024, 1024, 1024),
    vector_bytes=64,
    vectorizes_work_items=True,
    memory_orders="acq_rel",
    float_atomics=True,
    forward_progress=True,
    compressed_bytes=64,
)

_ROOM = 128


@functools.cache
def _binding() -> Any:
    """llvmlite's, ready for every processor; the test is skipped where it is missing."""
    binding = pytest.importorskip("llvmlite.binding", reason="llvmlite is missing")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


def _machine(triple: str, cpu: str, features: str = "") -> Any:
    binding = _binding()
    target = binding.Target.from_triple(triple or binding.get_default_triple())
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic")


def _optimised(source: str, machine: Any, level: int = 3) -> Any:
    binding = _binding()
    module = binding.parse_assembly(source)
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    vectorised = level > 1
    options.loop_vectorization = options.slp_vectorization = vectorised
    options.loop_unrolling = vectorised
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def emitted(program: Program, triple: str, cpu: str) -> bytes:
    """The object of a program for another processor."""
    machine = _machine(triple, cpu)
    image: bytes = machine.emit_object(_optimised(program.source, machine))
    return image


def assembly(program: Program, triple: str = "", cpu: str = "") -> str:
    """The assembler's text of a program; for this processor unless another is named."""
    binding = _binding()
    features = "" if cpu else binding.get_host_cpu_features().flatten()
    machine = _machine(triple, cpu or binding.get_host_cpu_name(), features)
    text: str = machine.emit_assembly(_optimised(program.source, machine))
    return text


class LLVMDevice:
    """This processor, or what an older one of its kind would compute."""

    def __init__(self, cpu: str = "") -> None:
        binding = _binding()
        features = "" if cpu else binding.get_host_cpu_features().flatten()
        self._machine = _machine("", cpu or binding.get_host_cpu_name(), features)
        self._jit = binding.create_lljit_compiler(self._machine)
        self._built: dict[str, tuple[Any, Any]] = {}
        self.capabilities = replace(NATIVE)
        self.name = cpu or "native"
        self.printed: list[str] = []
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self._printer = kind(lambda p, n: self.printed.append(ctypes.string_at(p, n).decode()))
        self._print = ctypes.cast(self._printer, ctypes.c_void_p).value
        self.rounds: list[int] = []
        self._waiter = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self.rounds.append)
        self._linger = ctypes.cast(self._waiter, ctypes.c_void_p).value

    def run(self, program: Program, groups: Sequence[int], arguments: Sequence[Any]) -> list[Any]:
        """Runs a program; `arguments` holds an array or number per kernel parameter, in order.

        Copies of the arrays are passed; what is left in them comes back, in order.
        """
        copies = [np.array(a) if isinstance(a, np.ndarray) else None for a in arguments]
        given = [a if c is None else c for a, c in zip(arguments, copies, strict=True)]
        self.launch(program, groups, given)
        return copies

    def launch(self, program: Program, groups: Sequence[int], arguments: Sequence[Any]) -> None:
        """Runs a program on the arrays themselves, in two calls."""
        counts = (*groups, 1, 1)[:3]
        sizes = [count * size for count, size in zip(counts, program.workgroup, strict=True)]
        launch = np.array([*counts, *sizes], np.int64)
        slots = np.zeros((max(1, len(program.arguments)), 8), np.uint8)
        for slot, argument in zip(slots, program.arguments, strict=False):
            held = np.asarray(self._passed(argument, arguments[argument.parameter]))
            slot[: held.nbytes] = np.frombuffer(held.tobytes(), np.uint8)
        room = np.full(program.local_bytes + 2 * _ROOM, 0xA5, np.uint8)
        start = -room.ctypes.data % _ROOM
        total, call = prod(counts), self.function(program)
        for first, last in ((0, total // 2), (total // 2, total)):
            call(slots.ctypes.data, launch.ctypes.data, first, last, room.ctypes.data + start)

    def _passed(self, argument: Any, value: Any) -> Any:
        match argument.kind:
            case "scalar":
                kind = np.uint8 if argument.type.kind == "b" else argument.type.numpy.type
                return kind(value)
            case "pointer":
                return np.uint64(value.ctypes.data)
            case "extent":
                return argument.type.numpy.type(value.shape[argument.dim])
            case "stride":
                return argument.type.numpy.type(value.strides[argument.dim] // value.itemsize)
        raise AssertionError(argument.kind)

    def function(self, program: Program) -> Any:
        """The compiled function."""
        found = self._built.get(program.source)
        if found is None:
            binding = _binding()
            image = self._machine.emit_object(_optimised(program.source, self._machine))
            builder = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
            name = f"library{len(self._built)}"
            builder.import_symbol("portable_print", self._print)
            builder.import_symbol("portable_linger", self._linger)
            kept = builder.export_symbol(program.entry).link(self._jit, name)
            numbers = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
            kind = ctypes.CFUNCTYPE(None, *numbers, ctypes.c_void_p)
            found = self._built[program.source] = kept, kind(kept[program.entry])
        return found[1]


Runtime = OpenCLDevice | LLVMDevice
"""What tests run programs on without a backend."""


@functools.cache
def device(cpu: str = "") -> LLVMDevice:
    """The device of a processor's name; of this processor without one."""
    return LLVMDevice(cpu)


@functools.cache
def devices() -> tuple[LLVMDevice, ...]:
    """This processor and, where it is of that family, the first of x86-64's; none without LLVM."""
    if importlib.util.find_spec("llvmlite") is None:
        return ()
    old = ["x86-64"] if platform.machine() in ("x86_64", "AMD64") else []
    return (device(), *map(device, old))
