"""What arrays have as methods: the namespace's functions, by NumPy's names.

The Array API has functions alone; people write ``x.sum(axis=0)`` and ``x.reshape(2, -1)``. Each
line of the table below makes a method of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from portable.array.functions import (
    elementwise,
    manipulation,
    running_totals,
    searching,
    sorting,
    statistics,
)
from portable.array.functions.diagonals import diagonal, trace
from portable.array.functions.products import tensordot
from portable.errors import ShapeError
from portable.primitives.base.geometry import normalized_axis
from portable.primitives.base.storage import Storage

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
        return sorting.argsort(self, axis=axis, **options)

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
        return manipulation.repeat(self, repeats, axis=axis)

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
        self[...] = sorting.sort(self, axis=axis, **options)

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
