"""Kernels whose IR is made from another kernel's: its adjoint, and what is launched before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from portable.backend import Capabilities
from portable.backend.capabilities import Fault
from portable.gradients.adjoint.assemble import Adjoint, How, adjoint_of
from portable.gradients.adjoint.host_values import run_on_host
from portable.gradients.pairing import gradients_of
from portable.lang.arguments.arguments import CompositeSpec, Specialisation
from portable.lang.function import Marked
from portable.lang.ir.kernel import Kernel as KernelIR
from portable.lang.ir.types import Array
from portable.lang.kernel import Kernel
from portable.lang.launch.definition import Parameters, Traits
from portable.lang.launch.launchable import Launchable
from portable.lang.launch.packing import owners_of
from portable.lang.tiles import lower
from portable.system.locks import fork_safe_lock

MOST_ADJOINTS: Final = 256


@dataclass(eq=False)
class Needs(Exception):  # noqa: N818 - no error: a launch has to do more first
    """What a launch of an adjoint needs.

    Attributes
    ----------
    adjoint : Adjoint
    written : frozenset of int
        The arguments that the run which finds out how much is kept writes, with those of structs
        in place.
    gathered : tuple of int
        Likewise the argument whose gradient each of the adjoint's gathers sums up.
    owners : tuple of int
        Likewise the argument that each of the kernel's parameters is or is a part of.
    """

    adjoint: Adjoint
    written: frozenset[int]
    gathered: tuple[int, ...]
    owners: tuple[int, ...]

    def heights(self, leaves: Sequence[Any]) -> tuple[int, ...] | None:
        """How much each work-item keeps, where shapes and numbers tell; `leaves` in place."""
        measure = self.adjoint.measure
        assert measure is not None
        given = [(x, leaves[i]) for x, i in zip(measure.parameters, self.owners, strict=False)]
        arrays = [(x, y.shape) for x, y in given if isinstance(x, Array)]
        extents = {(x, axis): n for x, shape in arrays for axis, n in enumerate(shape)}
        numbers = {x.name: y for x, y in given if isinstance(y, int | np.integer)}
        counts = run_on_host(measure, extents, numbers)
        if counts is None:
            return None
        return tuple(counts.get(i, 0) for i in range(len(self.adjoint.kept)))


MAIN: Final = -1
MEASURE: Final = -2
STRIPS: Final = -3
_PARTS: Final = {
    MAIN: ("adjoint", "kept"),
    MEASURE: ("kept", "counts"),
    STRIPS: ("adjoint", "kept"),
}


class Derived(Kernel):
    """A kernel whose IR is made from another one's.

    It takes three tuples: the arguments, their gradients, and what belongs to the part that it is:
    of the adjoint itself the arrays of what is kept and None for each gather that was launched and
    for strips that were not, of the measurement the counts, of a gather the sizes of the ndrange.
    """

    def __init__(self, primal: Kernel, part: int, made: dict[Any, Adjoint], how: How) -> None:
        defaults = dict(primal.parameters.defaults)
        name, third = _PARTS.get(part, ("gather", "sizes"))
        takes = Parameters(("arguments", "gradients", third), (), defaults)
        Launchable.__init__(self, primal.options, takes)
        Marked.__init__(self, primal.python)
        self.__name__ = f"{primal.__name__}_{name}"
        self.state = type(primal.state)()
        self._states = [self.state]
        self._lock = fork_safe_lock()
        self._compiling = type(primal._compiling)(fork_safe_lock)
        self._primal = primal
        self._of = primal.state
        self._part = part
        self._made = made
        self._how = how

    def __reduce__(self) -> Any:
        return Derived, (self._primal, self._part, {}, self._how)

    @property
    def reads(self) -> Mapping[Any, Any]:
        """The outer names that the kernel read."""
        return self._primal.reads

    def renewed(self) -> Any:
        """Another state where the kernel has another one."""
        state = self._primal.renewed()
        if state is not self._of:
            with self._lock:
                self._of, self.state = state, type(state)()
        return self.state

    def _translated(
        self, wanted: Specialisation, capabilities: Capabilities
    ) -> tuple[KernelIR, Traits]:
        adjoint = self._adjoint(wanted, capabilities)
        if self._part == MEASURE:
            assert adjoint.measure is not None
            made = adjoint.measure
        elif self._part == MAIN:
            self._refuse_early(adjoint, wanted)
            made = adjoint.kernel
        elif self._part == STRIPS:
            assert adjoint.strips is not None
            made = adjoint.strips.kernel
        else:
            made = adjoint.gathers[self._part].kernel
        return made, Traits.of(made, wanted.parameters)

    def _refuse_early(self, adjoint: Adjoint, wanted: Specialisation) -> None:
        """Says what has to be done before, unless it was."""
        given = wanted.parameters[2]
        assert isinstance(given, CompositeSpec)
        parts = (adjoint.kept, adjoint.shared, adjoint.gathers)
        others = 3 * adjoint.sized + (adjoint.strips is not None)
        if len(given.items) == sum(map(len, parts)) + others:
            return
        owners, written = owners_of(wanted.parameters[:1]), frozenset[int]()
        if adjoint.measure is not None:
            pairs = zip(owners, adjoint.measure.parameters, strict=False)
            written = frozenset(i for (i, _), x in pairs if x in adjoint.measure.written)
        gathered = tuple(owners[x.parameter][0] for x in adjoint.gathers)
        raise Needs(adjoint, written, gathered, tuple(i for i, _ in owners))

    def _adjoint(self, wanted: Specialisation, capabilities: Capabilities) -> Adjoint:
        plain = replace(wanted, parameters=wanted.parameters[:2], ragged=())
        key = (self._of, self._how, capabilities, plain)
        with self._lock:
            made = self._made.get(key)
        if made is None:
            made = self._make(wanted, capabilities)
            with self._lock:
                if len(self._made) >= MOST_ADJOINTS:
                    self._made.clear()
                self._made[key] = made
        return made

    def _make(self, wanted: Specialisation, capabilities: Capabilities) -> Adjoint:
        given, gradients = wanted.parameters[:2]
        assert isinstance(given, CompositeSpec)
        assert isinstance(gradients, CompositeSpec)
        specs = given.items
        options = replace(wanted.options, whole_reductions=True)
        wanted_adjoint = replace(wanted, parameters=specs, options=options, ragged=())
        ir = in_plain_words(self._primal.translated(wanted_adjoint, capabilities), capabilities)
        pairs = gradients_of(ir, specs, gradients.items)
        restricted = [replace(x, array=replace(x.array, restrict=wanted.restrict)) for x in pairs]
        atomics, lanes = capabilities.workgroup_atomics, capabilities.atomic_lanes
        how = replace(self._how, workgroup_atomics=atomics, atomic_lanes=lanes)
        return adjoint_of(ir, restricted, how)


def in_plain_words(kernel: KernelIR, capabilities: Capabilities) -> KernelIR:
    """A kernel whose copies and matrix fragments are loads, stores and loops.

    It has no sub-groups where shuffles cannot be trusted: its own go by local memory then, and so
    do the sums over all work-items of its adjoint.
    """
    plain = replace(
        capabilities,
        matrix_units=frozenset(),
        async_copy=frozenset(),
        single_work_items=False,
        vector_bytes=1,
    )
    made = lower(kernel, plain)
    if Fault.LOST_LANES in capabilities.faults:
        return replace(made, sub_group_size=1)
    return made
