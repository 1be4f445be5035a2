"""Specialisations and programs as JSON, and which specialisation serves which launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from textwrap import dedent
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from portable.backend.program import Argument, Box, Program
from portable.dtypes import DType, dtype
from portable.errors import KernelError, UnsupportedError
from portable.lang.arguments.arguments import (
    ArraySpec,
    CompositeSpec,
    ParameterSpec,
    ScalarSpec,
    Specialisation,
)
from portable.lang.arguments.structs import is_composite, items_of
from portable.lang.frontend.source import LAMBDA, function_source
from portable.lang.function import Function
from portable.lang.ir.kernel import Options
from portable.lang.launch.definition import REQUIRED, Parameters

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
