"""The array object of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar, Self

from portable.array.base import conversion
from portable.array.base.operations import OPERATIONS
from portable.array.base.operators import Operators
from portable.array.functions import manipulation, products
from portable.array.methods import indexing
from portable.array.methods.numpy_methods import Methods, NumPyFunctions
from portable.errors import ShapeError
from portable.primitives.base.storage import Storage

Index = Any
"""An integer, slice, ``...``, None, an array of integers or bools, or a tuple of them."""


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    """The method of an operator that writes to the array."""
    operation = OPERATIONS[name]
    return lambda self, other, /: indexing.updated(operation, self, other)


class Array(Operators, Methods, NumPyFunctions, Storage):
    """An array of a device, as the Array API describes it.

    Made by `portable.xp` and its functions, which it also has as methods, by NumPy's names. Slices
    are views: they share memory with what they were taken from. Work is queued on the device;
    printing, ``int(x)``, ``bool(x)`` and `portable.to_numpy` wait for it. `copy.copy` copies the
    elements on the device, `pickle` through the host.
    """

    __slots__ = ()

    new: ClassVar[type[Array]]

    def __setattr__(self, name: str, value: object, /) -> None:
        raise AttributeError(
            f"{name} of an array cannot be set; reshape, astype and to_device give other arrays"
        )

    # -- what it is ------------------------------------------------------------------------

    @property
    def T(self) -> Array:  # noqa: N802  (the Array API's name)
        """The transpose of a matrix, a view."""
        if len(self.shape) != 2:
            raise ShapeError(
                f"T takes a matrix, not an array of shape {self.shape}; see mT and transpose()"
            )
        return products.matrix_transpose(self)

    @property
    def mT(self) -> Array:  # noqa: N802  (the Array API's name)
        """The transposes of the matrices in the last two dimensions, a view."""
        return products.matrix_transpose(self)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The namespace of functions on such arrays."""
        return conversion.namespace(api_version)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on another device; itself where it is there already."""
        return conversion.to_device(self, device, stream)

    def __repr__(self) -> str:
        return conversion.text(self)

    def __str__(self) -> str:
        return conversion.elements(self)

    def _repr_html_(self) -> str:
        """For notebooks: what it is, and its elements."""
        return conversion.in_html(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no len()")
        return self.shape[0]

    # -- conversions, which wait for the device ----------------------------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(
            f"an array of {self.device.name} is not copied to the host unasked; use "
            "portable.to_numpy(x)"
        )

    def __bool__(self) -> bool:
        return bool(conversion.item(self, "bool"))

    def __int__(self) -> int:
        return int(conversion.item(self, "int"))

    def __float__(self) -> float:
        return float(conversion.item(self, "float"))

    def __complex__(self) -> complex:
        return complex(conversion.item(self, "complex"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError(f"an index is an integer, not a {self.dtype.name} array")
        return int(conversion.item(self, "index"))

    def __format__(self, spec: str, /) -> str:
        if self.shape:
            return object.__format__(self, spec)  # which takes no `spec`, as NumPy's arrays do
        return format(conversion.item(self, "format"), spec)

    cpu = get = numpy = tobytes = conversion.Elsewhere("portable.to_numpy(x) gives NumPy's array")
    to = cuda = conversion.Elsewhere("portable.asarray(x, device=...) gives it on a device")
    block_until_ready = conversion.Elsewhere("portable.synchronize() waits for the device")
    backward = grad = conversion.Elsewhere("portable.Tape records, and gives gradients")

    def __copy__(self) -> Array:
        return manipulation.copied(self)

    def __deepcopy__(self, memo: Any, /) -> Array:
        return manipulation.copied(self)

    def __reduce__(self) -> Any:
        return conversion.restored, (self.device, self.device.to_numpy(self))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return conversion.dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return conversion.dlpack_device(self)

    # -- elements --------------------------------------------------------------------------

    def __getitem__(self, key: Index, /) -> Array:
        return indexing.get(self, key)

    def __setitem__(self, key: Index, value: Any, /) -> None:
        indexing.put(self, key, value)

    def __contains__(self, value: Any, /) -> bool:
        equal = self == value
        return equal is not False and bool(equal.any())  # False for what is no number, as `None`

    # Without it Python would iterate by __getitem__ until an IndexError, for 0-d arrays too.
    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("an array without dimensions cannot be iterated over")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self) -> int:
        raise TypeError("arrays can change, so they have no hash")

    # -- products of matrices --------------------------------------------------------------------

    def __matmul__(self, other: Any, /) -> Any:
        return products.matmul(self, other) if isinstance(other, Storage) else NotImplemented

    def __rmatmul__(self, other: Any, /) -> Any:
        return products.matmul(other, self) if isinstance(other, Storage) else NotImplemented

    # -- operators in place ----------------------------------------------------------------

    __iadd__ = _in_place("add")
    __isub__ = _in_place("subtract")
    __imul__ = _in_place("multiply")
    __itruediv__ = _in_place("divide")
    __ifloordiv__ = _in_place("floor_divide")
    __imod__ = _in_place("remainder")
    __ipow__ = _in_place("pow")
    __iand__ = _in_place("bitwise_and")
    __ior__ = _in_place("bitwise_or")
    __ixor__ = _in_place("bitwise_xor")
    __ilshift__ = _in_place("bitwise_left_shift")
    __irshift__ = _in_place("bitwise_right_shift")

    def __imatmul__(self, other: Any, /) -> Self:
        indexing.put(self, ..., self @ other)
        return self


class _New(Array):
    """An array while it is made: only then are its attributes set, as fast as Python can."""

    __slots__ = ()

    __setattr__ = object.__setattr__


Array.new, Array.finished = _New, Array
