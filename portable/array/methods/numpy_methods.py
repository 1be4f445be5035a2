"""What arrays have as methods: the namespace's functions, by NumPy's names.

The Array API has functions alone; people write ``x.sum(axis=0)`` and ``x.reshape(2, -1)``. Each
line of the table below makes a method of a function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

import numpy as np

from portable import dtypes, recording
from portable.absent_names import NUMERICS
from portable.array.base import conversion
from portable.array.base.operations import OPERATIONS, apply
from portable.array.functions import (
    elementwise,
    joining,
    manipulation,
    running_totals,
    searching,
    statistics,
)
from portable.array.functions.diagonals import diagonal, trace
from portable.array.functions.products import tensordot
from portable.errors import ShapeError, UnsupportedError
from portable.lang.namesakes import OTHERWISE_CALLED
from portable.primitives.base.operands import normalized_axis
from portable.primitives.base.storage import Storage

# NumPy's functions of arrays that live on devices, by this package's functions and methods.
#
# ``np.sqrt(x)`` and ``np.sum(x, axis=0)`` find an array's own functions through the protocols of
# NumPy's NEP 13 and NEP 18, as they do for CuPy's arrays. What has no equal here, and what would
# mix arrays of the host with those of a device, raises a TypeError that says what to do; nothing is
# copied to the host unasked.

_OPERANDS: Final = (Storage, int, float, complex)
_ATTRIBUTES: Final = ("imag", "ndim", "real", "shape", "size")
_METHODS: Final = (
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "clip",
    "cumprod",
    "cumsum",
    "diagonal",
    "dot",
    "max",
    "mean",
    "min",
    "prod",
    "ravel",
    "repeat",
    "reshape",
    "round",
    "squeeze",
    "std",
    "sum",
    "swapaxes",
    "take",
    "trace",
    "transpose",
    "var",
)
"""Functions that arrays have as methods with NumPy's parameters, not the standard's."""
_SYNONYMS: Final = {"amax": "max", "amin": "min", "around": "round", "concatenate": "concat"}
_DO: Final = (
    "portable.array and portable.numerics have functions of such arrays, "
    "portable.to_numpy(x) makes NumPy's of them, and portable.array.implements registers your own"
)


_registered: Final[dict[Any, Callable[..., Any]]] = {}

_F = TypeVar("_F", bound=Callable[..., Any])


def implements(function: Callable[..., Any]) -> Callable[[_F], _F]:
    """Marks a function as what one of NumPy's does to arrays of `portable.array`.

    It takes the arguments that NumPy's was given, and comes before what these arrays do otherwise.
    (NumPy calls functions so by its NEP 18, ufuncs by NEP 13.)

    Parameters
    ----------
    function : function or ufunc
        Of NumPy, such as ``numpy.nanmax``.

    Returns
    -------
    decorator
        Which gives the function that it marks back.

    Raises
    ------
    TypeError
        If NumPy calls nothing in its place.

    Examples
    --------
    >>> import numpy as np
    >>> import portable.array as xp
    >>> @xp.implements(np.ptp)
    ... def spread(x, axis=None):
    ...     return xp.max(x, axis=axis) - xp.min(x, axis=axis)
    """
    if not isinstance(function, np.ufunc) and not hasattr(function, "_implementation"):
        raise TypeError(f"{function!r} is no function of NumPy's that others may implement")

    def register(implementation: _F) -> _F:
        _registered[function] = implementation
        return implementation

    return register


class NumPyFunctions:
    """What NumPy asks of arrays that are given to its functions, and to operators beside its own.

    For a class with the attributes and methods of `portable.array.Array`.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """One of NumPy's element-wise functions, its operators among them."""
        if method == "__call__" and ufunc in _registered:
            return _registered[ufunc](*inputs, **options)
        name = f"numpy.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        operands = tuple(x.item() if isinstance(x, np.generic) else x for x in inputs)
        for x in (*operands, *options.get("out", ())):
            if isinstance(x, np.ndarray):
                raise TypeError(_mixed(name, self))
        if not all(isinstance(x, _OPERANDS) for x in operands):
            return NotImplemented
        if method == "__call__" and options.keys() == {"dtype"} and options["dtype"] is not None:
            wanted = options.pop("dtype")
            operands = tuple(x.astype(wanted) if hasattr(x, "astype") else x for x in operands)
        if method == "__call__" and not options:
            if ufunc is np.matmul:
                return _namespace("numpy").matmul(*operands)
            operation = OPERATIONS.get(OTHERWISE_CALLED.get(ufunc.__name__, ufunc.__name__))
            if operation is not None:
                return apply(operation, *operands)
        raise TypeError(_missing(name, self, options))

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        """Another of NumPy's functions."""
        if not all(issubclass(t, Storage | np.ndarray) for t in types):
            return NotImplemented
        if function in _registered:
            return _registered[function](*args, **options)
        name = f"{function.__module__}.{function.__name__}"
        ours = _found(function, args)
        if ours is None or not _takes(ours, args, options):
            raise TypeError(_missing(name, self, options))
        return ours(*args, **options)


def _namespace(module: str) -> Any:
    """Where the functions of one of NumPy's modules are here."""
    namespace: Any = conversion.namespace(None)
    for part in module.split(".")[1:]:
        namespace = getattr(namespace, part, None)
    return namespace


def _found(function: Any, args: Any) -> Callable[..., Any] | None:
    """What does the same to arrays of this package; None if there is nothing."""
    name = _SYNONYMS.get(function.__name__, function.__name__)
    if function.__module__ == "numpy" and args and isinstance(args[0], Storage):
        if name in _ATTRIBUTES:
            return lambda x: getattr(x, name)
        if name == "transpose":
            return lambda a, axes=None: a.transpose(axes)
        if name in _METHODS:
            return getattr(type(args[0]), name, None)
    space = _namespace(function.__module__)
    return getattr(space, name, None) if name in getattr(space, "__all__", ()) else None


def _takes(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a function, or a method that hands its options on, has parameters for these."""
    declared, whole = inspect.signature(function, follow_wrapped=False), inspect.signature(function)
    try:
        declared.bind(*args, **options)
    except TypeError:
        return False
    return options.keys() <= {*declared.parameters, *whole.parameters}


def _mixed(name: str, x: Any) -> str:
    """What cannot be done for arrays in two places, and what can."""
    return (
        f"{name} of an array of {x.device.name} and one of NumPy's, on the host: bring them to one "
        f"place, by portable.asarray(y, device={x.device.name!r}) or portable.to_numpy(x)"
    )


def _missing(name: str, x: Any, options: Any) -> str:
    """What cannot be done, and what can."""
    given = f" with {', '.join(options)}" if options else ""
    word = name.rpartition(".")[2]
    instead = f"use portable.numerics.{word}; " if word in NUMERICS else ""
    why = f"is not among NumPy's functions of arrays of {x.device.name}"
    return f"{name}{given} {why}; {instead}{_DO}"


# -- numpy methods ---------------------------------------------------------------------------------

Method = Callable[..., Any]


def _along(function: Method) -> Method:
    """A method that takes the axis by position, too."""

    @wraps(function)
    def method(self: Any, axis: Any = None, **options: Any) -> Any:
        return function(self, axis=axis, **options)

    return method


def _spread(function: Method) -> Method:
    """`_along`, with NumPy's ``ddof`` for the standard's ``correction``."""

    @wraps(function)
    def method(self: Any, axis: Any = None, *, ddof: float = 0, **options: Any) -> Any:
        return function(self, axis=axis, **{"correction": ddof, **options})

    return method


def _running(function: Method) -> Method:
    """`_along`, of all elements in C order where no axis is named."""

    @wraps(function)
    def method(self: Any, axis: int | None = None, **options: Any) -> Any:
        x = manipulation.reshape(self, (-1,)) if axis is None else self
        return function(x, axis=0 if axis is None else axis, **options)

    return method


def _extents(given: tuple[Any, ...]) -> Any:
    """Extents or axes, given as one tuple or one by one."""
    return given[0] if len(given) == 1 else given


class Methods:
    """NumPy's methods of arrays, for a class that has the Array API's attributes."""

    __slots__ = ()

    all = _along(statistics.all)
    any = _along(statistics.any)
    argmax = _along(searching.argmax)
    argmin = _along(searching.argmin)
    max = _along(statistics.max)
    mean = _along(statistics.mean)
    min = _along(statistics.min)
    prod = _along(statistics.prod)
    sum = _along(statistics.sum)
    std = _spread(statistics.std)
    var = _spread(statistics.var)
    cumprod = _running(running_totals.cumulative_prod)
    cumsum = _running(running_totals.cumulative_sum)

    astype = manipulation.astype
    clip = elementwise.clip
    conj = elementwise.conj
    conjugate = elementwise.conj
    copy = manipulation.copied
    diagonal = diagonal
    nonzero = searching.nonzero
    searchsorted = searching.searchsorted
    trace = trace

    @property
    def real(self: Any) -> Any:
        """The real part: a view of complex numbers, the array itself of real ones."""
        return elementwise.real(self)

    @property
    def imag(self: Any) -> Any:
        """The imaginary part of complex numbers, a view."""
        return elementwise.imag(self)

    def argsort(self: Any, axis: int = -1, **options: Any) -> Any:
        """The places of the elements in ascending order; equal ones keep their order."""
        return searching.argsort(self, axis=axis, **options)

    def dot(self: Any, other: Any) -> Any:
        """The sum of products over the last axis and the last but one of `other`, or its only."""
        if not isinstance(other, Storage) or 0 in (self.ndim, other.ndim):
            return self * other
        return tensordot(self, other, axes=((-1,), (-min(other.ndim, 2),)))

    def fill(self: Any, value: complex) -> None:
        """Makes every element the value."""
        self[...] = value

    def flatten(self: Any) -> Any:
        """A copy of the elements in C order, in one dimension."""
        return manipulation.reshape(self, (-1,), copy=True)

    def item(self: Any, *place: int) -> Any:
        """The one element, or that at a place, as a Python number; waits for the device."""
        x = self[place] if place else self
        if x.size != 1:
            raise ShapeError(f"item() of an array of shape {x.shape}; name one element")
        return x.device.to_numpy(x).item()

    def ravel(self: Any) -> Any:
        """The elements in C order in one dimension, a view where the strides allow it."""
        return manipulation.reshape(self, (-1,))

    def repeat(self: Any, repeats: Any, axis: int | None = None) -> Any:
        """Each element several times; of all elements in C order where no axis is named."""
        return joining.repeat(self, repeats, axis=axis)

    def reshape(self: Any, *shape: Any, copy: bool | None = None) -> Any:
        """The elements in C order in another shape, given as a tuple or one by one."""
        return manipulation.reshape(self, _extents(shape), copy=copy)

    def round(self: Any, decimals: int = 0) -> Any:
        """Each element rounded to so many decimals, halves to even."""
        if not decimals or (self.dtype.is_integer and decimals > 0):
            return elementwise.round(self)
        factor = 10.0**decimals
        return elementwise.round(self * factor) / factor

    def sort(self: Any, axis: int = -1, **options: Any) -> None:
        """Puts the elements along an axis in ascending order, in place."""
        self[...] = searching.sort(self, axis=axis, **options)

    def squeeze(self: Any, axis: int | tuple[int, ...] | None = None) -> Any:
        """A view without dimensions of extent 1: those named, or all."""
        ones = tuple(a for a, n in enumerate(self.shape) if n == 1)
        return manipulation.squeeze(self, ones if axis is None else axis)

    def swapaxes(self: Any, first: int, second: int) -> Any:
        """A view in which two dimensions have changed places."""
        order = list(range(self.ndim))
        i, j = (normalized_axis(a, self.ndim) for a in (first, second))
        order[i], order[j] = order[j], order[i]
        return manipulation.permute_dims(self, tuple(order))

    def take(self: Any, indices: Any, axis: int | None = None) -> Any:
        """The elements at some places along an axis; of all in C order where none is named."""
        x = manipulation.reshape(self, (-1,)) if axis is None else self
        return searching.take(x, indices, axis=0 if axis is None else axis)

    def tolist(self: Any) -> Any:
        """The elements as nested lists of Python's numbers; waits for the device."""
        return self.device.to_numpy(self).tolist()

    def transpose(self: Any, *axes: Any) -> Any:
        """A view with the dimensions in another order, the reverse one if none is given."""
        order = _extents(axes) if axes and axes != (None,) else range(self.ndim)[::-1]
        return manipulation.permute_dims(self, tuple(order))

    def view(self: Any, dtype: Any = None) -> Any:
        """The same memory, its bits taken for those of another dtype.

        Where that is of another size, so is the extent of the last axis, whose elements lie
        together.
        """
        kind = self.dtype if dtype is None else dtypes.dtype(dtype)
        old, new = self.dtype.itemsize, kind.itemsize
        if recording.active and recording.current() is not None and kind is not self.dtype:
            raise UnsupportedError("bits taken for those of another dtype have no gradient")
        if old == new:
            return self.viewed(self.shape, self.strides, dtype=kind)
        if not self.shape or (self.shape[-1] != 1 and self.strides[-1] != old):
            raise ShapeError(f"view as {kind} of an array whose last axis has gaps; copy it first")
        extent, places = self.shape[-1] * old, (self.offset, *self.strides[:-1])
        if extent % new or (self.size and any(place % new for place in places)):
            raise ShapeError(f"view as {kind}: rows of {extent} bytes do not hold whole ones")
        shape, strides = (*self.shape[:-1], extent // new), (*self.strides[:-1], new)
        return self.viewed(shape, strides, dtype=kind)
