"""Compiles kernels for launches that are described by a signature rather than by arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from portable import registry
from portable.backend import Device
from portable.compiled.descriptions import described, parameters_of, program_of
from portable.compiled.signatures import specs_from
from portable.errors import LaunchError, UnsupportedError
from portable.lang.arguments.arguments import ParameterSpec, Specialisation
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import Traits
from portable.lang.launch.geometry import check_workgroup, default_workgroup, sizes


@dataclass(frozen=True, slots=True)
class Variant:
    """One specialisation of a kernel, compiled for one device.

    Attributes
    ----------
    facts : dict
        `Device.program_facts` of the device, and its dialect.
    description : dict
        Of the specialisation, its program, what it writes, its dimensions and whether it is exact.
    code : bytes
        Machine code.
    source : str
        What that was compiled from, for devices like this one with another driver; "" where a
        package holds none.
    """

    facts: dict[str, str]
    description: dict[str, Any]
    code: bytes
    source: str = ""

    def compiles_on(self, facts: Mapping[str, str]) -> bool:
        """Whether its source may be compiled on a device: but for the compiler they are alike."""
        return bool(self.source) and _but_compiler(self.facts) == _but_compiler(facts)


@dataclass(frozen=True, slots=True)
class Compilation:
    """A kernel, compiled for some launches on some devices."""

    name: str
    parameters: dict[str, Any]
    variants: tuple[Variant, ...]


_COMPILERS: Final = frozenset({"driver", "version"})
"""Facts by which devices differ that compile the same text for the same processor."""


def _but_compiler(facts: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in facts.items() if name not in _COMPILERS}


def facts_of(device: Device) -> dict[str, str]:
    """What devices have in common that run each other's machine code."""
    return {"dialect": device.capabilities.dialect, **device.program_facts()}


def compile_kernel(
    kernel: Kernel,
    signature: str,
    *,
    devices: Sequence[str | Device] = (),
    workgroup: int | Sequence[int] | None = None,
    dimensions: int = 1,
    index64: bool = False,
    **constants: Any,
) -> Compilation:
    """Compile a kernel for launches with such arguments; nothing is launched.

    Two programs are made: one for aligned, contiguous arrays that do not overlap, and one for any
    others, as views.

    Parameters
    ----------
    kernel : kernel
        What to compile.
    signature : str
        The types of its arguments: ``"float, f32[:], f32[:, :]"``; of structs by their names in the
        kernel's module, ``"Points(f32[:], f32[:], int)"``, and of tuples, ``"(f32[:], f32[:])"``.
    devices : sequence of str or Device
        For which devices; the one in use if none is named.
    workgroup : int or sequence of int, optional
        As launches will give it; the default for an ndrange of so many `dimensions` if left out.
    dimensions : int
        Of the ndrange, if `workgroup` is left out.
    index64 : bool
        Whether arrays may have 2**31 elements and more.
    **constants
        The keyword-only parameters.

    Raises
    ------
    LaunchError
        For a signature that is none, or that does not fit the kernel.
    KernelError, CompileError
        As a launch would.
    UnsupportedError
        If a device keeps no compiled programs, as the simulator does.
    """
    chosen = [registry.device(name) for name in devices] or [registry.device()]
    scope = getattr(kernel.python, "__globals__", {})
    variants = []
    for device in chosen:
        local = default_workgroup(dimensions, device.capabilities)
        if workgroup is not None:
            local = sizes(workgroup, "the workgroup")
        check_workgroup(local, device.capabilities)
        for fast in (True, False):
            specs = specs_from(signature, scope, fast=fast)
            _check_count(kernel, specs, signature)
            wanted = Specialisation(
                specs, kernel.constants(constants), local, index64, fast, kernel.options
            )
            variants.append(_variant(kernel, wanted, device))
    return Compilation(
        kernel.__name__, parameters_of(kernel.parameters, kernel.options), tuple(variants)
    )


def _check_count(kernel: Kernel, specs: tuple[ParameterSpec, ...], signature: str) -> None:
    names = kernel.parameters.positional
    if kernel.parameters.rest:
        raise UnsupportedError(f"{kernel.__name__} takes *arrays, which packages do not hold yet")
    if len(specs) != len(names):
        raise LaunchError(
            f"{kernel.__name__} takes {len(names)} arguments ({', '.join(names)}); the signature "
            f"{signature!r} has {len(specs)}"
        )


def _variant(kernel: Kernel, wanted: Specialisation, device: Device) -> Variant:
    if device.interprets:
        raise UnsupportedError(f"{device.name} runs kernels without compiling them")
    ir = kernel.translated(wanted, device.capabilities)
    if ir.exact:  # for ndranges of any size
        wide = tuple(dim for dim, items in enumerate(wanted.workgroup) if items > 1)
        wanted, ir = replace(wanted, ragged=wide), replace(ir, ragged=wide)
    program, traits = generate(ir, device.capabilities), Traits.of(ir, wanted.parameters)
    description = {
        "specialisation": described(wanted),
        "program": program_of(program),
        "written": sorted(traits.written),
        "dimensions": traits.dimensions,
        "text": sha256(program.source.encode()).hexdigest(),
        "exact": traits.exact,
    }
    return Variant(facts_of(device), description, device.export(program), program.source)
