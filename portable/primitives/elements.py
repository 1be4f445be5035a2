"""Elements that are structs: each of their fields is an array's.

An array holds elements of its dtype; a tuple or struct of arrays of one shape, elements that are
tuples or structs of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from portable import dtypes
from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import DTypeError, ShapeError
from portable.lang.arguments.structs import declared_types, instance, is_composite, items_of, label
from portable.lang.function import function
from portable.namespace import device_of_arrays
from portable.primitives.base.borrowed import released, stored
from portable.primitives.base.storage import Storage


@dataclass(frozen=True)
class Elements:
    """Arrays of one device and shape whose elements belong together.

    Attributes
    ----------
    arrays : tuple of Storage
        One per field.
    kind : type or None
        What an element is: a struct's class, ``tuple``, or None for a number.
    """

    arrays: tuple[Storage, ...]
    kind: Any

    @classmethod
    def of(cls, name: str, given: Any) -> Elements:
        """What a user gave to a function of a name.

        Raises
        ------
        TypeError
            If something in it is no array.
        DeviceMismatchError
            If the arrays are of different devices.
        ShapeError
            If their shapes differ.
        """
        kind = type(given) if is_composite(type(given)) else None
        fields = (given,) if kind is None else items_of(given)
        device = device_of_arrays(*fields)
        arrays = tuple(stored(device, x) for x in fields)
        for position, x in enumerate(arrays):
            if x.shape != arrays[0].shape:
                raise ShapeError(
                    f"{name} takes arrays of one shape; x{label(kind, 0)} has {arrays[0].shape}, "
                    f"x{label(kind, position)} {x.shape}"
                )
        return cls(arrays, kind)

    @property
    def device(self) -> Device:
        """Where they live."""
        return self.arrays[0].device

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each."""
        return self.arrays[0].shape

    @property
    def only(self) -> Storage:
        """The array, if there is one."""
        return self.arrays[0]

    def given(self) -> Any:
        """The libraries' arrays, in a struct or tuple if there are several."""
        return _joined(self.kind, [released(x) for x in self.arrays])


def _joined(kind: Any, items: Sequence[Any]) -> Any:
    return items[0] if kind is None else instance(kind, tuple(items))


def typed(x: Any, like: DType) -> Any:
    """A number, or a tuple or struct of numbers, as NumPy's scalars.

    A struct's fields that are annotated by dtypes have these. Else Python's integers become
    `int64`, its floats and complex numbers those of `like`'s precision.

    Raises
    ------
    DTypeError
        For what is no number, or none of its field's dtype.
    """
    kind = type(x)
    if is_composite(kind):
        declared = declared_types(kind) if kind is not tuple else {}
        items = []
        for position, item in enumerate(items_of(x)):
            name = label(kind, position)
            wanted = declared.get(name[1:])
            if isinstance(wanted, DType):
                items.append(_as_declared(item, wanted, kind.__name__ + name))
            else:
                items.append(typed(item, like))
        return instance(kind, tuple(items))
    if isinstance(x, np.generic):
        return x
    if isinstance(x, bool):
        return np.bool_(x)
    if isinstance(x, int):
        return np.int64(x)
    wide = (like.itemsize == 8 and not like.is_complex) or like is dtypes.complex128
    if isinstance(x, float):
        return np.float64(x) if wide else np.float32(x)
    if isinstance(x, complex):
        return np.complex128(x) if wide else np.complex64(x)
    raise DTypeError(f"a total is made of numbers, not of {type(x).__name__} {x!r}")


def _as_declared(x: Any, wanted: DType, name: str) -> Any:
    """A number as a NumPy scalar of the dtype that its field is annotated by."""
    try:
        made = wanted.numpy.type(x)
        if made == x or not wanted.is_integer:
            return made
    except (TypeError, ValueError, OverflowError):
        pass
    raise DTypeError(f"{name} is annotated as {wanted}, and {x!r} is no number of that type")


def kinds_of(x: Any) -> tuple[Any, tuple[DType, ...]]:
    """What a total of NumPy's scalars is, as `Elements.kind`, and the dtypes of its fields."""
    if not is_composite(type(x)):
        return None, (dtypes.dtype(x.dtype),)
    for position, item in enumerate(items_of(x)):
        if is_composite(type(item)):
            raise DTypeError(
                f"the field {label(type(x), position)} of a {type(x).__name__} is a "
                f"{type(item).__name__}; elements in memory have fields that are numbers"
            )
    return type(x), tuple(dtypes.dtype(item.dtype) for item in items_of(x))


# -- in kernels -------------------------------------------------------------------------------


@function
def element_at(arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], KIND: Any) -> Any:
    """The element at an index: a number, or a struct or tuple of one from each array."""
    return made_of([array[*index] for array in arrays], KIND)


@function
def made_of(items: Any, KIND: Any) -> Any:
    """The element of a number from each array."""
    if KIND is None:
        return items[0]
    return items if KIND is tuple else KIND(*items)


@function
def put_neighbours(
    arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], values: Any, KIND: Any
) -> None:
    """Writes elements side by side along the last axis, as a vector of each field."""
    items = [(value,) if KIND is None else fields_of(value, KIND) for value in values]
    for k in kl.static_range(len(arrays)):
        row = kl.vector(*[item[k] for item in items])
        kl.vstore(arrays[k], *index, kl.cast(row, arrays[k].dtype))


@function
def put_at(
    arrays: tuple[kl.Array, ...], index: tuple[kl.Scalar, ...], value: Any, KIND: Any
) -> None:
    """Writes it."""
    if KIND is None:
        arrays[0][*index] = value
    else:
        items = fields_of(value, KIND)
        for k in kl.static_range(len(arrays)):
            arrays[k][*index] = items[k]


@function
def fields_of(value: Any, KIND: Any) -> Any:
    """The fields of a struct, or the items of a tuple."""
    return tuple(value) if issubclass(KIND, tuple) else astuple(value)
