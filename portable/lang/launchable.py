"""What is launched over an ndrange: kernels, whether compiled here or read from a package."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from portable.backend import ArrayView, Device
from portable.errors import LaunchError
from portable.lang.filling import owners_of
from portable.lang.geometry import Groups, sizes
from portable.lang.ir.kernel import Options
from portable.lang.launch import Compiled, Launcher, specs_of
from portable.lang.method import BoundKernel
from portable.lang.signature import (
    ArraySpec,
    ParameterSpec,
    Specialisation,
    constant_key,
    leaf_names,
    leaf_specs,
)
from portable.lang.structs import flattened

if TYPE_CHECKING:
    from portable.lang.ir.kernel import Kernel as KernelIR

__all__ = ["REQUIRED", "Launchable", "Parameters", "written_positions"]

_MAX_LAUNCHERS: Final = 4096
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


class Launchable(ABC):
    """``kernel[ndrange, workgroup](*arguments, **constants)`` launches it; safe under threads.

    Attributes
    ----------
    options : Options
        What it was declared with.
    parameters : Parameters
        What it takes.
    """

    __name__: str
    options: Options
    parameters: Parameters

    def __init__(self, options: Options, parameters: Parameters) -> None:
        self.options = options
        self.parameters = parameters
        self._launchers: dict[Any, Launcher] = {}

    def __repr__(self) -> str:
        return f"<portable kernel {self.__name__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raises: a kernel is launched over an ndrange."""
        raise LaunchError(
            f"{self.__name__} is a kernel: give its ndrange, and its workgroup if you like, as in "
            f"{self.__name__}[n, 256](...)"
        )

    def __get__(self, owner: Any, kind: type | None = None) -> Launchable | BoundKernel:
        """As a method, whose first parameter is named ``self``: the kernel of that struct."""
        is_method = self.parameters.positional[:1] == ("self",)
        return self if owner is None or not is_method else BoundKernel(self, owner)

    def __getitem__(self, key: Any) -> Launcher:
        """The kernel over an ndrange: ``[n]``, ``[n, 256]``, ``[(n, m), (16, 16)]``.

        Two entries are always the ndrange and the workgroup, so that ``[(n, m)]``, which Python
        cannot tell from ``[n, m]``, is written ``[(n, m), None]``. Dimension 0, the fastest, comes
        first.
        """
        try:
            found = self._launchers.get(key)
        except TypeError:
            raise LaunchError(
                f"the ndrange and workgroup are {key!r}, which is not hashable; write tuples"
            ) from None
        if found is None:
            if len(self._launchers) >= _MAX_LAUNCHERS:
                self._launchers.clear()
            found = self._launchers[key] = self._launcher(key)
        return found

    def _launcher(self, key: Any) -> Launcher:
        pair = key if isinstance(key, tuple) else (key, None)
        if len(pair) != 2:
            raise LaunchError(
                f"{self.__name__}[{key!r}] is ambiguous: write {self.__name__}[n], or "
                f"{self.__name__}[(n, m, k), (8, 8, 4)], or [(n, m, k), None] for the default "
                "workgroup"
            )
        given, workgroup = pair
        flat = not isinstance(given, tuple | list | Groups)
        ndrange = given if isinstance(given, Groups) else sizes(given, "the ndrange")
        local = None if workgroup is None else sizes(workgroup, "the workgroup")
        return Launcher(self, ndrange, local, flat=flat)

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
                raise LaunchError(
                    f"{self.__name__} is given a {type(x).__name__} as {name}; it takes arrays, "
                    "numbers, and hashable constants such as tuples of numbers"
                ) from None
        raise LaunchError(f"an argument of {self.__name__} is not hashable")

    def _leaf_names(self, specs: tuple[ParameterSpec, ...]) -> list[str]:
        return leaf_names([*self.parameters.positional, *self.parameters.rest], specs)

    # -- what is launched -------------------------------------------------------------------

    @abstractmethod
    def compiled(self, wanted: Specialisation, device: Device) -> Compiled:
        """Must: the program of a specialisation on a device."""

    @abstractmethod
    def written_in(self, wanted: Specialisation, device: Device) -> frozenset[int]:
        """Must: the positions of the arrays that a specialisation may write, in `leaf_specs`."""

    @abstractmethod
    def dimensions(self, wanted: Specialisation, device: Device) -> int:
        """Must: of the ndrange, how many dimensions it asks for its place in; at least 1."""

    def written(self, wanted: Specialisation, device: Device) -> frozenset[int]:
        """The positions of the array arguments that the kernel may write, in `leaf_specs`.

        Raises
        ------
        LaunchError
            If one of them is read-only.
        """
        positions = self.written_in(wanted, device)
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


def written_positions(kernel: KernelIR, specs: tuple[ParameterSpec, ...]) -> frozenset[int]:
    """The positions of the arrays that a kernel may write, in `leaf_specs`."""
    owners = owners_of(specs)
    return frozenset(
        owners[i][0] for i, parameter in enumerate(kernel.parameters) if parameter in kernel.written
    )
