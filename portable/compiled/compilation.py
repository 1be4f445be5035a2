"""Compiles kernels for launches that are described by a signature rather than by arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

from portable import registry
from portable.backend import Device
from portable.compiled.description import described, parameters_of, program_of
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, LaunchError, UnsupportedError
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    Specialisation,
    StaticSpec,
)
from portable.lang.arguments.structs import field_names, is_composite
from portable.lang.emit import generate
from portable.lang.ir.types import StrideClass
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import written_positions
from portable.lang.launch.geometry import check_workgroup, default_workgroup, sizes

# Signatures of kernels as text, such as ``"float, Points(f32[:], f32[:, ::1])"``.

_PYTHON: Final[dict[str, ParameterSpec]] = {
    "bool": ScalarSpec("bool"),
    "int": ScalarSpec("int"),
    "float": ScalarSpec("float"),
    "complex": ScalarSpec("complex"),
    "None": StaticSpec(None),
}
Scope = Mapping[str, Any]
EMPTY: Final[Scope] = {}
_COMPOSITE: Final = re.compile(r"([\w.]*)\((.*)\)", re.DOTALL)
_ARRAY: Final = re.compile(r"(\w+)\[([^\]]*)\]")
_MOST_BOXED: Final = 5


def fastest(text: str, scope: Scope = EMPTY) -> tuple[ParameterSpec, ...]:
    """What launches with aligned, contiguous arrays specialise on.

    Parameters
    ----------
    text : str
        The signature.
    scope : mapping
        Where the classes of structs are looked up by name.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, scope, fast=True) for part in _parts(text))


def general(text: str, scope: Scope = EMPTY) -> tuple[ParameterSpec, ...]:
    """What serves arrays anywhere in memory, with any strides but those said to be contiguous.

    Parameters
    ----------
    text, scope
        As of `fastest`.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, scope, fast=False) for part in _parts(text))


def _parts(text: str) -> list[str]:
    """The parameters, split at commas outside of brackets and parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if depth:
        raise _strange(text)
    stripped = [part.strip() for part in parts]
    return stripped if stripped[-1] else stripped[:-1]  # as in (f32[:],)


def _parameter(text: str, scope: Scope, *, fast: bool) -> ParameterSpec:
    if text in _PYTHON:
        return _PYTHON[text]
    composite = _COMPOSITE.fullmatch(text)
    if composite is not None:
        items = tuple(_parameter(part, scope, fast=fast) for part in _parts(composite[2]))
        return CompositeSpec(_class_of(composite[1], len(items), scope), items)
    array = _ARRAY.fullmatch(text)
    if array is None:
        kind = _dtype(text, text)
        return ScalarSpec("complex" if kind.is_complex else "float", kind)
    kind, dims = _dtype(array[1], text), [x.strip() for x in array[2].split(",")]
    if any(x not in (":", "::1") for x in dims) or "::1" in dims[:-1]:
        raise _strange(text)
    strides: list[StrideClass] = ["any"] * len(dims)
    if fast or dims[-1] == "::1":
        strides[-1] = "unit"
    boxed = fast and len(dims) <= _MOST_BOXED
    return ArraySpec(kind, tuple(strides), aligned=fast, boxed=boxed)


def _class_of(name: str, count: int, scope: Scope) -> Any:
    """The class of a struct with so many fields; without a name a tuple."""
    if not name:
        return tuple
    attribute: Any = scope.get(name.partition(".")[0])
    for part in name.split(".")[1:]:
        attribute = getattr(attribute, part, None)
    if not (isinstance(attribute, type) and is_composite(attribute)):
        raise LaunchError(
            f"{name}(...) in a signature: the kernel's module has no struct of that name, a "
            "NamedTuple or a frozen dataclass"
        )
    fields = field_names(attribute)
    if len(fields) != count:
        raise LaunchError(
            f"{name} has {len(fields)} fields ({', '.join(fields)}); the signature gives {count}"
        )
    return attribute


def _dtype(name: str, text: str) -> DType:
    try:
        return dtype(name)
    except DTypeError:
        raise _strange(text) from None


def _strange(text: str) -> LaunchError:
    return LaunchError(
        f"{text!r} in a signature: write int, float, bool or complex for Python's numbers, a dtype "
        "such as f32 for NumPy's, f32[:] for an array of one dimension, f32[:, :] of two, "
        "f32[:, ::1] for one whose rows are contiguous, None for None, (f32[:], int) for a tuple, "
        "Name(f32[:], int) for a struct"
    )


# -- compilation -----------------------------------------------------------------------------------


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
        for specs, restrict in (
            (fastest(signature, scope), True),
            (general(signature, scope), False),
        ):
            _check_count(kernel, specs, signature)
            wanted = Specialisation(
                specs, kernel.constants(constants), local, index64, restrict, kernel.options
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
    program = generate(ir, device.capabilities)
    description = {
        "specialisation": described(wanted),
        "program": program_of(program),
        "written": sorted(written_positions(ir, wanted.parameters)),
        "dimensions": ir.dimensions,
        "text": sha256(program.source.encode()).hexdigest(),
        "exact": ir.exact,
    }
    return Variant(facts_of(device), description, device.export(program), program.source)
