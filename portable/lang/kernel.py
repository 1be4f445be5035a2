"""The decorator `@portable.kernel` and what it makes: a kernel, to be launched or looked into."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, NoReturn, TypeVar, overload

from portable import registry
from portable.backend import ArrayView, Capabilities, Device
from portable.errors import KernelError, LaunchError
from portable.lang.checking import checking, compile_checked
from portable.lang.emit import generate
from portable.lang.emit.delays import perturbation
from portable.lang.filling import owners_of
from portable.lang.frontend.compile import translate
from portable.lang.frontend.source import function_source
from portable.lang.geometry import Groups, sizes
from portable.lang.ir.kernel import Kernel as KernelIR
from portable.lang.ir.kernel import Options
from portable.lang.launch import Compiled, Launcher, interpreted_arguments, specs_of
from portable.lang.signature import (
    ArraySpec,
    ParameterSpec,
    Specialisation,
    constant_key,
    leaf_names,
    leaf_specs,
)
from portable.lang.structs import flattened
from portable.locks import fork_safe_lock

__all__ = ["Kernel", "kernel"]

_MAX_LAUNCHERS: Final = 4096
_MAX_SPECIALISATIONS: Final = 512
"""Kept for the next launcher that asks; launchers hold on to what they launch by themselves."""

_KINDS: Final = inspect.Parameter
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Kernel:
    """A kernel; ``kernel[ndrange, workgroup](*arguments, **constants)`` launches it.

    Made by `kernel`. Safe under threads.
    """

    def __init__(self, python: Callable[..., Any], options: Options) -> None:
        functools.update_wrapper(self, python)
        self.__name__: str = python.__name__
        self.__qualname__: str = python.__qualname__
        self.python: Final = python
        self.options: Final = options
        self._parameters, self._rest, self._defaults = _parameters(python)
        self._launchers: dict[Any, Launcher] = {}
        self._compiled: dict[tuple[str, Specialisation, int | None, bool], Compiled] = {}
        self._translated: dict[tuple[Capabilities, Specialisation], KernelIR] = {}
        self._lock = fork_safe_lock()

    def __repr__(self) -> str:
        return f"<portable kernel {self.__name__}>"

    def __reduce__(self) -> str:
        """Pickled and copied like a Python function: by its name."""
        return self.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raises: a kernel is launched over an ndrange."""
        raise LaunchError(
            f"{self.__name__} is a kernel: give its ndrange, and its workgroup if you like, as in "
            f"{self.__name__}[n, 256](...)"
        )

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
        fixed = len(self._parameters)
        if len(args) < fixed or (len(args) > fixed and not self._rest):
            names = ", ".join([*self._parameters, *(f"*{name}" for name in self._rest)])
            constants = ", ".join(self._defaults)
            raise LaunchError(
                f"{self.__name__} takes {'at least ' if self._rest else ''}{fixed} arguments "
                f"({names}), not {len(args)}"
                + (f"; {constants}: compile-time, by keyword" if constants else "")
            )
        gathered = [tuple(args[fixed:]) for _ in self._rest]
        return specs_of([*args[:fixed], *gathered], iter(views))

    def constants(self, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The keyword-only arguments, defaults filled in, by name.

        Raises
        ------
        LaunchError
            If one is missing or unknown.
        """
        unknown = sorted(set(given) - set(self._defaults))
        by_position = [name for name in unknown if name in self._parameters]
        if by_position:
            raise LaunchError(
                f"{self.__name__} takes {', '.join(by_position)} by position: write "
                f"{self.__name__}[...]({', '.join(self._parameters)})"
            )
        if unknown:
            known = ", ".join(self._defaults) or "none"
            raise LaunchError(
                f"{self.__name__} has no compile-time constant {', '.join(unknown)}; it has {known}"
            )
        merged = {**self._defaults, **given}
        missing = [name for name, value in merged.items() if value is _KINDS.empty]
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
        return leaf_names([*self._parameters, *self._rest], specs)

    def translated(self, wanted: Specialisation, capabilities: Capabilities) -> KernelIR:
        """The checked IR of a specialisation."""
        key = (capabilities, wanted)
        with self._lock:
            found = self._translated.get(key)
            if found is None:
                found = translate(self.python, wanted, capabilities)
                _keep(self._translated, key, found)
        return found

    def written(self, wanted: Specialisation, device: Device) -> frozenset[int]:
        """The positions of the array arguments that the kernel may write, in `leaf_specs`.

        Raises
        ------
        LaunchError
            If one of them is read-only.
        """
        ir = self.translated(wanted, device.capabilities)
        owners = owners_of(wanted.parameters)
        positions = frozenset(
            owners[i][0] for i, parameter in enumerate(ir.parameters) if parameter in ir.written
        )
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

    def compiled(self, wanted: Specialisation, device: Device) -> Compiled:
        """The compiled program of a specialisation on a device."""
        key = (device.name, wanted, perturbation(), checking())
        with self._lock:
            found = self._compiled.get(key)
            if found is None:
                found = self._compile(wanted, device)
                _keep(self._compiled, key, found)
        return found

    def _compile(self, wanted: Specialisation, device: Device) -> Compiled:
        registry.given_work(device)
        ir = self.translated(wanted, device.capabilities)
        if device.interprets:
            self._check_local(_local_bytes(ir), device)
            return Compiled(ir, interpreted_arguments(ir), device.interpret(ir))
        if checking():
            program, arguments, executable = compile_checked(ir, device)
            self._check_local(program.local_bytes, device)
            return Compiled(ir, arguments, executable, program)
        program = generate(ir, device.capabilities)
        self._check_local(program.local_bytes, device)
        return Compiled(ir, program.arguments, device.compile(program), program)

    def _check_local(self, needed: int, device: Device) -> None:
        most = max(device.capabilities.local_memory, device.capabilities.local_memory_opt_in)
        if needed > most:
            raise LaunchError(
                f"{self.__name__} needs {needed} bytes of local memory per workgroup; "
                f"{device.name} has {most}"
            )


def _keep(kept: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Adds an entry, in the place of the oldest where there are many."""
    if len(kept) >= _MAX_SPECIALISATIONS:
        del kept[next(iter(kept))]
    kept[key] = value


def _local_bytes(ir: KernelIR) -> int:
    """What the local arrays take as they were declared."""
    return sum(prod(a.shape) * a.dtype.itemsize for a in ir.arrays if a.space == "local")


def _parameters(
    python: Callable[..., Any],
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]:
    """Names of the positional parameters and of ``*rest``; constants with their defaults."""
    signature = inspect.signature(python).parameters
    positional: list[str] = []
    rest: tuple[str, ...] = ()
    constants: dict[str, Any] = {}
    for name, parameter in signature.items():
        if parameter.kind is _KINDS.KEYWORD_ONLY:
            constants[name] = parameter.default
        elif parameter.kind is _KINDS.VAR_POSITIONAL:
            rest = (name,)
        elif parameter.kind is _KINDS.VAR_KEYWORD:
            raise KernelError(
                f"{python.__name__} has the parameter {parameter}",
                hint="constants of kernels are named one by one, or are fields of a struct",
            )
        elif parameter.default is not _KINDS.empty:
            raise KernelError(
                f"{python.__name__} has a default for the run-time argument {name}",
                hint="only keyword-only constants have defaults",
            )
        else:
            positional.append(name)
    return tuple(positional), rest, constants


@overload
def kernel(python: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *, native_half: bool = ..., contract: bool = ..., fastmath: bool = ...
) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(
    python: Callable[..., Any] | None = None,
    /,
    *,
    native_half: bool = False,
    contract: bool = True,
    fastmath: bool = False,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Marks a function as a kernel.

    Positional parameters are run-time arguments (arrays and numbers); keyword-only ones are
    compile-time constants.

    Parameters
    ----------
    python : callable
        The function; its body is in the kernel language (see `portable.lang.words`).
    native_half : bool
        Compute in half precision, not only store; refused where the device cannot.
    contract : bool
        Whether ``a * b + c`` may become one fused operation.
    fastmath : bool
        Whether the device's fast, less accurate functions are allowed.

    Raises
    ------
    KernelError
        If it is no plain function, or its source cannot be read.

    Examples
    --------
    >>> import portable as pt
    >>> from portable import lang as kl
    >>> @pt.kernel
    ... def saxpy(a, x, y):
    ...     i = kl.global_id(0)
    ...     if i < y.shape[0]:
    ...         y[i] = a * x[i] + y[i]
    """
    options = Options(native_half, contract, fastmath)
    if python is None:
        return lambda function: _made(function, options)
    return _made(python, options)


def _made(python: Callable[..., Any], options: Options) -> Kernel:
    function_source(python)
    return Kernel(python, options)
