"""The adjoint of a kernel as a kernel: ``portable.vjp``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, count
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, dtype
from portable.errors import KernelError, LaunchError
from portable.gradients.adjoint.assemble import Adjoint, How, Shared, Strips
from portable.gradients.adjoint.padding import ROW
from portable.gradients.arguments import (
    SeenArguments,
    check_gradients,
    overlaps,
    signature,
    views_of,
)
from portable.gradients.derived import (
    MAIN,
    MEASURE,
    MOST_ADJOINTS,
    STRIPS,
    Derived,
    Needs,
)
from portable.gradients.sums import set_to
from portable.lang.arguments.arguments import constant_key, is_array
from portable.lang.arguments.structs import flattened, mapped
from portable.lang.kernel import Kernel, kernel
from portable.lang.launch.geometry import default_workgroup, groups
from portable.lang.launch.launch import Launcher
from portable.namespace import device_of, elsewhere
from portable.primitives import copy, reduce
from portable.primitives.base.storage import contiguous_strides

_MOST_FAMILIAR: Final = 4
_MOST_KEPT: Final = 1 << 28
"""Bytes that loops keep before they are gone through in chunks."""

_FEWEST_SAVED: Final = 1 << 14
"""Atomic additions that cost as much as it does to make copies of gradients, however small."""

_FEWEST_IN_ROWS: Final = 1 << 19
"""Additions to rows of three numbers that take as long as it does to launch what pads them."""

_DEAREST: Final = {True: 4.0, False: 0.25}
"""Elements of copies that cost as much as an atomic addition, where one thread runs a workgroup and
where many do."""

_BESIDE: Final = 1024
"""Work-items of strips for each unit of a GPU."""

_TURNS: Final = 2
"""The most strips of a thread."""

_FEW_ROWS: Final = 16
"""Rows that are added one after the other."""

_WIDEST: Final = 1024
_LARGE: Final = 512
_MOST_BY_ONE: Final = 1 << 17
"""Numbers that one workgroup sums up."""


class _Given(NamedTuple):
    """What an adjoint is launched with."""

    arguments: tuple[Any, ...]
    gradients: tuple[Any, ...]
    constants: dict[str, Any]
    fresh: frozenset[int] = frozenset()
    """Gradients that hold nothing yet, by their numbers with those of structs in place."""

    def cleared(self, but: Collection[int] = ()) -> _Given:
        """The same, with nought in fresh gradients other than some."""
        if self.fresh:
            for number, x in enumerate(flattened(self.gradients)):
                if x is not None and number in self.fresh and number not in but:
                    set_to(x, 0.0)
        return self._replace(fresh=self.fresh & frozenset(but))


class AdjointKernel:
    """The adjoint of a kernel; ``adjoint[ndrange, workgroup](*arguments, *gradients)`` launches it.

    Made by `vjp`.
    """

    def __init__(self, primal: Kernel, *, deterministic: bool = False) -> None:
        if primal.parameters.rest:
            raise KernelError(
                f"{primal.__name__} takes *{primal.parameters.rest[0]}: kernels with a variable "
                "number of arguments have no gradient here",
                hint="take a tuple instead",
            )
        self.primal: Final = primal
        self.__name__ = f"{primal.__name__}_adjoint"
        self.deterministic: Final = deterministic
        self._made: dict[Any, Adjoint] = {}
        self._kernels: dict[tuple[int, int, bool], Derived] = {}
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
        launcher = self._launchers.get(key)
        if launcher is None:
            launcher = self._launchers[key] = AdjointLauncher(self, key)
        return launcher

    def kernel(self, dims: int, part: int = MAIN, *, thrifty: bool = False) -> Kernel:
        """The kernel that is launched over so many dimensions, or one that is before it."""
        result = self._kernels.get((dims, part, thrifty))
        if result is None:
            how = How(dims, thrifty, self.deterministic)
            result = Derived(self.primal, part, self._made, how)
            result = self._kernels.setdefault((dims, part, thrifty), result)
        return result


class AdjointLauncher:
    """An adjoint with its ndrange and workgroup; calling it launches it."""

    def __init__(self, adjoint: AdjointKernel, key: Any) -> None:
        self._adjoint = adjoint
        self._key = key
        self._forward = adjoint.primal[key]
        self._plans: dict[Any, _Plan] = {}
        self._familiar: tuple[tuple[SeenArguments, _Plan], ...] = ()

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
        self._launch(_Given(args[:half], args[half:], constants))

    def begin(
        self,
        args: tuple[Any, ...],
        gradients: tuple[Any, ...],
        fresh: Collection[int],
        constants: dict[str, Any],
    ) -> None:
        """Launches it with gradients of which some, by their numbers, hold nothing yet."""
        self._launch(_Given(args, gradients, constants, frozenset(fresh)))

    def _plan(self, given: _Given) -> _Plan:
        """What is launched for arguments like these, once they are found to be fit."""
        constants = given.constants
        leaves = flattened((*given.arguments, *given.gradients))
        for same, plan in self._familiar:
            if same.recognises(leaves, constants):
                return plan
        check_gradients(self._adjoint.primal.parameters.positional, *given[:2])
        arrays = [x for x in leaves if is_array(x)]
        away = elsewhere() if all(isinstance(x, np.ndarray) for x in arrays) else None
        device = away or device_of(*arrays)
        self._check_overlaps(device, given)
        key = (device.name, signature(leaves), *map(constant_key, constants.items()))
        known = self._plans.get(key)
        if known is not None:
            plan = known
        else:
            padded = self._forward.padded(device)
            dims = max((dim + 1 for dim in range(3) if padded[dim] > 1), default=1)
            launcher = self._adjoint.kernel(dims)[self._key]
            sizes = self._forward.asked(device)
            plan = _Plan(device, away is not None, dims, prod(padded), sizes, launcher)
            if len(self._plans) >= MOST_ADJOINTS:
                self._plans.clear()
            self._plans[key] = plan
        seen = SeenArguments.of(leaves, constants)
        if seen is not None:
            self._familiar = ((seen, plan), *self._familiar[: _MOST_FAMILIAR - 1])
        return plan

    def _launch(self, given: _Given) -> None:
        plan = self._plan(given)
        try:
            if plan.needs is None:
                given = given.cleared()
                plan.launcher(*given[:2], (), **given.constants)
            else:
                self._launch_all(plan, plan.needs.adjoint, given)
        except Needs as found:
            plan.needs = found
            self._widen(plan, found.adjoint)
            self._launch_all(plan, found.adjoint, given)

    def _widen(self, plan: _Plan, adjoint: Adjoint) -> None:
        """Launches work-items that need nothing of each other in long rows, where none are said.

        What is left beside sums over neighbours does so little that larger workgroups begin faster.
        """
        ndrange, workgroup = self._forward.key
        wide = _wide(plan.device, plan.dims)
        if workgroup is None and wide is not None and isinstance(ndrange, tuple):
            if adjoint.gathers:
                most = min(_LARGE, plan.device.capabilities.max_workgroup)
                width = min(most, 1 << (ndrange[0] - 1).bit_length())
                wide = (width, most // width)
            elif not adjoint.sized:
                return
            kernel = self._adjoint.kernel(plan.dims, thrifty=plan.thrifty)
            plan.launcher = kernel[tuple(ndrange[: plan.dims]), wide]
            plan.items = prod(plan.launcher.padded(plan.device))

    def _launch_all(self, plan: _Plan, adjoint: Adjoint, given: _Given) -> None:
        """Launches an adjoint, what is before it and what is behind it."""
        kept: tuple[Any, ...] = ()
        if adjoint.kept:
            heights = list(zip(self._heights(plan, given), adjoint.kept, strict=True))
            if (
                not plan.thrifty
                and sum(n * x.itemsize for n, x in heights) * plan.items > _MOST_KEPT
            ):
                plan.needs, plan.heights, plan.thrifty = None, None, True
                plan.launcher = self._adjoint.kernel(plan.dims, thrifty=True)[self._key]
                self._launch(given)
                return
            kept = tuple(plan.room((max(1, n), plan.items), kind) for n, kind in heights)
        groups = plan.items // prod(adjoint.kernel.workgroup)
        leaves = flattened(given.gradients)
        copied = _copied(plan, adjoint.strips, groups, leaves)
        padded = adjoint.strips is not None and adjoint.strips.padded
        begun = {number for number, _ in copied} if padded else set[int]()
        begun -= _summed(adjoint, leaves)
        assert plan.needs is not None
        given = given.cleared({*plan.needs.gathered, *begun})
        for number in range(len(adjoint.gathers)):
            self._gather(plan, number, given)
        copies, launcher = tuple(x for _, x in copied), plan.launcher
        if copies:
            key = launcher.key
            if not padded:
                groups, wide = len(copies[0]), adjoint.kernel.workgroup
                key = (groups * wide[0], *wide[1:]), wide
            launcher = self._adjoint.kernel(plan.dims, STRIPS, thrifty=plan.thrifty)[key]
        shares = tuple(plan.room((groups,), x.dtype) for x in adjoint.shared)
        sizes = plan.sizes if adjoint.sized or copies else ()
        others = (None,) * (len(adjoint.gathers) + (adjoint.strips is not None))
        launcher(*given[:2], (*kept, *shares, *sizes, *(copies or others)), **given.constants)
        _add_sums(adjoint.shared, shares, given.gradients, plan.device)
        for number, x in copied:
            into = leaves[number].reshape(-1)
            if not into.size:
                continue
            if padded:
                _add_narrow[into.size](x, number in given.fresh, into)
            else:
                rows = x if groups <= _FEW_ROWS else reduce(x, axis=0).reshape(1, into.size)
                for k in range(len(rows)):
                    _add_row[into.size](rows, k, into)

    def _heights(self, plan: _Plan, given: _Given) -> tuple[int, ...]:
        """How much each work-item keeps at most, as a run of the kernel tells, or told before."""
        assert plan.needs is not None
        same = tuple(x.shape if is_array(x) else x for x in flattened(given.arguments))
        whole = tuple(None if isinstance(x, float) else x for x in same)
        if plan.heights is not None and plan.heights[0] in (same, whole):
            return plan.heights[1]
        known = plan.needs.heights(flattened(given.arguments))
        if known is not None:
            plan.heights = whole, known
            return known
        zeros = np.zeros(len(plan.needs.adjoint.kept), np.int32)
        counts = zeros if plan.on_host else plan.device.from_numpy(zeros)
        measure = self._adjoint.kernel(plan.dims, MEASURE, thrifty=plan.thrifty)[self._key]
        arguments = _spared(given.arguments, plan.needs.written)
        measure(arguments, given.gradients, (counts,), **given.constants)
        told = counts if plan.on_host else plan.device.to_numpy(counts)
        heights = tuple(int(x) for x in told)
        if plan.needs.adjoint.steady:
            plan.heights = same, heights
        return heights

    def _gather(self, plan: _Plan, number: int, given: _Given) -> None:
        """Launches a kernel that sums up the gradient of an array, each element by a work-item."""
        assert plan.needs is not None
        shared = plan.needs.adjoint.gathers[number].shared
        order = plan.needs.adjoint.gathers[number].dims
        argument = plan.needs.gathered[number]
        shape = flattened(given.arguments)[argument].shape
        ndrange = tuple(shape[order.index(dim)] for dim in range(len(order)))
        if shared:
            ndrange = tuple(map(max, ndrange, plan.sizes))
        if not prod(ndrange):
            return
        workgroup = _workgroup(plan.device, len(order))
        groups = prod(-(-n // wide) for n, wide in zip(ndrange, workgroup, strict=True))
        shares = tuple(plan.room((groups,), x.dtype) for x in shared)
        kernel = self._adjoint.kernel(plan.dims, number, thrifty=plan.thrifty)
        numbers = (*plan.sizes, int(argument in given.fresh))
        kernel[ndrange, workgroup](*given[:2], (*numbers, *shares), **given.constants)
        _add_sums(shared, shares, given.gradients, plan.device)

    def _check_overlaps(self, device: Device, given: _Given) -> None:
        """Refuses gradients that share memory, and arguments that do where the kernel writes it."""
        leaves, gradients = flattened(given.arguments), flattened(given.gradients)
        for view in views_of(device, gradients):
            if view is not None and any(
                stride == 0 and extent > 1
                for stride, extent in zip(view.strides, view.shape, strict=True)
            ):
                raise LaunchError("a gradient has elements that lie in the same place; copy it")
        arrays = [x if is_array(x) else None for x in (*leaves, *gradients)]
        pairs = list(overlaps(arrays))
        if not pairs:
            return
        if any(j >= len(leaves) for _, j in pairs):
            raise LaunchError(
                f"{self._adjoint.__name__} is given a gradient that shares memory with another "
                "array; give each argument a gradient of its own"
            )
        views = views_of(device, leaves)
        wanted = self._forward.specialised(device, given.arguments, views, given.constants)
        written = self._adjoint.primal.traits(wanted, device).written
        if any(not written.isdisjoint(pair) for pair in pairs):
            raise LaunchError(
                f"{self._adjoint.primal.__name__} is given arrays that share memory and writes one "
                "of them; its gradient goes by arguments: have it read and write the same one"
            )


def _spared(given: tuple[Any, ...], written: frozenset[int]) -> tuple[Any, ...]:
    """Arguments with copies of those that are written."""
    number = count()
    return mapped(given, lambda x: copy(x) if next(number) in written else x)


@kernel
def _add_row(rows: kl.Array, k: int, out: kl.Array) -> None:
    """Adds a row of numbers to others."""
    i = kl.global_id(0)
    out[i] += rows[k, i]


@kernel
def _add_narrow(rows: kl.Array, fresh: bool, out: kl.Array) -> None:
    """Adds rows of four, but for their last numbers, to rows of three, or makes them these."""
    i = kl.global_id(0)
    value = rows[i // 3, i % 3]
    if not fresh:
        value += out[i]
    out[i] = value


def _copied(
    plan: _Plan, strips: Strips | None, groups: int, leaves: Sequence[Any]
) -> list[tuple[int, Any]]:
    """The numbers of gradients, and nought to add to instead; nothing where atomics cost less."""
    if strips is None:
        return []
    given = [number for number, x in enumerate(leaves) if x is not None]
    numbers = [given[i] for i in strips.gradients]
    arrays = [leaves[i] for i in numbers]
    shapes = (_rows_of_four if strips.padded else _strips)(plan, strips, groups, arrays)
    if not shapes:
        return []
    views = [x for x in views_of(plan.device, arrays) if x is not None]
    if any(x.strides != contiguous_strides(x.shape, x.dtype.itemsize) for x in views):
        return []
    rooms = [plan.room(y, dtype(x.dtype)) for x, y in zip(arrays, shapes, strict=True)]
    return list(zip(numbers, [set_to(x, 0.0) for x in rooms], strict=True))


def _summed(adjoint: Adjoint, leaves: Sequence[Any]) -> set[int]:
    """The numbers of gradients to which workgroups' sums are added, before copies are."""
    given = [number for number, x in enumerate(leaves) if x is not None]
    sums = chain(adjoint.shared, *(part.shared for part in adjoint.gathers))
    return {given[x.gradient] for x in sums}


_Shapes = Sequence[tuple[int, int]]
"""Of a copy of each gradient, its rows and columns; nothing where copies cost more than atomics."""


def _rows_of_four(plan: _Plan, strips: Strips, _: int, arrays: Sequence[Any]) -> _Shapes:
    rows = [x.size // 3 for x in arrays]
    pays = plan.items * strips.additions >= max(_FEWEST_IN_ROWS, 4 * sum(rows))
    return [(n, ROW) for n in rows if pays and all(x.shape[-1] == 3 for x in arrays)]


def _strips(plan: _Plan, strips: Strips, groups: int, arrays: Sequence[Any]) -> _Shapes:
    saved, size = plan.items * strips.additions, sum(x.size for x in arrays)
    if saved < _FEWEST_SAVED or not size:
        return []
    capabilities = plan.device.capabilities
    one_thread = capabilities.workgroup_atomics
    most = _DEAREST[one_thread] * saved / (capabilities.compute_units * size)
    beside = _BESIDE * groups // plan.items
    if one_thread:
        beside = min(_TURNS, int(most / _TURNS))  # a thread that is held up does fewer
    if most < max(1, beside):
        return []
    return [(min(groups, capabilities.compute_units * max(1, beside)), x.size) for x in arrays]


@kernel
def _add_all(parts: kl.Array, out: kl.Array, at: Any) -> None:
    """Adds the sum of some numbers to an element, by one workgroup."""
    i, items = kl.local_id(0), kl.local_size(0)
    total = kl.cast(0, parts.dtype)
    for k in range(i, parts.shape[0], items):
        total += parts[k]
    total = kl.workgroup_reduce(kl.add, total)
    if i == 0:
        out[at] += total


def _add_sums(
    shared: Sequence[Shared], shares: Sequence[Any], gradients: Any, device: Device
) -> None:
    """Adds what workgroups handed on to elements of gradients."""
    into = [x for x in flattened(gradients) if x is not None] if shared else []
    for x, share in zip(shared, shares, strict=True):
        _add_sum(share, into[x.gradient], x.index, device)


def _add_sum(parts: Any, out: Any, index: tuple[int, ...], device: Device) -> None:
    """Adds the sum of what workgroups handed on to an element."""
    if parts.shape[0] > _MOST_BY_ONE:
        parts = reduce(parts).reshape(1)
    items = min(_WIDEST, device.capabilities.max_workgroup)
    _add_all[groups(1), items](parts, out, index)


def _wide(device: Device, dims: int) -> tuple[int, ...] | None:
    """The workgroup of a sum over neighbours: long rows, where work-items lie side by side."""
    width = 2 * device.capabilities.sub_group_size
    if dims != 2 or width == 2:
        return None
    x, y, _ = default_workgroup(dims, device.capabilities)
    return (width, x * y // width) if x < width <= x * y else None


def _workgroup(device: Device, dims: int) -> tuple[int, ...]:
    return _wide(device, dims) or default_workgroup(dims, device.capabilities)[:dims]


@dataclass
class _Plan:
    """What is launched for some kind of arguments.

    Attributes
    ----------
    device : Device
    on_host : bool
        Whether arrays are NumPy's and go there and back.
    dims : int
        How many dimensions the ndrange has.
    items : int
        Work-items, in whole workgroups.
    sizes : (int, int, int)
        Of the ndrange.
    launcher : Launcher
        Of the adjoint.
    needs : Needs or None
        What is to be done beside that, once it is known.
    thrifty : bool
        Whether its loops keep little, since what they would keep was too much.
    heights : tuple or None
        The shapes and numbers of the last launch, and how much each work-item then keeps of each
        type, where these decide it.
    """

    device: Device
    on_host: bool
    dims: int
    items: int
    sizes: tuple[int, int, int]
    launcher: Launcher
    needs: Needs | None = None
    thrifty: bool = False
    heights: tuple[Any, tuple[int, ...]] | None = None

    def room(self, shape: tuple[int, ...], kind: DType) -> Any:
        """An array for what a launch keeps or hands on."""
        return np.empty(shape, kind.numpy) if self.on_host else self.device.empty(shape, kind)


def vjp(forward: Kernel, *, deterministic: bool = False) -> AdjointKernel:
    """The adjoint of a kernel, itself a kernel: from gradients by results to those by the rest.

    It is made from the kernel's IR by reverse-mode differentiation (Griewank and Walther,
    "Evaluating Derivatives", 2008): a run forwards, of which what is needed is worked out again
    or kept, and one backwards. Whatever has no gradient here is refused by its line when the
    adjoint is launched.

    Where a function has a kink (``abs``, ``maximum``, a comparison) one of the two slopes is taken;
    derivatives through integers are nothing. Atomic additions make the last bits of sums over
    work-items depend on their order. Where loops would keep more than 256 MiB they are gone through
    in chunks, of which what each begins with is kept: memory then grows with the square root of the
    number of rounds, for one more run forwards.

    Parameters
    ----------
    forward : kernel
        A function marked `portable.kernel`.
    deterministic : bool
        Whether gradients must be the same, to the last bit, in each run: what would take atomic
        additions is refused by its line.

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
    if not isinstance(forward, Kernel):
        raise TypeError(f"portable.vjp takes a kernel, not {forward!r}")
    return _adjoint_of(forward, deterministic)


@lru_cache(maxsize=MOST_ADJOINTS)
def _adjoint_of(forward: Kernel, deterministic: bool) -> AdjointKernel:
    return AdjointKernel(forward, deterministic=deterministic)
