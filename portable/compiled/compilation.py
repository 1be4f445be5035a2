"""Compiles kernels for launches that are described by a signature rather than by arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from textwrap import dedent
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from portable import registry
from portable.backend import Device
from portable.backend.program import Argument, Box, Program
from portable.dtypes import DType, dtype
from portable.errors import DTypeError, KernelError, LaunchError, UnsupportedError
from portable.lang.arguments.arguments import (
    MOST_BOXED,
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    Specialisation,
    StaticSpec,
)
from portable.lang.arguments.structs import field_names, is_composite, items_of
from portable.lang.emit import generate
from portable.lang.frontend.source import LAMBDA, function_source
from portable.lang.function import Function
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import StrideClass
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import REQUIRED, Parameters, Traits
from portable.lang.launch.geometry import check_workgroup, default_workgroup, sizes

# Specialisations and programs as JSON, and which specialisation serves which launch.


_Json = dict[str, Any]

# -- specialisations ----------------------------------------------------------------------------


def described(wanted: Specialisation) -> _Json:
    """A specialisation, so that two are the same where their descriptions are.

    Raises
    ------
    UnsupportedError
        For constants that cannot be told apart in a file.
    """
    return {
        "parameters": [_described(spec) for spec in wanted.parameters],
        "constants": {name: constant_of(value) for name, value in wanted.constants},
        "workgroup": list(wanted.workgroup),
        "index64": wanted.index64,
        "restrict": wanted.restrict,
        "options": asdict(wanted.options),
        "ragged": list(wanted.ragged),
    }


def _described(spec: ParameterSpec) -> _Json:
    match spec:
        case ArraySpec():
            return {
                "array": spec.dtype.name,
                "strides": list(spec.strides),
                "aligned": spec.aligned,
                "boxed": spec.boxed,
            }
        case ScalarSpec():
            return {"scalar": spec.kind, "dtype": spec.dtype.name if spec.dtype else None}
        case CompositeSpec():
            return {"struct": _named(spec.kind), "items": [_described(x) for x in spec.items]}
        case _:
            return {"constant": constant_of(spec.value)}


def constant_of(x: Any) -> list[Any]:
    """A constant by its type and text."""
    if isinstance(x, Kept):
        return x.description
    if x is None or isinstance(x, bool | int | float | complex | str):
        return [type(x).__name__, repr(x)]
    if isinstance(x, DType):
        return ["dtype", x.name]
    if isinstance(x, np.dtype) or (isinstance(x, type) and issubclass(x, np.generic)):
        return ["dtype", dtype(x).name]
    if isinstance(x, np.generic):
        return [f"numpy {x.dtype.name}", repr(x.item())]
    if is_composite(type(x)):
        return ["struct", _named(type(x)), *(constant_of(item) for item in items_of(x))]
    if isinstance(x, MethodType):
        return ["method", constant_of(x.__func__), constant_of(x.__self__)]
    if isinstance(x, Function | FunctionType):
        return _function(x)
    if isinstance(x, type | BuiltinFunctionType | np.ufunc):
        return ["function", f"{getattr(x, '__module__', 'numpy')}:{x.__qualname__}"]
    raise UnsupportedError(
        f"a constant of type {type(x).__name__} cannot be kept in a package; numbers, strings, "
        "dtypes, functions, and tuples and structs of them can"
    )


def _function(x: Function | FunctionType) -> list[Any]:
    """A function by its name; one that a function made by what it holds and its text, too.

    Those share a name that do something else each time: closures, and such as have defaults.
    """
    python: Any = x.python if isinstance(x, Function) else x
    if python.__name__ == LAMBDA:
        raise UnsupportedError(
            "a lambda has no name by which a package could know it; define it by 'def'"
        )
    if "<locals>" not in x.__qualname__:
        return ["function", _named(x)]
    try:
        cells = zip(python.__code__.co_freevars, python.__closure__ or (), strict=True)
        held = [[name, constant_of(cell.cell_contents)] for name, cell in cells]
        held += [["default", constant_of(value)] for value in python.__defaults__ or ()]
        held += [[n, constant_of(value)] for n, value in (python.__kwdefaults__ or {}).items()]
        lines = dedent("\n".join(function_source(python).lines))
    except (RecursionError, ValueError, KernelError, UnsupportedError) as error:
        raise UnsupportedError(
            f"{x.__qualname__} cannot be kept in a package, since what it holds cannot ({error}); "
            "define it in a module, or give what it holds as a keyword-only constant"
        ) from None
    return ["function", _named(x), held, sha256(lines.encode()).hexdigest()]


def _named(x: Any) -> str:
    return f"{x.__module__}:{x.__qualname__}"


def serves(variant: _Json, wanted: _Json) -> bool:
    """Whether a program made for one description is right for launches of another."""
    pairs = zip(variant["parameters"], wanted["parameters"], strict=False)
    same = ("constants", "workgroup", "options")
    return (
        all(variant[name] == wanted[name] for name in same)
        and len(variant["parameters"]) == len(wanted["parameters"])
        and (wanted["restrict"] or not variant["restrict"])
        and (variant["index64"] or not wanted["index64"])
        and set(wanted["ragged"]) <= set(variant["ragged"])
        and all(_parameter_serves(offered, asked) for offered, asked in pairs)
    )


def _parameter_serves(offered: _Json, asked: _Json) -> bool:
    if offered.keys() != asked.keys():
        return False
    if "struct" in offered:
        pairs = zip(offered["items"], asked["items"], strict=False)
        alike = offered["struct"] == asked["struct"] and len(offered["items"]) == len(
            asked["items"]
        )
        return alike and all(_parameter_serves(x, y) for x, y in pairs)
    if "array" not in offered:
        return offered == asked
    strides = zip(offered["strides"], asked["strides"], strict=False)
    return (
        offered["array"] == asked["array"]
        and len(offered["strides"]) == len(asked["strides"])
        and all(x in ("any", y) for x, y in strides)
        and (asked["aligned"] or not offered["aligned"])
        and (asked["boxed"] or not offered["boxed"])
    )


def specificity(variant: _Json) -> int:
    """How much a program takes for granted: of those that serve, the one of most is fastest."""
    arrays = [x for spec in variant["parameters"] for x in _arrays(spec)]
    known: int = sum(x["aligned"] + x["boxed"] + len(x["strides"]) for x in arrays)
    loose: int = sum(stride == "any" for x in arrays for stride in x["strides"])
    return known - loose + int(variant["restrict"]) + int(not variant["index64"])


def _arrays(spec: _Json) -> list[_Json]:
    if "struct" in spec:
        return [x for item in spec["items"] for x in _arrays(item)]
    return [spec] if "array" in spec else []


# -- parameters of kernels ----------------------------------------------------------------------


def parameters_of(takes: Parameters, options: Options) -> _Json:
    """What a kernel takes."""
    return {
        "positional": list(takes.positional),
        "rest": list(takes.rest),
        "defaults": {
            name: None if value is REQUIRED else constant_of(value)
            for name, value in takes.defaults.items()
        },
        "options": asdict(options),
    }


class Kept:
    """A default that a package knows by its description alone."""

    def __init__(self, description: list[Any]) -> None:
        self.description = description

    def __hash__(self) -> int:
        return hash(repr(self.description))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and other.description == self.description


def parameters_from(description: Mapping[str, Any]) -> tuple[Parameters, Options]:
    """What a kernel takes, from its description."""
    defaults = {
        name: REQUIRED if value is None else Kept(value)
        for name, value in description["defaults"].items()
    }
    takes = Parameters(tuple(description["positional"]), tuple(description["rest"]), defaults)
    return takes, Options(**description["options"])


# -- programs -----------------------------------------------------------------------------------


def program_of(program: Program) -> _Json:
    """A program without its source."""
    arguments = [asdict(x) | {"type": x.type.name} for x in program.arguments]
    return {name: getattr(program, name) for name in _KEPT} | {"arguments": arguments}


_KEPT: Final = (
    "entry", "name", "dialect", "workgroup", "local_bytes", "private_bytes", "dynamic_local",
    "flags",
)  # fmt: skip
"""Of a program, in a package."""


def program_from(description: Mapping[str, Any], source: str = "") -> Program:
    """A program from its description, and perhaps its text."""
    return Program(
        source=source,
        entry=description["entry"],
        kernel=description.get("name", ""),
        dialect=description["dialect"],
        arguments=tuple(_argument_from(x) for x in description["arguments"]),
        workgroup=_three(description["workgroup"]),
        local_bytes=int(description["local_bytes"]),
        private_bytes=int(description.get("private_bytes", 0)),
        dynamic_local=bool(description["dynamic_local"]),
        flags=tuple(description["flags"]),
    )


def _three(numbers: list[int]) -> tuple[int, int, int]:
    x, y, z = (int(n) for n in numbers)
    return x, y, z


def _argument_from(description: Mapping[str, Any]) -> Argument:
    box = description["box"]
    made = None
    if box:
        dims = tuple(box["dims"])
        steps = box.get("steps", [1] * len(dims))  # of earlier packages, boxes of neighbours alone
        made = Box(dims, tuple(box["extents"]), tuple(steps), int(box["swizzle"]))
    kind = dtype(description["type"])
    return Argument(
        description["kind"], int(description["parameter"]), int(description["dim"]), kind, made
    )


# Signatures of kernels as text, such as ``"float, Points(f32[:], f32[:, ::1])"``.

_PYTHON: Final[dict[str, ParameterSpec]] = {
    "bool": ScalarSpec("bool"),
    "int": ScalarSpec("int"),
    "float": ScalarSpec("float"),
    "complex": ScalarSpec("complex"),
    "None": StaticSpec(None),
}
Scope = Mapping[str, Any]
_COMPOSITE: Final = re.compile(r"([\w.]*)\((.*)\)", re.DOTALL)
_ARRAY: Final = re.compile(r"(\w+)\[([^\]]*)\]")


def specs_from(text: str, scope: Scope, *, fast: bool) -> tuple[ParameterSpec, ...]:
    """What launches of a signature specialise on.

    Parameters
    ----------
    text : str
        The signature.
    scope : mapping
        Where the classes of structs are looked up by name.
    fast : bool
        Whether arrays are aligned and contiguous; else they are anywhere in memory, with any
        strides but those said to be contiguous.

    Raises
    ------
    LaunchError
        For text that is no signature.
    """
    return tuple(_parameter(part, scope, fast=fast) for part in _parts(text))


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
    boxed = fast and len(dims) <= MOST_BOXED
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
