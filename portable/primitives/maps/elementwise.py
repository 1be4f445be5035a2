"""From an element-wise operation on arrays to a launch.

Plans are kept by dtypes, shapes and strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from portable import dtypes, recording
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import DeviceMismatchError, DTypeError, ShapeError
from portable.primitives.base.operands import (
    broadcast_shapes,
    broadcast_strides,
    collapsed,
    number_for,
)
from portable.primitives.base.recipe import Launch, Number, Recipe, example_of, repeatable, shifted
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import (
    EVERY_OTHER,
    EVERY_OTHER_PAIR,
    FULL,
    NUMBER,
    PAIRS,
    REVERSED,
    ROW,
    Formula,
    Share,
    elementwise,
)
from portable.primitives.maps.exchange import crosswise_axis, exchange_launch, seen_crosswise
from portable.primitives.maps.work import (
    Expression,
    Operation,
    conversion_of,
    described,
    streams,
    vector_lanes,
    work_of,
)

_MAX_PLANS: Final = 8192
_WORDS: Final = {dtypes.bool_: dtypes.uint8, dtypes.complex64: dtypes.uint64}
"""What copies move in vectors, and as what."""

_PAIRED: Final = {FULL: PAIRS, EVERY_OTHER: EVERY_OTHER_PAIR}
"""How operands that are complex numbers are taken as words."""
_BESIDE: Final = (*_PAIRED, *_PAIRED.values())
"""How operands are taken whose neighbours lie along the last axis."""


@dataclass(frozen=True, slots=True)
class _ElementwisePlan:
    """What calls with the same dtypes, shapes and strides share.

    `numbers` says as what to pass the operands that are Python numbers. A new result has this shape
    in memory; where its operands lie in another order of axes, `back` is how to see it.
    """

    shape: tuple[int, ...]
    result: DType
    launch: Launch | None
    numbers: tuple[tuple[int, DType], ...]
    back: tuple[int, ...] | None = None


_plans: dict[Any, _ElementwisePlan] = {}


def apply(operation: Operation, *operands: Any, out: Any = None) -> Any:
    """The operation on arrays and Python numbers, at least one of them, or `out`, an array.

    A new result lies in memory as its operands do, where these lie alike without gaps (transposes
    of contiguous arrays), as NumPy's; else, and where elements are converted, in C order.

    Parameters
    ----------
    operation : Operation
        What to do.
    *operands : Array or number
        They broadcast.
    out : Array, optional
        Where to put the result: of its shape and dtype. May be an operand, but may not overlap one
        otherwise.
    """
    key: list[Any] = [operation]
    for x in operands:
        if isinstance(x, Storage):
            key.append((x.device, x.dtype, x.shape, x.strides, x.offset & 15))
        else:
            key.append(type(x))
    if out is not None:
        shared = tuple(isinstance(x, Storage) and x.buffer is out.buffer for x in operands)
        key.append((out.device, out.dtype, out.shape, out.strides, out.offset & 15, shared))
    name = tuple(key)
    plan = _plans.get(name)
    if plan is None:
        for x in operands:
            if isinstance(x, Expression):
                return x.record(operation, operands)
        if len(_plans) >= _MAX_PLANS:
            _plans.clear()
        plan = _plans[name] = _new_plan(operation, operands, out)
    if out is None:
        device = next(x.device for x in operands if isinstance(x, Storage))
        out = device.empty(plan.shape, plan.result)
        result = out if plan.back is None else _turned(out, plan.back)
    else:
        result = out
    if not recording.active or (recorder := recording.current()) is None:
        _launch(plan, operands, out)
        return result
    recorder.applied(operation.real, operation.name, operands, result)
    with recording.unwatched():
        _launch(plan, operands, out)
    return result


def applied(recipe: Recipe, operation: Operation, *operands: Any, out: Any) -> None:
    """`apply` as a step of a recipe, to arrays of it; `out`, not empty, overlaps no operand.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    operation : Operation
        What to do.
    *operands : Storage, number or Number
        They broadcast.
    out : Storage
        Of the shape that they broadcast to.
    """
    like = tuple(map(example_of, operands))
    compute, _ = _types(operation, like, out.device)
    launch = _bind(operation, like, out, compute, disjoint=True)
    given = [x if isinstance(x, Storage | Number) else number_for(x, compute) for x in operands]
    recipe.add(launch, (*given, out))


def recorded(recipe: Recipe, operation: Operation, *operands: Any) -> Any:
    """`apply` as a step of a recipe: what stands for its result."""
    arrays = [x for x in operands if isinstance(x, Storage)]
    _, result = _types(operation, operands, arrays[0].device)
    shape = broadcast_shapes([x.shape for x in arrays])
    out = recipe.empty(shape, result)
    if out.size:
        applied(recipe, operation, *operands, out=out)
    return out


def result_type(operation: Operation, operands: Sequence[Any], device: Device) -> DType:
    """The dtype that `apply` gives.

    Parameters
    ----------
    operation : Operation
        What is done.
    operands : sequence of Array or number
        With what.
    device : Device
        Where.
    """
    return _types(operation, operands, device)[1]


def _types(operation: Operation, operands: Sequence[Any], device: Device) -> tuple[DType, DType]:
    """The dtypes to compute in and to give."""
    double = device.capabilities.float64
    return operation.types([described(x) for x in operands], double=double)


def _launch(plan: _ElementwisePlan, operands: tuple[Any, ...], out: Any) -> None:
    numbers: list[Any] = [None] * (len(operands) + 1)
    for i, kind in plan.numbers:
        numbers[i] = number_for(operands[i], kind)
    if plan.launch is None:
        return
    handles: list[Any] = []
    offsets: list[Any] = []
    for x in (*operands, out):
        is_array = isinstance(x, Storage)
        handles.append(x.buffer if is_array else None)
        offsets.append(x.offset if is_array else 0)
    plan.launch(handles, offsets, numbers)


def check_operands(name: str, operands: Sequence[Any]) -> Device:
    """The one device of the arrays among operands.

    Raises
    ------
    TypeError
        If there is none, or something is no array and no number.
    DeviceMismatchError
        If there are two.
    """
    device: Device | None = None
    for x in operands:
        if isinstance(x, Storage | Expression):
            if device is None:
                device = x.device
            elif device is not x.device:
                raise DeviceMismatchError(
                    f"{name} of arrays of {device.name} and {x.device.name}; move one of them with "
                    "x.to_device(device)"
                )
        elif not isinstance(x, int | float | complex):
            raise TypeError(
                f"{name} takes arrays and Python numbers, not {type(x).__module__}."
                f"{type(x).__qualname__}; convert it with xp.asarray(x), of the same namespace"
            )
    if device is None:
        raise TypeError(f"{name} needs at least one array; convert numbers with asarray")
    return device


def check_arrays(name: str, *things: Any) -> None:
    """Raises a TypeError for what is no array."""
    for x in things:
        if not isinstance(x, Storage) and not isinstance(x, Expression):
            raise TypeError(
                f"{name} takes arrays, not {type(x).__module__}.{type(x).__qualname__}; "
                "convert it with xp.asarray(x), of the same namespace"
            )


def _new_plan(operation: Operation, operands: tuple[Any, ...], out: Any) -> _ElementwisePlan:
    arrays = [x for x in (*operands, out) if isinstance(x, Storage)]
    device = check_operands(operation.name, operands if out is None else (*operands, out))
    compute, result = _types(operation, operands, device)
    shape = broadcast_shapes([x.shape for x in arrays])
    numbers = tuple((i, compute) for i, x in enumerate(operands) if not isinstance(x, Storage))
    aliased = out is not None and any(
        isinstance(x, Storage) and x.buffer is out.buffer for x in operands
    )
    back = None
    if out is None:
        order = None if operation.fixed else _shared_order(arrays, shape)  # copies are in C order
        if order is not None:
            operands = tuple(_turned(x, order) if isinstance(x, Storage) else x for x in operands)
            shape = tuple(shape[axis] for axis in order)
            back = tuple(order.index(axis) for axis in range(len(order)))
        out = device.empty(shape, result)
    elif out.shape != shape:
        raise ShapeError(
            f"{operation.name} gives shape {shape}, which an array of shape {out.shape} cannot hold"
        )
    elif out.dtype is not result:
        raise DTypeError(
            f"{operation.name} gives {result.name}, which an array of {out.dtype.name} cannot hold"
        )
    else:
        out.check_writable()
    if prod(shape) == 0:
        return _ElementwisePlan(shape, result, None, numbers)
    launch = _bind(operation, operands, out, compute, disjoint=not aliased)
    return _ElementwisePlan(shape, result, launch, numbers, back)


def _shared_order(arrays: Sequence[Storage], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes, outermost first, by which all arrays lie without gaps; None for C order."""
    if 0 in shape or any(x.shape != shape for x in arrays) or arrays[0].is_contiguous:
        return None
    steps = arrays[0].strides
    order = tuple(sorted(range(len(shape)), key=lambda axis: -steps[axis]))
    return order if all(_turned(x, order).is_contiguous for x in arrays) else None


def _turned(x: Any, order: tuple[int, ...]) -> Any:
    """The view of an array with its axes in another order."""
    return x.viewed(
        tuple(x.shape[axis] for axis in order), tuple(x.strides[axis] for axis in order)
    )


def _bind(
    operation: Operation, operands: tuple[Any, ...], out: Storage, compute: DType, *, disjoint: bool
) -> Launch:
    if operation.fixed in _WORDS and len(operands) == 1 and operation.is_copy_of(operands[0]):
        raw = _WORDS[out.dtype]
        operation, compute = replace(operation, fixed=raw), raw
        operands, out = (_as(operands[0], raw),), _as(out, raw)
    arrays = [x for x in operands if isinstance(x, Storage)]
    strides = [broadcast_strides(x.shape, x.strides, out.shape) for x in arrays]
    shape, steps = collapsed(out.shape, [*strides, out.strides])
    axis = crosswise_axis(arrays, out, shape, steps)
    if axis is not None:
        order = [*(d for d in range(len(shape) - 1) if d != axis), axis, len(shape) - 1]
        shape = tuple([shape[d] for d in order])
        steps = [tuple([step[d] for d in order]) for step in steps]
    args: list[Any] = []
    how: list[str] = []
    kinds: list[DType | None] = []
    views = iter(zip(arrays, steps, strict=False))
    for position, x in enumerate(operands):
        kind = None if position < operation.plain else compute
        if not isinstance(x, Storage):
            args.append(number_for(x, compute))
            how.append(NUMBER)
            kinds.append(None)
            continue
        array, step = next(views)
        crosswise = None if axis is None else seen_crosswise(array, shape, step)
        word, view = crosswise or _seen(array, shape, step)
        args.append(view)
        how.append(word)
        kinds.append(conversion_of(array.dtype, kind))
    target = out.viewed(shape, steps[-1])
    formula = Formula(operation.function(compute), tuple(how), tuple(kinds))
    if axis is None:
        launch = _elementwise_launch(operation, args, target, compute, formula, disjoint=disjoint)
    else:
        launch = exchange_launch(operation, args, target, compute, formula, disjoint=disjoint)
    return shifted(launch, [_shift(x, view) for x, view in zip(operands, args, strict=False)])


def _as(x: Any, kind: DType) -> Any:
    """The same bytes as another dtype of the size."""
    return x.viewed(x.shape, x.strides, dtype=kind)


def _elementwise_launch(
    operation: Operation,
    args: Sequence[Any],
    out: Storage,
    compute: DType,
    formula: Formula,
    *,
    disjoint: bool,
) -> Launch:
    # What is written in place has been read already.
    streaming = disjoint and streams(out.nbytes, out.device.capabilities)
    lanes = 1
    if operation.takes_vectors(compute) or compute is dtypes.complex64:
        args, out, formula = _with_words(args, out, formula)
        lanes = _lanes(args, formula, out, streaming=streaming)
    full = [x for x, word in zip(args, formula.how, strict=True) if word in (FULL, PAIRS)]
    strided = any(_lies_crosswise(x) for x in full)
    chunk, rows, ndrange, workgroup = work_of(
        out.shape, lanes, out.device.capabilities, strided=strided
    )
    constants = {"FORMULA": formula, "SHARE": Share(lanes, chunk, rows, streaming)}
    launcher = elementwise[ndrange, workgroup]
    return repeatable(launcher, (tuple(args), out), constants, disjoint=disjoint)


def _with_words(
    args: Sequence[Any], out: Storage, formula: Formula
) -> tuple[Sequence[Any], Storage, Formula]:
    """Operands and result with complex numbers as words, where work-items are alone.

    Compilers make vectors of these, but few of pairs. Single precision alone has such words.
    """
    arrays = [
        (x, word) for x, word in zip(args, formula.how, strict=True) if isinstance(x, Storage)
    ]
    alone = out.device.capabilities.single_work_items
    fit = alone and out.dtype in (dtypes.complex64, dtypes.float32)
    fit = fit and any(word in _PAIRED for _, word in arrays)
    if not fit or not all(word == ROW or _are_pairs(x, word) for x, word in arrays):
        return args, out, formula
    how = tuple([_PAIRED.get(word, word) for word in formula.how])
    words = [
        _as(x, dtypes.uint64) if word in _PAIRED else x
        for x, word in zip(args, formula.how, strict=True)
    ]
    paired = out.dtype.is_complex
    made = _as(out, dtypes.uint64) if paired else out
    return words, made, replace(formula, how=how, in_words=paired)


def _are_pairs(x: Storage, word: str) -> bool:
    """Whether an operand is complex in single precision, with neighbours along the last axis."""
    beside = word in _PAIRED and x.strides[-1] == x.dtype.itemsize
    return beside and x.dtype is dtypes.complex64


def _seen(x: Storage, shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[str, Storage]:
    """How the kernel takes an operand of these strides, and the view that it gets of it."""
    step, size = strides[-1], x.dtype.itemsize
    if step == 0:
        return ROW, x.viewed(shape[:-1], strides[:-1])
    if step == -size:
        start = x.offset + (shape[-1] - 1) * step
        return REVERSED, x.viewed(shape, (*strides[:-1], size), start)
    alone = x.device.capabilities.single_work_items
    if alone and step == 2 * size and shape[-1] > 1:
        return EVERY_OTHER, x.viewed((*shape[:-1], 2 * shape[-1] - 1), (*strides[:-1], size))
    return FULL, x.viewed(shape, strides)


def _shift(x: Any, view: Any) -> int:
    """How many bytes behind an operand the kernel's view of it begins."""
    return view.offset - x.offset if isinstance(x, Storage) else 0


def _lies_crosswise(x: Any) -> bool:
    """Whether neighbours in memory lie along another axis than the last."""
    step = abs(x.strides[-1])
    nearer = [abs(s) for s, n in zip(x.strides[:-1], x.shape[:-1], strict=True) if n > 1 and s]
    return bool(min(nearer, default=step) < step)


def _lanes(args: Sequence[Any], formula: Formula, out: Storage, *, streaming: bool) -> int:
    """How many neighbours the kernel takes at a time."""
    operands = [
        (x, word) for x, word in zip(args, formula.how, strict=True) if isinstance(x, Storage)
    ]
    results = [(out, PAIRS if formula.in_words else FULL)]
    beside = [x for x, word in (*operands, *results) if word in _BESIDE]
    if any(x.strides[-1] != x.dtype.itemsize for x in beside):
        return 1
    # Of words the halves are computed with, in vectors of their own.
    kinds = [
        dtypes.float32 if word in _PAIRED.values() else x.dtype for x, word in (*operands, *results)
    ]
    return vector_lanes(kinds, out.shape[-1], out.device.capabilities, streaming=streaming)
