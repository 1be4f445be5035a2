"""A chain of element-wise functions, written down while a function of arrays runs on stand-ins.

It may end in reductions. What is done to their results is a chain of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Final, NoReturn

import numpy as np

from portable import dtypes
from portable import lang as kl
from portable.array.base import conversion
from portable.array.base.defaults import default_dtype
from portable.array.base.operations import OPERATIONS
from portable.array.base.operators import Operators
from portable.array.functions import elementwise, manipulation
from portable.array.fusion.fused_reduction_kernel import MOST_REDUCTIONS
from portable.backend import Device
from portable.dtypes import DType, bool_
from portable.errors import DeviceMismatchError, DTypeError, UnsupportedError
from portable.lang.namesakes import OTHERWISE_CALLED
from portable.primitives.base.operands import (
    accumulator,
    broadcast_shapes,
    highest,
    kind_of,
    lowest,
    normalized_axes,
    number_for,
    reduced_shape,
)
from portable.primitives.maps.work import Expression, Operation, conversion_of, conversion_to
from portable.primitives.reductions.merging import Merge


@dataclass(frozen=True, slots=True)
class Reduction:
    """One value that is merged.

    Attributes
    ----------
    value : int
        Its number among the values of a trace.
    merge : Merge
        How.
    is_mean : bool
        Whether the result is divided by the number of elements.
    result : DType
        Of the result.
    empty : bool
        Whether nothing has a result.
    """

    value: int
    merge: Merge
    is_mean: bool
    result: DType
    empty: bool = True


def _sum(x: Any) -> Reduction:
    x = _as_number(x)
    result = accumulator(x.dtype) if x.dtype.is_integer else x.dtype
    return Reduction(x.number, Merge(kl.add, accumulator(x.dtype), 0), False, result)


def _prod(x: Any) -> Reduction:
    x = _as_number(x)
    result = accumulator(x.dtype) if x.dtype.is_integer else x.dtype
    return Reduction(x.number, Merge(kl.multiply, accumulator(x.dtype), 1), False, result)


def _mean(x: Any) -> Reduction:
    if x.dtype.kind in "biu":
        x = x.record(conversion_to(x.trace.default("f")), (x,))
    return Reduction(x.number, Merge(kl.add, accumulator(x.dtype), 0), True, x.dtype)


def _best(x: Any, merge: Any, neutral: Callable[[DType], float]) -> Reduction:
    kind: DType = x.dtype
    if kind.kind not in "iuf":
        raise DTypeError(f"the least and the greatest are of real numbers, not {kind.name}")
    merged = Merge(merge, kind.register, neutral(kind))
    return Reduction(x.number, merged, False, kind, empty=False)


def _vote(x: Any, merge: Any, initial: bool) -> Reduction:
    if x.dtype is not bool_:
        x = x.record(OPERATIONS["not_equal"], (x, 0))
    return Reduction(x.number, Merge(merge, bool_, initial), False, bool_)


def _as_number(x: Any) -> Any:
    return x.record(conversion_to(dtypes.int64), (x,)) if x.dtype is bool_ else x


REDUCTIONS: Final[dict[str, Callable[[Any], Reduction]]] = {
    "all": lambda x: _vote(x, kl.bitwise_and, True),
    "any": lambda x: _vote(x, kl.bitwise_or, False),
    "max": lambda x: _best(x, kl.maximum, lowest),
    "mean": _mean,
    "min": lambda x: _best(x, kl.minimum, highest),
    "prod": _prod,
    "sum": _sum,
}
"""By name, what becomes of a traced value."""


def reduction(name: str, x: Any) -> Reduction:
    """The reduction of a traced value."""
    return REDUCTIONS[name](x)


Source = tuple[Any, ...]
"""An operand of a step: a value's number and what it becomes; or a constant, its type, None.

A complex constant is a pair of real ones.
"""
Step = tuple[Any, tuple[Source, ...], DType | None]
"""A function of the kernel language, its operands, and the narrow integers to wrap to, if any."""

_NARROW: Final = 4
_REDUCING: Final = {
    "add": "sum",
    "logical_and": "all",
    "logical_or": "any",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
}
"""What ``reduce`` of NumPy's functions is called."""

_SUMMING: Final = frozenset({"mean", "prod", "sum"})
"""The reductions that take a dtype to sum in."""

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "astype": manipulation.astype,
    "clip": elementwise.clip,
    "imag": elementwise.imag,
    "real": elementwise.real,
    "round": elementwise.round,
    "where": elementwise.where,
}
"""NumPy's functions that are none of its ufuncs."""

_SYNONYMS: Final = {"amax": "max", "amin": "min", "around": "round"}
_CAN: Final = (
    "a fused function computes element by element, and may end in all, any, max, mean, min, prod "
    "or sum; do that outside"
)


def _reduction_method(name: str) -> Callable[..., Any]:
    """The method of that name, whose parameters are in NumPy's order."""

    def summing(
        self: Traced,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        **others: Any,
    ) -> Traced:
        return self._reduced(name, axis, keepdims, dtype=dtype, out=out, **others)

    def choosing(
        self: Traced, axis: Any = None, out: Any = None, keepdims: bool = False, **others: Any
    ) -> Traced:
        return self._reduced(name, axis, keepdims, out=out, **others)

    method: Callable[..., Any] = summing if name in _SUMMING else choosing
    method.__name__ = method.__qualname__ = name
    return method


class Trace:
    """The steps so far; the values are the inputs, then the results of the steps.

    Parameters
    ----------
    device : Device
        Where the arrays are.

    Attributes
    ----------
    ranges : set of (int, DType)
        Which inputs are numbers that become integers, and of which dtype they have to be in range.
    reductions : list of Reduction
        Of values, in order.
    merged : (shape, axes) or None
        What is reduced, and along which axes.
    after : Trace or None
        What is done to the results of reductions, its inputs.
    """

    def __init__(self, device: Device, inputs: int = 0) -> None:
        self.device = device
        self.inputs = inputs
        self.reductions: list[Reduction] = []
        self.merged: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self.after: Trace | None = None
        self.steps: list[Step] = []
        self.ranges: set[tuple[int, DType]] = set()
        self.vector = True
        self._known: dict[Any, int] = {}

    def array(self, dtype: DType, shape: tuple[int, ...]) -> Traced:
        """What stands for an array given."""
        self.inputs += 1
        return Traced(self, self.inputs - 1, dtype, shape)

    def number(self, x: complex) -> Traced:
        """What stands for a Python number given, which is weak as promotion goes."""
        self.inputs += 1
        return Traced(self, self.inputs - 1, self.default(kind_of(x)), (), kind_of(x))

    def default(self, letter: str) -> DType:
        """The dtype in which numbers alone are computed."""
        return default_dtype(self.device, letter)

    def step(self, function: Any, sources: tuple[Source, ...], narrow: DType | None) -> int:
        """The number of the step's result; the same step is done once."""
        key = (function, tuple((type(s[0]), repr(s[0]), *s[1:]) for s in sources), narrow)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = self.inputs + len(self.steps)
            self.steps.append((function, sources, narrow))
        return number

    def reduced(self, name: str, x: Traced, axis: Any, keepdims: bool) -> Traced:
        """What stands for a reduction of one of the values."""
        axes = normalized_axes(axis, x.ndim)
        if self.merged not in (None, (x.shape, axes)):
            refuse(f"{name} along {axes} of shape {x.shape} beside others, {self.merged}")
        if len(self.reductions) >= MOST_REDUCTIONS:
            refuse(f"more than {MOST_REDUCTIONS} reductions")
        reduced = reduction(name, x)
        if not reduced.empty and 0 in (x.shape[a] for a in axes):
            raise ValueError(f"{name} of no elements, along axes {axes} of shape {x.shape}")
        self.merged = x.shape, axes
        self.after = self.after or Trace(self.device, MOST_REDUCTIONS)
        self.reductions.append(reduced)
        shape = reduced_shape(x.shape, axes, keepdims)
        return Traced(self.after, len(self.reductions) - 1, reduced.result, shape)


def refuse(what: str, error: type[Exception] = UnsupportedError) -> NoReturn:
    """Raises for what fused functions cannot do, and names the place in the user's function."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    location = f"{frame.f_code.co_filename}:{frame.f_lineno}: " if frame is not None else ""
    raise error(f"{location}{what}: {_CAN}")


def _is_library(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in ("array_api_compat", "numpy", "portable")


class Traced(Operators, Expression):
    """Stands for an array, or a number, inside a function that is being fused.

    Attributes
    ----------
    trace : Trace
        What it is a value of.
    number : int
        Which.
    dtype : DType
        Of its elements.
    shape : tuple of int
        Extents.
    weak : str
        The kind of a Python number; empty for arrays.
    """

    __slots__ = ("device", "dtype", "number", "shape", "trace", "weak")

    def __init__(
        self, trace: Trace, number: int, dtype: DType, shape: tuple[int, ...], weak: str = ""
    ) -> None:
        self.trace = trace
        self.device = trace.device
        self.number = number
        self.dtype = dtype
        self.shape = shape
        self.weak = weak

    def __repr__(self) -> str:
        return f"<stands for {self.dtype.name} of shape {self.shape} in a fused function>"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        return conversion.namespace(api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's functions by the Array API's names."""
        if method == "reduce" and ufunc.__name__ in _REDUCING:
            return self._reduced(_REDUCING[ufunc.__name__], options.pop("axis", 0), **options)
        operation = OPERATIONS.get(OTHERWISE_CALLED.get(ufunc.__name__, ufunc.__name__))
        if operation is None or method != "__call__" or options:
            refuse(f"numpy.{ufunc.__name__}{'' if method == '__call__' else '.' + method}")
        plain = tuple(x.item() if isinstance(x, np.generic) else x for x in inputs)
        return self.record(operation, plain)

    def __array_function__(self, function: Any, _types: Any, args: Any, options: Any) -> Any:
        """NumPy's other functions: a few element-wise ones, and reductions."""
        name = _SYNONYMS.get(function.__name__, function.__name__)
        if name in REDUCTIONS:
            return getattr(Traced, name)(*args, **options)
        if name not in _FUNCTIONS:
            refuse(f"numpy.{function.__name__}")
        return _FUNCTIONS[name](*args, **options)

    def reduce(self, name: str, axis: Any, dtype: Any, keepdims: bool) -> Traced:
        """What stands for the result of a reduction, which is the last thing to be done."""
        if name not in REDUCTIONS:
            refuse(name)
        return self._reduced(name, axis, keepdims, dtype=dtype)

    def _reduced(self, name: str, axis: Any, keepdims: bool = False, **others: Any) -> Traced:
        given = [k for k, x in others.items() if x is not None and x is not np._NoValue]
        if given:
            refuse(f"{name} with {', '.join(given)}")
        if self.weak:
            refuse(f"{name} of a number")
        return self.trace.reduced(name, self, axis, bool(keepdims))

    def _refused(self, *_: Any, **__: Any) -> Any:
        refuse("a value that is looked at, indexed or multiplied as a matrix")

    def __getattr__(self, name: str) -> Any:
        """Refuses what functions that are not element by element ask for, and other methods."""
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"x.{name}", AttributeError)

    all, any, max, mean, min, prod, sum = map(_reduction_method, sorted(REDUCTIONS))

    astype = manipulation.astype
    clip = elementwise.clip
    conj = conjugate = elementwise.conj
    real = property(elementwise.real)
    imag = property(elementwise.imag)

    def _decides(self) -> bool:
        refuse("a value that if, while, and, or or not looks at (write np.where(condition, a, b))")

    __bool__ = _decides
    __int__ = __float__ = __complex__ = __index__ = _refused
    __getitem__ = __setitem__ = __iter__ = __len__ = __array__ = _refused
    __matmul__ = __rmatmul__ = _refused

    def __hash__(self) -> int:
        return id(self)

    def record(self, operation: Operation, operands: tuple[Any, ...]) -> Traced:
        """What stands for the operation's result."""
        self._check(operation, operands)
        shape = broadcast_shapes([x.shape for x in operands if isinstance(x, Traced)])
        strong = [x for x in operands[operation.plain :] if isinstance(x, Traced) and not x.weak]
        weak = "" if strong or operation.fixed else _joint_letter(operands[operation.plain :])
        described = [_described(x) for x in operands]
        if weak:
            if weak in "bi" and not set(operation.kinds) & set("bi"):
                weak = "f"
            described[operation.plain] = self.trace.default(weak)
        double = self.device.capabilities.float64
        compute, result = operation.types(described, double=double)
        sources = tuple(
            _source(x, compute if position >= operation.plain else None)
            for position, x in enumerate(operands)
        )
        narrow = result if result.is_integer and result.itemsize < _NARROW else None
        trace = self.trace
        trace.vector &= operation.takes_vectors(compute)
        number = trace.step(operation.function(compute), sources, narrow)
        still_weak = weak and all(isinstance(x, Traced) and x.weak for x in operands if _is(x))
        return Traced(trace, number, result, shape, result.kind if still_weak else "")

    def _check(self, operation: Operation, operands: Sequence[Any]) -> None:
        for x in operands:
            if isinstance(x, Traced) and x.trace is not self.trace:
                if self.trace is x.trace.after or x.trace is self.trace.after:
                    refuse(f"{operation.name} of what is reduced and what is not")
                raise DeviceMismatchError("a value of one fused call is used in another")
            if not isinstance(x, Traced | int | float | complex):
                raise TypeError(
                    f"{operation.name} in a fused function takes its arguments and Python numbers, "
                    f"not {type(x).__module__}.{type(x).__qualname__}; pass arrays as arguments"
                )


def _is(x: Any) -> bool:
    return isinstance(x, Traced)


def _described(x: Any) -> DType | str:
    if isinstance(x, Traced):
        return x.weak or x.dtype
    return kind_of(x)


def _joint_letter(operands: Sequence[Any]) -> str:
    """The kind of Python numbers together."""
    letters = [x.weak if isinstance(x, Traced) else kind_of(x) for x in operands]
    return max(letters, key="bifc".index)


def _source(x: Any, compute: DType | None) -> Source:
    if not isinstance(x, Traced):
        kind = compute or dtypes.bool_
        stored = number_for(x, kind).item()
        if kind.is_complex:
            return (stored.real, stored.imag), kind, None
        return stored, kind.register, None
    if compute is not None and x.weak:
        if compute.is_integer and x.number < x.trace.inputs:
            x.trace.ranges.add((x.number, compute))
        return x.number, None if x.dtype is compute else _register(compute)
    if x.dtype is dtypes.float64 and compute is dtypes.float16:
        return x.number, compute  # there is no store to round it
    return x.number, conversion_of(x.dtype, compute)


def _register(kind: DType) -> DType:
    return kind if kind.is_complex else kind.register
