"""A kernel's definition: its parameters, and a compiled program for each specialisation."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, Final, NamedTuple, NoReturn

from portable.backend import Argument, ArrayView, Device, Executable, Program
from portable.errors import LaunchError
from portable.lang.arguments.arguments import (
    ArraySpec,
    ParameterSpec,
    Specialisation,
    constant_key,
    leaf_names,
    leaf_specs,
    specs_of,
)
from portable.lang.arguments.structs import flattened
from portable.lang.ir.expressions import Variable
from portable.lang.ir.kernel import Kernel as KernelIR
from portable.lang.ir.kernel import Options
from portable.lang.ir.types import Array
from portable.lang.launch.packing import owners_of
from portable.lang.launch.stray_accesses import Stray, meeting_place, strays

_NOTHING: Final[Mapping[Any, Any]] = {}

REQUIRED: Final = inspect.Parameter.empty
"""In the place of a default: the constant has none."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a kernel.

    Attributes
    ----------
    positional : tuple of str
        Names of run-time arguments.
    rest : tuple of str
        The name in ``*arrays``, if there is one.
    defaults : dict
        Of the keyword-only constants; `REQUIRED` where there is none.
    """

    positional: tuple[str, ...]
    rest: tuple[str, ...]
    defaults: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """One specialisation on one device; the kernel is None where only its machine code is here."""

    kernel: KernelIR | None
    arguments: tuple[Argument, ...]
    executable: Executable
    program: Program | None = None


class Traits(NamedTuple):
    """What plans of launches ask of a specialisation.

    Attributes
    ----------
    written : frozenset of int
        The positions of the arrays that it may write, in `leaf_specs`.
    dimensions : int
        Of the ndrange, how many dimensions it asks for its place in; at least 1.
    exact : bool
        Whether launches run the work-items asked for and no others.
    strays : tuple of (int, Stray)
        Accesses that nothing keeps inside an array, with its position in `leaf_specs`; none where
        nothing is known of where a program goes.
    meeting_line : int
        Where its work-items first meet, if it is not exact.
    """

    written: frozenset[int]
    dimensions: int
    exact: bool
    strays: tuple[tuple[int, Stray], ...] = ()
    meeting_line: int = 0

    @staticmethod
    def of(kernel: KernelIR, specs: tuple[ParameterSpec, ...]) -> Traits:
        """Those of a kernel that takes such parameters."""
        owners, arrays = owners_of(specs), kernel.written
        written = (owners[i][0] for i, x in enumerate(kernel.parameters) if x in arrays)
        places = {x.name: owners[i][0] for i, x in enumerate(kernel.parameters)}
        found = tuple((places[x.array.name], x) for x in strays(kernel))
        line = meeting_place(kernel).line
        return Traits(frozenset(written), kernel.dimensions, kernel.exact, found, line)


class Definition(ABC):
    """A kernel, compiled here or read from a package.

    Attributes
    ----------
    options : Options
        What it was declared with.
    parameters : Parameters
        What it takes.
    state : object
        Another one where launches find other programs than before; what `renewed` gave last.
    """

    __name__: str
    options: Options
    parameters: Parameters
    state: Any = None

    def __init__(self, options: Options, parameters: Parameters) -> None:
        self.options = options
        self.parameters = parameters

    def __repr__(self) -> str:
        return f"<portable kernel {self.__name__}>"

    @property
    def reads(self) -> Mapping[Any, Any]:
        """The outer names that were read in this state; the same mapping as long as that lasts."""
        return _NOTHING

    def renewed(self) -> Any:
        """The state, after a look at whether what the kernel's text names is what it was."""
        return self.state

    # -- specialisations -------------------------------------------------------------------

    def specs(
        self, args: Sequence[Any], views: Sequence[ArrayView | None]
    ) -> tuple[ParameterSpec, ...]:
        """What the arguments of a launch specialise on; the views are of `flattened` ones.

        Raises
        ------
        LaunchError
            If their number is wrong.
        """
        takes = self.parameters
        fixed = len(takes.positional)
        if len(args) < fixed or (len(args) > fixed and not takes.rest):
            names = ", ".join([*takes.positional, *(f"*{name}" for name in takes.rest)])
            constants = ", ".join(takes.defaults)
            raise LaunchError(
                f"{self.__name__} takes {'at least ' if takes.rest else ''}{fixed} arguments "
                f"({names}), not {len(args)}"
                + (f"; {constants}: compile-time, by keyword" if constants else "")
            )
        gathered = [tuple(args[fixed:]) for _ in takes.rest]
        return specs_of([*args[:fixed], *gathered], iter(views))

    def constants(self, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The keyword-only arguments, defaults filled in, by name.

        Raises
        ------
        LaunchError
            If one is missing or unknown.
        """
        unknown = sorted(set(given) - set(self.parameters.defaults))
        by_position = [name for name in unknown if name in self.parameters.positional]
        if by_position:
            raise LaunchError(
                f"{self.__name__} takes {', '.join(by_position)} by position: write "
                f"{self.__name__}[...]({', '.join(self.parameters.positional)})"
            )
        if unknown:
            known = ", ".join(self.parameters.defaults) or "none"
            raise LaunchError(
                f"{self.__name__} has no compile-time constant {', '.join(unknown)}; it has {known}"
            )
        merged = {**self.parameters.defaults, **given}
        missing = [name for name, value in merged.items() if value is REQUIRED]
        if missing:
            raise LaunchError(
                f"{self.__name__} needs the constant {', '.join(missing)}: pass it by keyword"
            )
        return tuple(merged.items())

    def refuse_strange(
        self, args: Sequence[Any], views: Sequence[ArrayView | None], constants: dict[str, Any]
    ) -> NoReturn:
        """Says what is wrong with a launch of which something is not hashable.

        Raises
        ------
        LaunchError
            Naming it, or what is wrong with the number and the names of the arguments.
        """
        self.constants(constants)
        names = self._leaf_names(self.specs(args, views))
        fixed = [
            (name, x)
            for name, x, view in zip(names, flattened(tuple(args)), views, strict=True)
            if view is None
        ]
        for name, x in (*fixed, *constants.items()):
            try:
                hash(constant_key(x))
            except TypeError:
                takes = "as a constant it takes " if name in constants else "it takes arrays, "
                mend = "; make the class a frozen dataclass" if is_dataclass(x) else ""
                mend = "; make it an array or a tuple" if isinstance(x, list) else mend
                raise LaunchError(
                    f"{self.__name__} is given a {type(x).__name__} as {name}; {takes}numbers, and "
                    f"hashable constants such as tuples of numbers{mend}"
                ) from None
        raise LaunchError(f"an argument of {self.__name__} is not hashable")

    def _leaf_names(self, specs: tuple[ParameterSpec, ...]) -> list[str]:
        return leaf_names([*self.parameters.positional, *self.parameters.rest], specs)

    # -- what is launched -------------------------------------------------------------------

    @abstractmethod
    def compiled(self, wanted: Specialisation, device: Device) -> Compiled:
        """Must: the program of a specialisation on a device."""

    @abstractmethod
    def traits(self, wanted: Specialisation, device: Device) -> Traits:
        """Must: what plans of launches ask of a specialisation."""

    def written(self, wanted: Specialisation, device: Device) -> frozenset[int]:
        """The positions of the array arguments that the kernel may write, in `leaf_specs`.

        Raises
        ------
        LaunchError
            If one of them is read-only.
        """
        positions = self.traits(wanted, device).written
        leaves = leaf_specs(wanted.parameters)
        for i in sorted(positions):
            spec = leaves[i]
            if isinstance(spec, ArraySpec) and not spec.writable:
                name = self._leaf_names(wanted.parameters)[i]
                raise LaunchError(
                    f"{self.__name__} writes its argument {name}, but that array is read-only; "
                    "pass a writable copy"
                )
        return positions


def interpreted_arguments(kernel: KernelIR) -> tuple[Argument, ...]:
    """The arguments of a kernel that a device runs as IR: sizes, then one per parameter."""
    sizes = tuple(Argument("size", -1, dim, kernel.index_type) for dim in kernel.ragged)
    return sizes + tuple(
        Argument(
            "pointer" if isinstance(p, Array) else "scalar",
            i,
            0,
            p.dtype if isinstance(p, Array) else _dtype(p),
        )
        for i, p in enumerate(kernel.parameters)
    )


def _dtype(parameter: Variable) -> Any:
    return parameter.type
