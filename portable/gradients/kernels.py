"""The adjoint of a kernel as a kernel: ``portable.vjp``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from math import prod
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.errors import KernelError, LaunchError
from portable.gradients.adjoint import Adjoint, adjoint_of
from portable.gradients.arguments import check_gradients, overlaps, views_of
from portable.gradients.pairing import gradients_of
from portable.lang.arguments.arguments import is_array
from portable.lang.arguments.signature import CompositeSpec, Specialisation, constant_key
from portable.lang.arguments.structs import flattened, mapped
from portable.lang.function import Marked
from portable.lang.ir.kernel import Kernel as KernelIR
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import Parameters
from portable.lang.launch.filling import owners_of
from portable.lang.launch.launch import Launcher
from portable.lang.launch.launchable import Launchable
from portable.namespace import device_of, elsewhere
from portable.primitives import copy
from portable.system.locks import fork_safe_lock

__all__ = ["AdjointKernel", "AdjointLauncher", "vjp"]

_MOST_ADJOINTS: Final = 256


class _Keeps(Exception):  # noqa: N818 - no error: the launch has to find out how much
    """An adjoint keeps values of some types, for which it was given no arrays.

    Attributes
    ----------
    kept : tuple of DType
    written : frozenset of int
        The arguments that the run which finds out how much writes, with those of structs in place.
    """

    def __init__(self, kept: tuple[DType, ...], written: frozenset[int]) -> None:
        self.kept = kept
        self.written = written


class _Derived(Kernel):
    """A kernel whose IR is made from another one's.

    It takes three tuples: the arguments, their gradients, and the arrays of what is kept.
    """

    def __init__(self, primal: Kernel, dims: int, measures: bool) -> None:
        defaults = dict(primal.parameters.defaults)
        third = "counts" if measures else "kept"
        takes = Parameters(("arguments", "gradients", third), (), defaults)
        Launchable.__init__(self, primal.options, takes)
        Marked.__init__(self, primal.python)
        self.__name__ = f"{primal.__name__}_{'kept' if measures else 'adjoint'}"
        self.state = type(primal.state)()
        self._states = [self.state]
        self._lock = fork_safe_lock()
        self._compiling = type(primal._compiling)(fork_safe_lock)
        self._primal = primal
        self._of = primal.state
        self._dims = dims
        self._measures = measures
        self._made: dict[Any, Adjoint] = {}

    def __reduce__(self) -> Any:
        return _Derived, (self._primal, self._dims, self._measures)

    @property
    def reads(self) -> Mapping[Any, Any]:
        """The outer names that the kernel read."""
        return self._primal.reads

    def renewed(self) -> Any:
        """Another state where the kernel has another one."""
        state = self._primal.renewed()
        if state is not self._of:
            with self._lock:
                self._of, self.state, self._made = state, type(state)(), {}
        return self.state

    def translated(self, wanted: Specialisation, capabilities: Capabilities) -> KernelIR:
        """The checked IR of a specialisation."""
        adjoint = self._adjoint(wanted, capabilities)
        made = adjoint.measure if self._measures else adjoint.kernel
        given = wanted.parameters[2]
        assert isinstance(given, CompositeSpec)
        assert made is not None
        if not self._measures and len(given.items) != len(adjoint.kept):
            assert adjoint.measure is not None
            owners, written = owners_of(wanted.parameters[:1]), adjoint.measure.written
            pairs = zip(owners, adjoint.measure.parameters, strict=False)
            raise _Keeps(adjoint.kept, frozenset(i for (i, _), x in pairs if x in written))
        return replace(made, ragged=wanted.ragged) if wanted.ragged else made

    def _adjoint(self, wanted: Specialisation, capabilities: Capabilities) -> Adjoint:
        key = (capabilities, replace(wanted, parameters=wanted.parameters[:2], ragged=()))
        with self._lock:
            found = self._made.get(key)
        if found is None:
            found = self._make(wanted, capabilities)
            with self._lock:
                if len(self._made) >= _MOST_ADJOINTS:
                    self._made.clear()
                self._made[key] = found
        return found

    def _make(self, wanted: Specialisation, capabilities: Capabilities) -> Adjoint:
        given, gradients = wanted.parameters[:2]
        assert isinstance(given, CompositeSpec)
        assert isinstance(gradients, CompositeSpec)
        specs, names = given.items, list(self._primal.parameters.positional)
        own = replace(wanted, parameters=specs, ragged=())
        ir = self._primal.translated(own, capabilities)
        pairs = gradients_of(ir, names, specs, gradients.items)
        restricted = [replace(x, array=replace(x.array, restrict=wanted.restrict)) for x in pairs]
        return adjoint_of(ir, restricted, self._dims)


class AdjointKernel:
    """The adjoint of a kernel; ``adjoint[ndrange, workgroup](*arguments, *gradients)`` launches it.

    Made by `vjp`.
    """

    def __init__(self, primal: Kernel) -> None:
        if primal.parameters.rest:
            raise KernelError(
                f"{primal.__name__} takes *{primal.parameters.rest[0]}: kernels with a variable "
                "number of arguments have no gradient here",
                hint="take a tuple instead",
            )
        self.primal: Final = primal
        self.__name__ = f"{primal.__name__}_adjoint"
        self._kernels = {
            (dims, measures): _Derived(primal, dims, measures)
            for dims in (1, 2, 3)
            for measures in (True, False)
        }
        self._launchers: dict[Any, AdjointLauncher] = {}

    def __repr__(self) -> str:
        return f"<adjoint of {self.primal!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Raises: a kernel is launched over an ndrange."""
        raise LaunchError(
            f"{self.__name__} is a kernel: give the ndrange of {self.primal.__name__}, as in "
            f"{self.__name__}[n](...)"
        )

    def __getitem__(self, key: Any) -> AdjointLauncher:
        """The adjoint over the ndrange, and with the workgroup, of the kernel's launch."""
        found = self._launchers.get(key)
        if found is None:
            found = self._launchers[key] = AdjointLauncher(self, key)
        return found

    def kernel(self, dims: int, *, measures: bool = False) -> Kernel:
        """The kernel that is launched over so many dimensions, or measures what it keeps."""
        return self._kernels[dims, measures]


class AdjointLauncher:
    """An adjoint with its ndrange and workgroup; calling it launches it."""

    def __init__(self, adjoint: AdjointKernel, key: Any) -> None:
        self._adjoint = adjoint
        self._key = key
        self._forward = adjoint.primal[key]
        self._launchers: dict[bool, Launcher] = {}
        self._kept: dict[Any, _Keeps] = {}

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launches the adjoint where its arrays live.

        Parameters
        ----------
        *args
            The kernel's arguments, then as many gradients, each alike: an array of the argument's
            shape (of `float32` for half precision; of a complex array one of real numbers with a
            last dimension of 2, or a complex one), of a number an array of shape ``(1,)``, a tuple
            or struct of these, or None for what has no gradient or is not asked for.
            The gradients of arrays that the kernel writes hold those by what it wrote, and then
            those by what was there before; to those of arrays and numbers that it only reads, its
            share is added. Arrays that the kernel reads and writes are given as they were before
            it, and may be written again.
        **constants
            As of the kernel.

        Raises
        ------
        KernelError
            With the line of what has no gradient.
        LaunchError
            If a gradient does not fit, or arrays share memory that the kernel writes.
        """
        half = len(self._adjoint.primal.parameters.positional)
        if len(args) != 2 * half:
            names = ", ".join(self._adjoint.primal.parameters.positional)
            raise LaunchError(
                f"{self._adjoint.__name__} takes the {half} arguments ({names}) and as many "
                f"gradients, None for what has none, not {len(args)} arguments"
            )
        given, gradients = args[:half], args[half:]
        check_gradients(self._adjoint.primal.parameters.positional, given, gradients)
        self._launch(given, gradients, constants)

    def _launch(
        self, given: tuple[Any, ...], gradients: tuple[Any, ...], constants: dict[str, Any]
    ) -> None:
        arrays = [x for x in flattened((*given, *gradients)) if is_array(x)]
        away = elsewhere() if all(isinstance(x, np.ndarray) for x in arrays) else None
        device = away or device_of(*arrays)
        self._check_overlaps(device, given, gradients, constants)
        padded = self._forward.padded(device)
        dims = max((dim + 1 for dim in range(3) if padded[dim] > 1), default=1)
        launcher = self._adjoint.kernel(dims)[self._key]
        key = (
            device.name,
            dims,
            _signature(given, gradients),
            *map(constant_key, constants.items()),
        )
        keeps = self._kept.get(key)
        try:
            kept: tuple[Any, ...] = ()
            if keeps is not None:
                measure = self._adjoint.kernel(dims, measures=True)[self._key]
                counts = _Counts(device, len(keeps.kept), on_host=away is not None)
                measure(_spared(given, keeps.written), gradients, (counts.array,), **constants)
                kept = counts.room(keeps.kept, prod(padded))
            launcher(given, gradients, kept, **constants)
        except _Keeps as found:
            self._kept[key] = found
            self._launch(given, gradients, constants)

    def _check_overlaps(
        self,
        device: Device,
        given: tuple[Any, ...],
        gradients: tuple[Any, ...],
        constants: dict[str, Any],
    ) -> None:
        """Refuses gradients that share memory, and arguments that do where the kernel writes it."""
        leaves = flattened(given)
        arrays = [x if is_array(x) else None for x in (*leaves, *flattened(gradients))]
        pairs = list(overlaps(device, arrays))
        if not pairs:
            return
        if any(j >= len(leaves) for _, j in pairs):
            raise LaunchError(
                f"{self._adjoint.__name__} is given a gradient that shares memory with another "
                "array; give each argument a gradient of its own"
            )
        views = views_of(device, leaves)
        wanted = self._forward.specialised(device, given, views, constants)
        written = self._adjoint.primal.written_in(wanted, device)
        if any(not written.isdisjoint(pair) for pair in pairs):
            raise LaunchError(
                f"{self._adjoint.primal.__name__} is given arrays that share memory and writes one "
                "of them; its gradient goes by arguments: have it read and write the same one"
            )


def _spared(given: tuple[Any, ...], written: frozenset[int]) -> tuple[Any, ...]:
    """Arguments with copies of those that are written."""
    number = count()
    return mapped(given, lambda x: copy(x) if next(number) in written else x)


class _Counts:
    """How much is kept, as a run of the kernel tells."""

    def __init__(self, device: Device, size: int, *, on_host: bool) -> None:
        zeros = np.zeros(size, np.int32)
        self.array: Any = zeros if on_host else device.from_numpy(zeros)
        self._device = device
        self._on_host = on_host

    def room(self, kinds: tuple[DType, ...], items: int) -> tuple[Any, ...]:
        """Arrays for what so many work-items keep."""
        heights = self.array if self._on_host else self._device.to_numpy(self.array)
        out: list[Any] = []
        for height, kind in zip(heights, kinds, strict=True):
            shape = (max(1, int(height)), items)
            made = np.empty(shape, kind.numpy) if self._on_host else self._device.empty(shape, kind)
            out.append(made)
        return tuple(out)


def _signature(given: tuple[Any, ...], gradients: tuple[Any, ...]) -> Any:
    return tuple(
        (x.dtype, len(x.shape)) if is_array(x) else type(x) for x in flattened((*given, *gradients))
    )


def vjp(kernel: Kernel) -> AdjointKernel:
    """The adjoint of a kernel, itself a kernel: from gradients by results to those by the rest.

    It is made from the kernel's IR by reverse-mode differentiation (Griewank and Walther,
    "Evaluating Derivatives", 2008): a run forwards, of which what is needed is worked out again
    or kept, and one backwards. Whatever has no gradient here is refused by its line when the
    adjoint is launched.

    Where a function has a kink (``abs``, ``maximum``, a comparison) one of the two slopes is taken;
    derivatives through integers are nothing. Atomic additions make the last bits of sums over
    work-items depend on their order.

    Parameters
    ----------
    kernel : kernel
        A function marked `portable.kernel`.

    Returns
    -------
    AdjointKernel
        Launched like the kernel, over the same ndrange: ``adjoint[n](*arguments, *gradients)``.
        `AdjointLauncher` says what gradients are.

    Raises
    ------
    TypeError
        If it is no kernel.
    KernelError
        If it takes a variable number of arguments.

    Examples
    --------
    >>> import portable as pt
    >>> from portable import lang as kl
    >>> @pt.kernel
    ... def square(x, y):
    ...     i = kl.global_id(0)
    ...     y[i] = x[i] * x[i]
    >>> adjoint = pt.vjp(square)
    >>> adjoint[n](x, y, gradient_of_x, gradient_of_y)  # doctest: +SKIP
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"portable.vjp takes a kernel, not {kernel!r}")
    return _adjoint_of(kernel)


@lru_cache(maxsize=_MOST_ADJOINTS)
def _adjoint_of(kernel: Kernel) -> AdjointKernel:
    return AdjointKernel(kernel)
