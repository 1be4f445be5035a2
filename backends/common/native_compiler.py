"""From LLVM IR to machine code in this process, by llvmlite.

To import llvmlite and to ask it what the processor is takes 60 ms to 0.2 s, so that it is left
until something is to be compiled or linked. An object then takes a quarter of a millisecond to be
linked, and 7 to 30 ms to be compiled if it is not on the disk.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple

from portable.errors import CompileError, DeviceError
from portable.lang.emit.llvm.statements import APART, ONE_ROUND
from portable.system import cache
from portable.system.locks import fork_safe_lock

_OPTIMISED: Final = 2
"""Level 3 took 1.15 of the time over 142 kernels; runs of these swung by more than they won."""
_WIDE: Final = ",-prefer-256-bit"
"""LLVM keeps to 256 bits on some processors that have 512; kernels are written for these."""


class Target(NamedTuple):
    """What is compiled for.

    Attributes
    ----------
    triple : str
        Instruction set, maker and system, such as ``"aarch64-linux-gnu"``.
    processor : str
        As LLVM names it; ``"generic"`` for any.
    features : str
        Instruction sets beyond those of the processor, as ``"+avx512f,-amx-tile"``.
    """

    triple: str
    processor: str
    features: str


class Linked(NamedTuple):
    """Code in memory, for as long as `holder` is held.

    Attributes
    ----------
    holder : object
        Frees the code as it goes.
    addresses : dict
        Of the symbols that were asked for.
    """

    holder: Any
    addresses: dict[str, int]


def _binding() -> Any:
    """llvmlite, ready to compile for this processor."""
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise DeviceError(
            "llvmlite, which cpu:native compiles kernels by and OpenCL's devices their loop over "
            f"launches, cannot be imported ({error}): pip install llvmlite"
        ) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def host_target() -> Target:
    """This processor, and all that it can do."""
    llvm = _binding()
    features = llvm.get_host_cpu_features().flatten()
    wide = _WIDE if "+avx512f" in features else ""
    return Target(llvm.get_process_triple(), llvm.get_host_cpu_name(), features + wide)


class Compiler:
    """Compiles for one target; links where that is this process.

    Parameters
    ----------
    target : Target, optional
        This processor if left out.
    """

    def __init__(self, target: Target | None = None) -> None:
        self._asked = target
        self._lock = fork_safe_lock()
        self._names = count()

    @cached_property
    def _llvm(self) -> Any:
        llvm = _binding()
        if self._asked is not None:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
        return llvm

    @cached_property
    def target(self) -> Target:
        """What it compiles for."""
        return self._asked or host_target()

    @cached_property
    def version(self) -> str:
        """LLVM's."""
        return ".".join(map(str, self._llvm.llvm_version_info))

    @cached_property
    def _machine(self) -> Any:
        machine = self._llvm.Target.from_triple(self.target.triple)
        # Windows' linker in LLVM does not see to it that code is near constants and functions.
        near = not self.target.triple.startswith("x86_64") or not self._for_windows
        return machine.create_target_machine(
            cpu=self.target.processor,
            features=self.target.features,
            opt=_OPTIMISED,
            reloc="pic" if near else "static",
            codemodel="default" if near else "large",
        )

    @property
    def _for_windows(self) -> bool:
        return "windows" in self.target.triple

    @cached_property
    def _linker(self) -> Any:
        # llvmlite refuses LLVM's newer linker under Windows.
        return self._llvm.create_lljit_compiler(self._machine, use_jit_link=not self._for_windows)

    def facts(self) -> dict[str, str]:
        """What processors have in common that run each other's objects."""
        triple, processor, features = self.target
        return {
            "driver": f"LLVM {self.version}",
            "architecture": processor,
            "triple": triple,
            "features": features,
        }

    def name_of(self, text: str) -> str:
        """By what its object is kept on the disk."""
        return cache.key("llvm", self.version, *self.target, text)

    def object_of(self, text: str, what: str, *, passes: bool = True) -> bytes:
        """The object file of a text, from the disk if it was compiled before.

        Parameters
        ----------
        text : str
            LLVM IR without a target.
        what : str
            What it is, for errors.
        passes : bool
            Whether LLVM's passes go over it; they gain nothing where it was written by hand as it
            is to be.

        Raises
        ------
        CompileError
            With the text and LLVM's words.
        """
        name = self.name_of(text)
        kept = cache.load(name)
        if kept is not None:
            return kept
        made = self.compile(text, what, passes=passes)
        cache.store(name, made)
        return made

    def compile(self, text: str, what: str, *, passes: bool = True) -> bytes:
        """The object file of a text, compiled now.

        The parameters are those of `object_of`.

        Raises
        ------
        CompileError
            With the text and LLVM's words.
        """
        with self._lock:
            try:
                module = self._optimised(text) if passes else self._parsed(text)
                return bytes(self._machine.emit_object(module))
            except RuntimeError as error:
                raise CompileError(f"LLVM refused {what}", text, str(error)) from None

    def _parsed(self, text: str) -> Any:
        module = self._llvm.parse_assembly(text)
        module.triple = self._machine.triple
        module.data_layout = str(self._machine.target_data)
        for function in module.functions:
            if not function.is_declaration:
                # No tables to unwind by, for which Windows' linker finds no place.
                function.add_function_attribute("nounwind")
        module.verify()
        return module

    def _optimised(self, text: str) -> Any:
        llvm, machine, module = self._llvm, self._machine, self._parsed(text)
        options = llvm.create_pipeline_tuning_options(speed_level=_OPTIMISED)
        options.loop_vectorization = options.loop_unrolling = True
        # Loops over work-items have vectors of these. Those of neighbouring instructions made them
        # no faster, take a tenth of the passes' time or more, and LLVM 22 aborts on some. An
        # inverse by lone work-items took 1.2 of the time without them.
        options.slp_vectorization = APART not in text
        options.loop_interleaving = ONE_ROUND not in text
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        return module

    def link(
        self, image: bytes, symbols: tuple[str, ...], known: Mapping[str, int] | None = None
    ) -> Linked:
        """Put an object into memory.

        Parameters
        ----------
        image : bytes
            The object file.
        symbols : tuple of str
            Whose addresses are wanted.
        known : mapping, optional
            Addresses of symbols that it may use, besides those of libraries in this process.

        Raises
        ------
        DeviceError
            If it is no object for this processor, or lacks a symbol.
        """
        with self._lock:
            builder = self._llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            for symbol, address in (known or {}).items():
                builder.import_symbol(symbol, address)
            for symbol in symbols:
                builder.export_symbol(symbol)
            try:
                holder = builder.link(self._linker, f"portable{next(self._names)}")
            except RuntimeError as error:
                raise DeviceError(f"LLVM does not link {', '.join(symbols)}: {error}") from None
        return Linked(holder, {symbol: holder[symbol] for symbol in symbols})


def keep_for_good(thing: object) -> None:
    """Have an object outlive the interpreter: threads may still run the code that it holds."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


compiler: Final = Compiler()
"""Of this processor."""
