"""From a call of a kernel to a launch on a device, fast when the like was launched before.

A *plan* is what a launch needs that depends only on the types, shapes and strides of its arguments:
the compiled program, the workgroups, and the argument list with every extent and stride filled in.
A warm launch looks its plan up, checks overlap, fills in pointers and numbers, and is gone. One
that is like the last few is recognised without looking anything up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from portable import recording
from portable.backend import ArrayView, Device
from portable.errors import InterruptedLaunchError, LaunchError, PortableError, without_frames
from portable.interchange.host_arrays import SentArrays
from portable.interchange.jax_arrays import is_recognised
from portable.interchange.libraries import in_order_of_tensors, stream_of, tensors_viewed
from portable.lang.arguments.arguments import (
    Specialisation,
    constant_key,
    is_array,
    needs_index64,
    scalar_key,
)
from portable.lang.arguments.structs import flattened, is_composite, structure_of
from portable.lang.launch.definition import Definition
from portable.lang.launch.geometry import (
    Groups,
    Three,
    asked_sizes,
    check_workgroup,
    default_workgroup,
    group_counts,
    ragged_dims,
)
from portable.lang.launch.packing import packing_of
from portable.lang.launch.plan import (
    BoundProgram,
    Lowered,
    Plan,
    Relaunch,
    Repeatable,
    disjoint_by,
    overlap_pairs,
    relaunch_for,
)
from portable.lang.launch.strays import remark_strays
from portable.namespace import device_for_numpy, device_of, elsewhere, on_device

_MAX_PLANS: Final = 1024
_RELAUNCH_AFTER: Final = 4
"""Launches of a plan after which it pays to compile a function that recognises more of them."""

_MOST_RELAUNCHES: Final = 4
"""Launches that a launcher recognises, of its latest: loops of operations launch a few in turn."""

_still_used: Final[list[object]] = []
"""Arguments of launches that Ctrl-C left running."""

_UNKNOWN: Final = object()
_MAX_TYPES: Final = 1024
_known_types: Final[dict[type, Any]] = {}
"""Of types of arguments seen: True of arrays, None of tuples and structs, False of the rest."""


class Launcher:
    """A kernel with its ndrange and workgroup; calling it launches it.

    `flat`: the ndrange was given as one number.
    """

    __slots__ = (
        "_flat",
        "_kernel",
        "_latest",
        "_ndrange",
        "_plans",
        "_reads",
        "_relaunches",
        "_state",
        "_workgroup",
    )

    def __init__(
        self,
        kernel: Definition,
        ndrange: Three | Groups,
        workgroup: Three | None,
        *,
        flat: bool = False,
    ) -> None:
        self._kernel = kernel
        self._ndrange = ndrange
        self._workgroup = workgroup
        self._flat = flat
        self._plans: dict[Any, Plan] = {}
        self._latest: Device | None = None
        self._relaunches: tuple[Relaunch, ...] = ()
        self._state = kernel.state
        self._reads = kernel.reads

    def _renew(self) -> None:
        """Forgets what was made while names in the kernel's text stood for other things."""
        state = self._kernel.renewed()
        if state is not self._state:
            self._plans, self._relaunches, self._state = {}, (), state
            self._reads = self._kernel.reads

    @property
    def kernel(self) -> Definition:
        """The kernel that is launched."""
        return self._kernel

    @property
    def key(self) -> Any:
        """What the kernel is indexed with for a launcher like this one."""
        if self._flat:
            assert not isinstance(self._ndrange, Groups)
            return self._ndrange[0], self._workgroup
        return self._ndrange, self._workgroup

    def asked(self, device: Device) -> Three:
        """The work-items along each dimension that the ndrange asks for."""
        wide = self._workgroup or default_workgroup(_ndim(self._ndrange), device.capabilities)
        return asked_sizes(self._ndrange, wide)

    def padded(self, device: Device) -> Three:
        """The work-items along each dimension, in whole workgroups."""
        wide = self._workgroup or default_workgroup(_ndim(self._ndrange), device.capabilities)
        counts = group_counts(self._ndrange, wide, device.capabilities)
        x, y, z = (n * size for n, size in zip(counts, wide, strict=True))
        return x, y, z

    def __call__(self, *args: Any, **constants: Any) -> None:
        """Launches the kernel where its array arguments live; returns before it is done.

        Parameters
        ----------
        *args
            Arrays and numbers, and tuples and structs of them; None, dtypes, strings and functions
            are compile-time constants.
        **constants
            The keyword-only parameters.

        Raises
        ------
        KernelError
            If the kernel is not in the language.
        LaunchError
            For a bad ndrange, workgroup, argument, or too much local memory.
        DeviceMismatchError
            For arrays of different devices.
        """
        try:
            if (
                recording.active
                and (recorder := recording.current()) is not None
                and recorder.launched(self, args, constants)
            ):
                return
            if self._reads or self._kernel.state is not self._state:
                self._renew()
            for relaunch in self._relaunches:
                if relaunch(args, constants):
                    return
            given, viewed = args, tensors_viewed(args)
            if viewed is not None:
                args = tuple(viewed.values)
                with viewed.scope:
                    own = not any(map(is_recognised, given))  # those are known by `given` itself
                    if own and any(relaunch(args, constants) for relaunch in self._relaunches):
                        return
                    plan, views, bound = self._launched(args, constants)
            elif (away := _elsewhere(args)) is not None:
                self._sent(away, args, constants)()
                return
            else:
                plan, views, bound = self._launched(args, constants)
        except PortableError as error:
            raise without_frames(error) from error.__cause__
        except InterruptedLaunchError:
            _still_used.append((args, constants))
            raise
        kinds = tuple(map(type, given))  # libraries may take turns
        bound.uses[kinds] = uses = bound.uses.get(kinds, 0) + 1
        if uses == _RELAUNCH_AFTER:
            made = relaunch_for(plan, bound, given, constants, views)
            if made is None and viewed is not None:
                made = relaunch_for(plan, bound, args, constants, views)
            bound.relaunches[kinds] = made
        known = bound.relaunches.get(kinds)
        if known is not None:
            others = [x for x in self._relaunches if x is not known]
            self._relaunches = (known, *others[: _MOST_RELAUNCHES - 1])

    def _launched(
        self, args: tuple[Any, ...], constants: dict[str, Any]
    ) -> tuple[Plan, list[ArrayView | None], BoundProgram]:
        """Launches it; gives its plan, views of its arrays, and what was launched."""
        plan, views, bound, leaves, _shared = self._resolve(args, constants)
        stream = stream_of(leaves)
        with nullcontext() if stream is None else plan.device.on_stream(stream):
            bound.executable.launch(plan.groups, bound.packing.pack_views(views, leaves))
        return plan, views, bound

    def prepare(self, *args: Any, **constants: Any) -> Callable[[], None]:
        """Binds the arguments and returns the cheapest launch of them, a function without any.

        The arrays must stay alive and where they are; numbers are taken now. NumPy's arrays whose
        launches run on a device with memory of its own are copied there at each launch, and back.
        """
        self._renew()
        try:
            away = _elsewhere(args)
            if away is not None:
                return self._sent(away, args, constants)
            plan, views, bound, leaves, shared = self._resolve(args, constants)
        except PortableError as error:
            raise without_frames(error) from error.__cause__
        launch = bound.executable.prepare(plan.groups, bound.packing.pack_views(views, leaves))
        return _keeping(in_order_of_tensors(launch, plan.device, leaves), (args, shared))

    def repeatable(
        self, args: tuple[Any, ...], constants: dict[str, Any], *, disjoint: bool | None = None
    ) -> Repeatable:
        """A launch of arguments like these; `disjoint`: no written array overlaps another.

        Where that is left out, later arguments overlap as these do.
        """
        self._renew()
        plan, _, bound, *_ = self._resolve(args, constants)
        return Repeatable(plan.groups, bound if disjoint is None else plan.bound(disjoint))

    def repeatable_on(
        self, device: Device, args: tuple[Any, ...], constants: dict[str, Any]
    ) -> Repeatable:
        """A launch of arrays like these `ArrayView`s, of which none overlaps another."""
        self._renew()
        views = [x if isinstance(x, ArrayView) else None for x in flattened(args)]
        plan = self._plan(device, args, views, constants)
        return Repeatable(plan.groups, plan.bound(True))

    def lower(self, *args: Any, **constants: Any) -> Lowered:
        """What a launch of these arguments would hand to the device; launches nothing.

        NumPy's arrays are taken where kernels see them in place.
        """
        self._renew()
        plan, views, bound, leaves, _ = self._resolve(args, constants)
        return Lowered(
            bound.program, bound.executable, plan.groups, bound.packing.pack_views(views, leaves)
        )

    def _sent(
        self, device: Device, args: tuple[Any, ...], constants: dict[str, Any]
    ) -> Callable[[], None]:
        """A launch with NumPy's arrays on a device that has memory of its own.

        It copies them there, and what the kernel wrote comes back before it returns.
        """
        leaves = tuple(flattened(args))
        places = [i for i, x in enumerate(leaves) if is_array(x)]
        arrays = [leaves[i] for i in places]

        def launch() -> None:
            sent = SentArrays(device, arrays)
            views: list[ArrayView | None] = [None] * len(leaves)
            for i, view in zip(places, sent.views, strict=True):
                views[i] = view
            keys = [
                scalar_key(x) if v is None else None for x, v in zip(leaves, views, strict=True)
            ]
            layouts = [
                (v.dtype, v.shape, v.strides, not v.address & 15, v.writable) for v in sent.views
            ]
            fixed = [(name, constant_key(x)) for name, x in constants.items()]
            key = (device, "sent", structure_of(args), *keys, *layouts, *fixed)
            plan = self._find(key, device, args, views, constants)
            bound = plan.bound(disjoint_by(plan.pairs, views))
            bound.executable.launch(plan.groups, bound.packing.pack_views(views, leaves))
            sent.fetch([number for number, i in enumerate(places) if i in plan.written])

        return launch

    def _resolve(
        self, args: tuple[Any, ...], constants: dict[str, Any], leaves: tuple[Any, ...] = ()
    ) -> tuple[Plan, list[ArrayView | None], BoundProgram, tuple[Any, ...], list[Any]]:
        """The plan of a launch, and its arguments with tuples and structs taken apart.

        `leaves` are these arguments, given where `args` has tuples or structs. Last come the
        device's arrays in memory of other libraries, to be held until the launch is enqueued.
        """
        device: Device | None = None
        shared: list[Any] = []
        views: list[ArrayView | None] = []
        keys: list[Any] = [None, structure_of(args)] if leaves else [None]
        for x in leaves or args:
            kind = type(x)
            if kind is float:
                views.append(None)
                keys.append(float)
                continue
            is_one = _known_types.get(kind, _UNKNOWN)
            if is_one is _UNKNOWN:
                is_one = _kind_of(x)
            if not is_one:
                if is_one is None:
                    return self._resolve(args, constants, tuple(flattened(args)))
                views.append(None)
                keys.append(scalar_key(x))
                continue
            if device is None:
                keys[0] = device = self._device_of(kind, x)
            elif not device.owns(x) and device_of(x) is not device:
                device_of(*[y for y in leaves or args if is_array(y)])
            if not device.owns(x):
                x = on_device(device, x)
                shared.append(x)
            view = device.view(x)
            views.append(view)
            layout = view[8]
            if layout is None:
                keys += (view[0], view[1], view[2], not view[4] & 15, view[7])
            else:
                keys.append(layout)
        if device is None:
            keys[0] = device = device_of()
        if constants:
            keys += [
                (name, int, x) if type(x) is int else (name, constant_key(x))
                for name, x in constants.items()
            ]
        key = tuple(keys)
        try:
            plan = self._plans[key]
        except (KeyError, TypeError):
            plan = self._find(key, device, args, views, constants)
        disjoint = not plan.pairs or disjoint_by(plan.pairs, views)
        bound = plan.variants.get(disjoint) or plan.bound(disjoint)
        return plan, views, bound, leaves or args, shared

    def _device_of(self, kind: type, x: Any) -> Device:
        """The device of an array; the one of the latest launch, if it owns it, is found fastest.

        Not so for NumPy's arrays, which several devices take: the one in use decides.
        """
        if kind is np.ndarray:
            return device_for_numpy()
        latest = self._latest
        if latest is not None and latest.owns(x):
            return latest
        self._latest = device = device_of(x)
        return device

    def _find(
        self,
        key: Any,
        device: Device,
        args: tuple[Any, ...],
        views: list[ArrayView | None],
        constants: dict[str, Any],
    ) -> Plan:
        try:
            plan = self._plans.get(key)
            hashable = True
        except TypeError:
            hashable = False
        if not hashable:
            self._kernel.refuse_strange(args, views, constants)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._plan(device, args, views, constants)
        return plan

    def _plan(
        self,
        device: Device,
        args: tuple[Any, ...],
        views: list[ArrayView | None],
        constants: dict[str, Any],
    ) -> Plan:
        wanted = self.specialised(device, args, views, constants)
        if self._flat:
            self._check_dimensions(wanted, device)
        asked = asked_sizes(self._ndrange, wanted.workgroup)
        remark_strays(self._kernel, wanted, device, views, asked)
        counts = group_counts(self._ndrange, wanted.workgroup, device.capabilities)
        # A plan outlives the arrays that it was made for and must not keep their memory.
        views = [None if v is None else v._replace(handle=None, owner=None) for v in views]

        def build(disjoint: bool) -> BoundProgram:
            made = self._kernel.compiled(replace(wanted, restrict=disjoint), device)
            packing = packing_of(made.arguments, wanted.parameters, views, made.executable, asked)
            return BoundProgram(made.executable, made.program, packing, disjoint)

        written = self._kernel.written(wanted, device)
        return Plan(device, counts, overlap_pairs(views, written), written, {}, build)

    def _check_dimensions(self, wanted: Specialisation, device: Device) -> None:
        """Refuses one number for a kernel of several dimensions, as ``[n, m]`` comes to."""
        asked = self._kernel.traits(wanted, device).dimensions
        if asked > 1:
            assert not isinstance(self._ndrange, Groups)
            several = ", ".join(("n", "m", "k")[:asked])
            raise LaunchError(
                f"{self._kernel.__name__} asks for its place in {asked} dimensions, and its "
                f"ndrange is {self._ndrange[0]}: write [({several}), workgroup], or "
                f"[({several}), None] for the default workgroup; Python takes [({several})] for "
                f"[{several}]"
            )

    def specialised(
        self,
        device: Device,
        args: tuple[Any, ...],
        views: list[ArrayView | None],
        constants: dict[str, Any],
    ) -> Specialisation:
        """What a launch on a device specialises on where no arguments overlap."""
        workgroup = self._workgroup or default_workgroup(_ndim(self._ndrange), device.capabilities)
        check_workgroup(workgroup, device.capabilities)
        counts = group_counts(self._ndrange, workgroup, device.capabilities)
        fixed = self._kernel.constants(constants)
        specs = self._kernel.specs(args, views)
        leaves = flattened(args)
        keys = [scalar_key(x) for x, view in zip(leaves, views, strict=True) if view is None]
        padded = prod(n * size for n, size in zip(counts, workgroup, strict=True))
        whole = Specialisation(
            specs,
            fixed,
            workgroup,
            needs_index64([v for v in views if v is not None], keys, padded),
            True,
            self._kernel.options,
        )
        ragged = ragged_dims(self._ndrange, workgroup)
        if ragged and self._kernel.traits(whole, device).exact:
            return replace(whole, ragged=ragged)
        return whole


def _elsewhere(args: tuple[Any, ...]) -> Device | None:
    """The device that was chosen, where a launch's arrays are all NumPy's and have to go there."""
    device = elsewhere()
    if device is None:
        return None
    arrays = [x for x in flattened(args) if is_array(x)]
    return device if arrays and all(isinstance(x, np.ndarray) for x in arrays) else None


def _kind_of(x: Any) -> bool | None:
    """Whether an argument is an array, or None for tuples and structs; remembered by its type."""
    kind = type(x)
    if len(_known_types) >= _MAX_TYPES:
        _known_types.clear()
    known = _known_types[kind] = None if is_composite(kind) else is_array(x)
    return known


def _ndim(ndrange: Three | Groups) -> int:
    counts = ndrange.counts if isinstance(ndrange, Groups) else ndrange
    return max((i + 1 for i, n in enumerate(counts) if n > 1), default=1)


def _keeping(launch: Callable[[], None], arguments: object) -> Callable[[], None]:
    """The launch, holding on to its arrays."""
    kept = partial(launch)
    kept.__dict__["arguments"] = arguments
    return kept
