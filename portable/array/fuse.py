"""Functions of arrays as one kernel."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from portable import recording
from portable.array.fusion.fused_reduction import (
    Operand,
    ReductionPlan,
    array_operand,
    bound,
    handle_of,
    number_operand,
    plan_of_reductions,
)
from portable.array.fusion.fused_reduction_kernel import MOST_INPUTS, MOST_OUTPUTS, Steps, fused
from portable.array.fusion.traced import Trace, Traced
from portable.backend import ArrayView, Device
from portable.dtypes import DType, dtype
from portable.errors import LaunchError
from portable.interchange.libraries import takes_other_libraries
from portable.interchange.tensors import is_tensor
from portable.lang.arguments.arguments import is_array, named_key
from portable.lang.launch.call_cache import maker_like
from portable.lang.launch.packing import ArgumentText
from portable.lang.launch.plan import Relaunch, Repeatable, text_for
from portable.namespace import device_of, elsewhere, on_device
from portable.primitives.base.operands import (
    broadcast_shapes,
    broadcast_strides,
    collapsed,
    number_for,
)
from portable.primitives.base.storage import contiguous_strides
from portable.primitives.maps.elementwise_kernel import FULL, Share
from portable.primitives.maps.work import streams, vector_lanes, work_of

_MAX_PLANS: Final = 1024
_REPEAT_AFTER: Final = 4
"""Calls after which it pays to compile what recognises more of them."""

_MOST_REPEATS: Final = 4
"""Calls of a function that are recognised, of its latest, for arguments of the same types."""

_NO_CONSTANTS: Final[dict[str, Any]] = {}
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _FusedPlan:
    """What calls with the same dtypes, shapes and strides share.

    Attributes
    ----------
    launch : Repeatable or None
        The kernel; None where there are no elements.
    operands : tuple of Operand
        The inputs as the kernel takes them.
    ranges : tuple of (int, DType)
        Inputs that are numbers, and of which dtypes of integers they have to be in range.
    results : tuple of DType
        What to make.
    shape, counted : tuple of int
        The results' shape, and how the kernel counts it.
    several : bool
        Whether the function returns a tuple.
    """

    launch: Repeatable | None
    operands: tuple[Operand, ...]
    ranges: tuple[tuple[int, DType], ...]
    results: tuple[DType, ...]
    shape: Shape
    counted: Shape
    several: bool


class _Repeat(NamedTuple):
    """What makes calls again that are like a few before.

    Attributes
    ----------
    sample, shape : int, tuple of int
        The number of the first array, and its shape.
    launched : callable
        Launches the kernel for arguments and results; gives False, nothing done, for others.
    makers : tuple of callable
        Make the results.
    several : bool
        Whether the function returns a tuple.
    """

    sample: int
    shape: Any
    launched: Relaunch
    makers: tuple[Callable[[], Any], ...]
    several: bool


class Fused:
    """A function of arrays that runs as one kernel; made by `fuse`."""

    def __init__(self, python: Callable[..., Any]) -> None:
        functools.update_wrapper(self, python)
        self.__name__: str = python.__name__
        self._python: Final = python
        self._plans: dict[Any, _FusedPlan | ReductionPlan] = {}
        self._repeats: dict[Any, tuple[_Repeat, ...]] = {}
        self._counts: dict[Any, int] = {}
        self._reduces = False

    def __repr__(self) -> str:
        return f"<portable fused function {self.__name__}>"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The function's result or results, on the device of the arrays.

        Parameters
        ----------
        *args, **named : array or number
            Arrays of one device, of any library that a backend takes, and Python numbers.

        Raises
        ------
        LaunchError
            For too many arguments or results, or results that are not of the function's making.
        DeviceMismatchError
            For arrays of several devices.
        OverflowError
            For an integer that is out of range for the arrays that it meets.
        """
        if named:
            args = self._in_order(args, named)
        if recording.active:
            return self.called(*args)
        result = self._again(args)
        if result is None:
            result = self.called(*args)
            self._learn_in_time(args, result, tensors=True)
        return result

    def _in_order(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position, with the defaults of those that others by name come after."""
        given = inspect.signature(self._python).bind(*args, **named)
        given.apply_defaults()
        if alone := given.kwargs.keys() & named.keys():
            raise LaunchError(
                f"{self.__name__} takes {', '.join(sorted(alone))} by name alone; arguments of a "
                "fused function are arrays and numbers that may be given by position, too"
            )
        return given.args

    @takes_other_libraries
    def called(self, *args: Any) -> Any:
        """A call as it is where it is not like an earlier one, or tapes look on."""
        result = self._again(args)
        if result is None:
            result = self._by_plan(args)
            self._learn_in_time(args, result, tensors=False)
        return result

    def _again(self, args: tuple[Any, ...]) -> Any:
        """What a call gives that is like a few before; None for others."""
        if not self._repeats:
            return None
        for known in self._repeats.get(self._repeat_key(args), ()):
            if args[known.sample].shape == known.shape:
                made = tuple(make() for make in known.makers)
                if known.launched((*args, *made), _NO_CONSTANTS):
                    return made if known.several else made[0]
        return None

    def _repeat_key(self, args: tuple[Any, ...]) -> Any:
        return (named_key(self._python), *map(type, args))

    def _learn_in_time(self, args: tuple[Any, ...], result: Any, *, tensors: bool) -> None:
        """Learns a call, of tensors or of all others, when there were some like it."""
        if self._reduces:
            return  # only plans launch reductions
        sample = result[0] if isinstance(result, tuple) else result
        if is_tensor(sample) is not tensors or (tensors and not sample.is_cuda):
            return
        key = self._repeat_key(args)
        if len(self._counts) >= _MAX_PLANS:
            self._counts.clear()
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count % _REPEAT_AFTER == 0 and (repeat := self._learnt(args, result)) is not None:
            if len(self._repeats) >= _MAX_PLANS:
                self._repeats.clear()
            self._repeats[key] = (repeat, *self._repeats.get(key, ())[: _MOST_REPEATS - 1])

    def _by_plan(self, args: tuple[Any, ...]) -> Any:
        """A call of a device's own arrays."""
        args = tuple(x.item() if isinstance(x, np.generic) else x for x in args)
        arrays = [x for x in args if is_array(x)]
        if not arrays:
            raise TypeError(f"{self.__name__} is fused and needs at least one array")
        device = device_of(*arrays)
        name, views = self._key_of(device, args)
        plan = self._plans.get(name)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[name] = self._new_plan(device, args, views)
        if isinstance(plan, ReductionPlan):
            return plan.run(device, args, views)
        return _run(plan, device, args, views)

    def _learnt(self, args: tuple[Any, ...], result: Any) -> _Repeat | None:
        """What launches more of the calls like one; None where only plans can."""
        if elsewhere() is not None and any(type(x) is np.ndarray for x in args):
            return None  # copies of which went there and back
        made = result if isinstance(result, tuple) else (result,)
        given = (*args, *made)
        device = device_of(*(x for x in given if is_array(x)))
        name, views = self._key_of(device, args)
        plan = self._plans.get(name)
        if device.interprets or not isinstance(plan, _FusedPlan) or not plan.launch or plan.ranges:
            return None
        views = [*views, *(device.view(on_device(device, x)) for x in made)]
        text = text_for(device, given, _NO_CONSTANTS, views, len(made))
        if text is None:
            return None

        def number(arg: int) -> str:
            return f"{text.named(number_for)}(a{arg}, {text.named(plan.operands[arg].number)})"

        words = ArgumentText("a{}_handle".format, "a{}_offset".format, number, text.named)
        text.launch(plan.launch.parts, words)
        sample = next(i for i, x in enumerate(args) if is_array(x))
        makers = tuple(maker_like(device, x) for x in made)
        launched = text.compiled(len(given))
        return _Repeat(sample, args[sample].shape, launched, makers, plan.several)

    def _key_of(self, device: Device, args: tuple[Any, ...]) -> tuple[Any, list[ArrayView | None]]:
        """What calls with the same plan have in common, and views of the arrays."""
        views: list[ArrayView | None] = []
        key: list[Any] = [device, named_key(self._python)]
        for x in args:
            if not is_array(x):
                views.append(None)
                key.append(type(x))
                continue
            view = device.view(x if device.owns(x) else on_device(device, x))
            views.append(view)
            key.append((view.dtype, view.shape, view.strides, view.address & 15))
        return tuple(key), views

    def _new_plan(
        self, device: Device, args: Sequence[Any], views: Sequence[ArrayView | None]
    ) -> _FusedPlan | ReductionPlan:
        trace = Trace(device)
        inputs = [
            trace.number(x) if v is None else trace.array(dtype(v.dtype), v.shape)
            for x, v in zip(args, views, strict=True)
        ]
        returned = self._python(*inputs)
        results = returned if isinstance(returned, tuple | list) else (returned,)
        self._check(trace, results)
        several = isinstance(returned, tuple | list)
        if results[0].trace is trace.after:
            self._reduces = True
            return plan_of_reductions(device, trace, inputs, views, results, several)
        return _plan(device, trace, inputs, views, results, several)

    def _check(self, trace: Trace, results: Sequence[Any]) -> None:
        if trace.inputs > MOST_INPUTS or not 0 < len(results) <= MOST_OUTPUTS:
            raise LaunchError(
                f"{self.__name__} has {trace.inputs} arguments and {len(results)} results; fused "
                f"functions have up to {MOST_INPUTS} and {MOST_OUTPUTS}"
            )
        for x in results:
            is_ours = isinstance(x, Traced) and x.trace in (trace, trace.after) and not x.weak
            if not is_ours or x.trace is not results[0].trace:
                raise LaunchError(
                    f"{self.__name__} returns {x!r}; a fused function returns arrays computed from "
                    "its arguments, either all of them reduced or none"
                )


def _plan(
    device: Device,
    trace: Trace,
    inputs: Sequence[Traced],
    views: Sequence[ArrayView | None],
    results: Sequence[Traced],
    several: bool,
) -> _FusedPlan:
    arrays = [v for v in views if v is not None]
    shape = broadcast_shapes([v.shape for v in arrays])
    kinds = tuple(x.dtype for x in results)
    outs = [contiguous_strides(shape, kind.itemsize) for kind in kinds]
    strides = [broadcast_strides(v.shape, v.strides, shape) for v in arrays]
    counted, steps = collapsed(shape, [*strides, *outs])
    placed = iter(steps)
    operands = [
        number_operand(x) if v is None else array_operand(v, counted, next(placed))
        for x, v in zip(inputs, views, strict=True)
    ]
    made = [
        _out_view(device, shape, counted, kind, step)
        for kind, step in zip(kinds, placed, strict=True)
    ]
    return _FusedPlan(
        _launch(device, trace, operands, results, made) if prod(shape) else None,
        tuple(operands),
        tuple(trace.ranges),
        kinds,
        shape,
        counted,
        several,
    )


def _launch(
    device: Device,
    trace: Trace,
    operands: Sequence[Operand],
    results: Sequence[Traced],
    made: Sequence[ArrayView],
) -> Repeatable:
    """The launch that gives arrays like those `made`, whose elements are the `results`."""
    counted = made[0].shape
    arrays = [*(x.given for x in operands if x.number is None), *made]
    strided = any(x.given.strides[-1] != x.given.dtype.itemsize for x in operands if x.how == FULL)
    lanes = 1
    streaming = streams(prod(counted) * made[0].dtype.itemsize, device.capabilities)
    if trace.vector and not strided:
        kinds = [dtype(x.dtype) for x in arrays]
        lanes = vector_lanes(kinds, counted[-1], device.capabilities, streaming=streaming)
    chunk, rows, ndrange, workgroup = work_of(counted, lanes, device.capabilities, strided=strided)
    constants = {
        "STEPS": Steps(tuple(x.how for x in operands), tuple(trace.steps)),
        "RESULTS": tuple(x.number for x in results),
        "SHARE": Share(lanes, chunk, rows, streaming),
    }
    args = (tuple(x.given for x in operands), tuple(made))
    return fused[ndrange, workgroup].repeatable_on(device, args, constants)


def _out_view(device: Device, shape: Shape, counted: Shape, kind: DType, strides: Shape) -> Any:
    view = device.view(device.empty(shape, kind))
    return view._replace(shape=counted, strides=strides, layout=None)


def _run(
    plan: _FusedPlan, device: Device, args: Sequence[Any], views: Sequence[ArrayView | None]
) -> Any:
    for start, whole in plan.ranges:
        number_for(args[start], whole)
    made = [device.empty(plan.shape, kind) for kind in plan.results]
    if plan.launch is not None:
        interpreted = device.interprets
        given = bound(plan.operands, args, views, interpreted)
        for view in map(device.view, made):
            strides = contiguous_strides(plan.counted, view.dtype.itemsize)
            handle = handle_of(view, (plan.counted, strides), interpreted)
            given.append((handle, view.offset, None))
        plan.launch(*zip(*given, strict=True))
    return tuple(made) if plan.several else made[0]


def fuse(function: Callable[..., Any]) -> Fused:
    """Makes a function of arrays run as one kernel, with nothing between its steps in memory.

    The function is called with stand-ins that record what is done to them: Python's operators, the
    element-wise functions of `portable.array` (``x.__array_namespace__()`` inside the function),
    ``where``, ``clip``, ``astype``, ``real`` and ``imag``, and NumPy's functions of the same
    meaning. It may end in reductions (``all``, ``any``, ``max``, ``mean``, ``min``, ``prod``,
    ``sum``) along the same axes, and element-wise functions of what they give. It is called once
    for arrays of the same dtypes, shapes and strides, so that it must not look at values; Python
    numbers among the arguments may change from call to call, and so may what names in the function
    stand for: it is called again then. Arguments broadcast, dtypes promote as
    those of `portable.array`. Intermediate `float16` results are kept in single precision.

    Elements that are reduced are read once. Workgroups share out what is long; where the device
    orders memory between them (`Capabilities.memory_orders`) the last one merges what the others
    found, elsewhere a second, small launch does.

    Parameters
    ----------
    function : callable
        Takes up to 12 arrays and numbers, by position, and returns an array or up to 4 in a tuple.

    Returns
    -------
    Fused
        Takes arrays of any library that a backend takes (those of `portable.array`, NumPy, CuPy,
        dpnp) and returns new arrays of the same library.

    Raises
    ------
    TypeError
        For what is no function.

    Examples
    --------
    >>> import numpy as np
    >>> import portable as pt
    >>> @pt.fuse
    ... def gelu(x):
    ...     return 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x)))
    >>> y = gelu(pt.xp("opencl").ones(1000))  # doctest: +SKIP
    >>> @pt.fuse
    ... def distance(x, y):
    ...     return np.sqrt(np.sum((x - y) ** 2))
    """
    if not callable(function):
        raise TypeError(f"fuse takes a function of arrays, not {function!r}")
    return Fused(function)
