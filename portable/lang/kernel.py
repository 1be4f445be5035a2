"""The decorator `@portable.kernel` and what it makes: a kernel, to be launched or looked into."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from threading import RLock
from typing import Any, Final, TypeVar, overload

import numpy as np

from portable import errors, registry
from portable.backend import Capabilities, Device
from portable.lang.arguments.arguments import Specialisation, is_array
from portable.lang.arguments.structs import flattened
from portable.lang.emit import generate
from portable.lang.frontend.compile import too_deep, translate
from portable.lang.frontend.outer_names import NamesRead
from portable.lang.frontend.source import LAMBDA, function_source, require_plain
from portable.lang.function import Marked
from portable.lang.ir.kernel import Kernel as KernelIR
from portable.lang.ir.kernel import Options
from portable.lang.launch.checking import checking, compile_checked
from portable.lang.launch.definition import Compiled, Parameters, Traits, interpreted_arguments
from portable.lang.launch.geometry import groups
from portable.lang.launch.launch import Launcher
from portable.lang.launch.launchable import Launchable
from portable.lang.passes.delays import perturbation
from portable.namespace import device_of, elsewhere, view_on
from portable.profiling.timeline import on_host
from portable.system.console import waiting
from portable.system.isolation import collected_later, with_room
from portable.system.locks import fork_safe_lock

_MAX_SPECIALISATIONS: Final = 512
"""Kept for the next launcher that asks; launchers hold on to what they launch by themselves."""

_MAX_STATES: Final = 16
"""Kept for names that stand for one thing and another in turn."""

_OURS: Final = "portable."
"""Modules whose kernels are read when they are first wanted: an import would read a hundred."""

_KINDS: Final = inspect.Parameter
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _State:
    """What was made of a kernel while the names in its text stood for certain things."""

    def __init__(self) -> None:
        self.names = NamesRead()
        self.compiled: dict[tuple[str, Specialisation, int | None, bool], Compiled] = {}
        self.refused: dict[tuple[str, Specialisation, int | None, bool], str] = {}
        self.translated: dict[tuple[Capabilities, Specialisation], tuple[KernelIR, Traits]] = {}


class Kernel(Launchable, Marked):
    """A kernel; ``kernel[ndrange, workgroup](*arguments, **constants)`` launches it.

    Made by `kernel`. Safe under threads.
    """

    def __init__(self, python: Callable[..., Any], options: Options) -> None:
        Launchable.__init__(self, options, _parameters(python))
        Marked.__init__(self, python)
        self.state: _State = _State()
        self._states = [self.state]
        self._lock = fork_safe_lock()
        self._compiling: defaultdict[Any, RLock] = defaultdict(fork_safe_lock)

    @property
    def reads(self) -> Mapping[Any, Any]:
        """The outer names that were read in this state."""
        return self.state.names.found

    def renewed(self) -> _State:
        """The state for what the names in the kernel's text stand for now."""
        if self.state.names.hold():
            return self.state
        with self._lock:
            result = next((state for state in self._states if state.names.hold()), None)
            if result is None:
                result = _State()
                self._states = [*self._states[-_MAX_STATES + 1 :], result]
            self.state = result
        return result

    def translated(self, wanted: Specialisation, capabilities: Capabilities) -> KernelIR:
        """The checked IR of a specialisation."""
        ir, _ = self._translated(wanted, capabilities)
        return replace(ir, ragged=wanted.ragged) if wanted.ragged else ir

    def _translated(
        self, wanted: Specialisation, capabilities: Capabilities
    ) -> tuple[KernelIR, Traits]:
        whole = replace(wanted, ragged=()) if wanted.ragged else wanted
        key = (capabilities, whole)
        with self._lock:
            state = self.state
            made = state.translated.get(key)
            if made is None:
                made = self._translate(whole, capabilities, state.names)
                _keep(state.translated, key, made)
        return made

    def _translate(
        self, wanted: Specialisation, capabilities: Capabilities, names: NamesRead
    ) -> tuple[KernelIR, Traits]:
        """Translates once for arrays that overlap and those that do not: the text is the same."""
        if not wanted.restrict:
            ir, traits = self._translated(replace(wanted, restrict=True), capabilities)
            return ir.overlapping(), traits
        read = NamesRead()
        with collected_later():
            ir = with_room(translate, self.python, wanted, capabilities, read)
        names.add(read)
        return ir, Traits.of(ir, wanted.parameters)

    def traits(self, wanted: Specialisation, device: Device) -> Traits:
        """What plans of launches ask of a specialisation."""
        return self._translated(wanted, device.capabilities)[1]

    def compiled(self, wanted: Specialisation, device: Device) -> Compiled:
        """The compiled program of a specialisation on a device.

        Others do not wait for it, as those of another device must not: a driver may finish all work
        before it loads a program, and that may be a collective which the other has yet to join.
        """
        key = (device.name, wanted, perturbation(), checking())
        with self._lock:
            state = self.state
            program = state.compiled.get(key)
            if program is not None:
                return program
            compiling = self._compiling[key]
        with compiling:
            with self._lock:
                program, refusal = state.compiled.get(key), state.refused.get(key)
            if refusal is not None:
                raise errors.LaunchError(refusal)
            if program is None:
                try:
                    with collected_later():
                        program = self._compile(wanted, device)
                except errors.LaunchError as error:  # plans try choices in turn, again at each call
                    with self._lock:
                        _keep(state.refused, key, str(error))
                    raise
                except RecursionError:
                    ir = self.translated(wanted, device.capabilities)
                    raise too_deep(ir) from None
                with self._lock:
                    _keep(state.compiled, key, program)
                    self._compiling.pop(key, None)
        return program

    def _compile(self, wanted: Specialisation, device: Device) -> Compiled:
        registry.given_work(device)
        name = self.__name__
        with waiting(f"compiling {name} for {device.name}"):
            with on_host(f"translate {name}", "compilation"):
                ir = self.translated(wanted, device.capabilities)
                if device.interprets:
                    self._check_local(_local_bytes(ir), device)
                    return Compiled(ir, interpreted_arguments(ir), device.interpret(ir))
                program = None if checking() else generate(ir, device.capabilities)
            with on_host(f"build {name}", "compilation"):
                if program is None:
                    program, arguments, executable = compile_checked(ir, device)
                    self._check_local(program.shared_bytes, device)
                    return Compiled(ir, arguments, executable, program)
                self._check_local(program.shared_bytes, device)
                return Compiled(ir, program.arguments, device.compile(program), program)

    def _check_local(self, needed: int, device: Device) -> None:
        most = device.capabilities.local_memory_most
        if needed > most:
            raise errors.LaunchError(
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


def _parameters(python: Callable[..., Any]) -> Parameters:
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
            raise errors.KernelError(
                f"{python.__name__} has the parameter {parameter}",
                hint="constants of kernels are named one by one, or are fields of a struct",
            )
        elif parameter.default is not _KINDS.empty:
            raise errors.KernelError(
                f"{python.__name__} has a default for the run-time argument {name}",
                hint="only keyword-only constants have defaults",
            )
        else:
            positional.append(name)
    return Parameters(tuple(positional), rest, constants)


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
    if getattr(python, "__name__", "") == LAMBDA:
        raise errors.KernelError("a lambda is no kernel", hint="define it by 'def'")
    require_plain(python)
    if not str(python.__module__).startswith(_OURS):
        function_source(python)  # says now what is wrong with it
    return Kernel(python, options)


# The text that is generated for a kernel, to be read.


def source(
    kernel: Kernel | Launcher, *args: Any, device: str | Device | None = None, **constants: Any
) -> str:
    """The source that a launch with these arguments would compile; nothing is compiled or run.

    Parameters
    ----------
    kernel : kernel, or kernel[ndrange, workgroup]
        A bare kernel stands for whole workgroups of the default size in one dimension.
    *args
        The arguments. NumPy arrays may stand for arrays of any device.
    device : str or Device
        Which device to generate for; where the arrays live if left out.
    **constants
        The keyword-only parameters.

    Raises
    ------
    UnsupportedError
        For the simulator, which runs kernels without generating source.
    """
    launcher = kernel if isinstance(kernel, Launcher) else kernel[groups(1)]
    if not isinstance(launcher.kernel, Kernel):
        raise errors.UnsupportedError(
            f"{launcher.kernel!r} was read from a package, without its source"
        )
    leaves = flattened(args)
    arrays = [x for x in leaves if is_array(x)]
    chosen = _where_run(arrays) if device is None else registry.device(device)
    if chosen.interprets:
        raise errors.UnsupportedError(
            f"{chosen.name} runs kernels without generating source; name another device"
        )
    views = [view_on(chosen, x) if is_array(x) else None for x in leaves]
    try:
        wanted = launcher.specialised(chosen, args, views, constants)
        ir = launcher.kernel.translated(wanted, chosen.capabilities)
    except errors.PortableError as error:
        raise errors.without_frames(error) from error.__cause__
    return generate(ir, chosen.capabilities).source


def _where_run(arrays: list[Any]) -> Device:
    """The device of a launch with these arrays."""
    away = elsewhere() if all(isinstance(x, np.ndarray) for x in arrays) else None
    return away or device_of(*arrays)
