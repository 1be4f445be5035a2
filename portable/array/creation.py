"""The creation functions of the Array API."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from portable import dtypes, registry
from portable import lang as kl
from portable.array.engine import apply
from portable.array.manipulation import astype, copied
from portable.backend import Device
from portable.dtypes import DType, complex64, float32
from portable.errors import DTypeError, ShapeError, UnsupportedError
from portable.primitives.base.geometry import whole_numbers
from portable.primitives.base.promotion import kind_of
from portable.primitives.base.recipe import Launch, Plans, Recipe, repeatable
from portable.primitives.base.storage import Storage
from portable.primitives.maps.elementwise_kernel import Share
from portable.primitives.maps.engine import check_arrays, check_operands
from portable.primitives.maps.operation import Operation
from portable.primitives.maps.work import vector_lanes, work_of
from portable.primitives.moves.copying import copy_in
from portable.primitives.moves.triangle_kernels import ABOVE, BELOW, ON, triangle

if TYPE_CHECKING:
    from portable.array.array import Array

__all__ = [
    "asarray",
    "default_dtype",
    "device_for",
    "dtype_for",
    "empty",
    "empty_like",
    "eye",
    "filling",
    "from_dlpack",
    "full",
    "full_like",
    "is_ours",
    "meshgrid",
    "number_of",
    "ones",
    "ones_like",
    "shape_of",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def device_for(device: Any) -> Device:
    """The device that creation functions use.

    None means the one in use if its arrays are of this kind, else the first found whose are.
    """
    chosen = registry.device(device)
    found = _ours_of(chosen)
    if found is not None:
        return found
    if device is not None:
        name = chosen.for_arrays().name
        raise UnsupportedError(f"{name} has arrays of its own; use portable.xp({name!r}) for them")
    return _first_found()


@cache
def _ours_of(device: Device) -> Device | None:
    """The device for arrays of `portable.array`, if it has such."""
    found = device.for_arrays()
    return found if is_ours(found) else None


def is_ours(device: Device) -> bool:
    """Whether a device's arrays are those of `portable.array`."""
    return getattr(device.namespace(), "__name__", "") == "portable.array"


@cache
def _first_found() -> Device:
    for device in registry.devices():
        if is_ours(device):
            return device
    raise UnsupportedError("no OpenCL device was found: pip install 'portable-arrays[cpu]'")


def default_dtype(device: Device, letter: str) -> DType:
    """The dtype of Python numbers on a device, whose floats may be single at most."""
    kind = {"b": dtypes.bool_, "i": dtypes.int64, "f": dtypes.float64, "c": dtypes.complex128}[
        letter
    ]
    if device.capabilities.float64 or letter in "bi":
        return kind
    return float32 if letter == "f" else complex64


def dtype_for(device: Device, given: Any, letter: str = "f") -> DType:
    """A dtype that a user gave, or the device's default for a kind of numbers.

    Parameters
    ----------
    device : Device
        Where the array is to be.
    given : dtype or None
        What the user gave.
    letter : str
        The kind, as of `portable.dtypes.DType.kind`.

    Raises
    ------
    UnsupportedError
        If the device lacks it.
    """
    if given is None:
        return default_dtype(device, letter)
    kind = dtypes.dtype(given)
    if kind.real is dtypes.float64 and not device.capabilities.float64:
        raise UnsupportedError(
            f"{device.name} lacks double precision, so it has no {kind.name} arrays; use "
            "float32 or complex64"
        )
    return kind


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape that a user gave; ValueError for negative extents."""
    found = whole_numbers(shape)
    if any(n < 0 for n in found):
        raise ValueError(f"a shape has no negative extents: {found}")
    return found


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array with undefined contents.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    target = device_for(device)
    return target.empty(shape_of(shape), dtype_for(target, dtype))  # type: ignore[no-any-return]


def full(
    shape: int | tuple[int, ...], fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Array:
    """A new array of one value.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    fill_value : number or Array without dimensions
        The value.
    dtype : dtype, optional
        Of the elements; by default what the device has for numbers of this kind.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    target = device_for(device)
    value = number_of(fill_value)
    kind = dtype_for(target, _own_dtype(fill_value) if dtype is None else dtype, kind_of(value))
    if kind.kind in "biu" and isinstance(value, float | complex):
        raise DTypeError(f"full of {kind.name} by the number {value!r}; give an int")
    if kind.is_float and isinstance(value, complex):
        raise DTypeError(f"full of {kind.name} by the complex number {value!r}; give its real part")
    return _filled(target.empty(shape_of(shape), kind), value)


def number_of(x: Any) -> Any:
    """The Python number that a NumPy scalar or an array without dimensions stands for."""
    if isinstance(x, Storage):
        x = x.device.to_numpy(x)
    return x.item() if isinstance(x, np.generic | np.ndarray) else x


def _own_dtype(x: Any) -> Any:
    """The dtype of what has one and is no Python number besides."""
    return None if isinstance(x, int | float | complex) else getattr(x, "dtype", None)


@cache
def filling(kind: DType) -> Operation:
    """The operation that fills an array with a number."""
    return Operation("full", "biufc", kl.positive, fixed=kind)


def _filled(out: Array, value: complex) -> Array:
    return apply(filling(out.dtype), value, out=out)


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return _filled(empty(shape, dtype=dtype, device=device), 0)


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of ones.

    Parameters
    ----------
    shape : int or tuple of int
        Extents; a number stands for one dimension.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    return _filled(empty(shape, dtype=dtype, device=device), 1)


def empty_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """A new array of the shape and dtype of `x`, with undefined contents.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("empty_like", x)
    kind = x.dtype if dtype is None else dtype
    return empty(x.shape, dtype=kind, device=x.device if device is None else device)


def zeros_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Zeros of the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("zeros_like", x)
    return _filled(empty_like(x, dtype=dtype, device=device), 0)


def ones_like(x: Array, /, *, dtype: Any = None, device: Any = None) -> Array:
    """Ones of the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("ones_like", x)
    return _filled(empty_like(x, dtype=dtype, device=device), 1)


def full_like(x: Array, /, fill_value: complex, *, dtype: Any = None, device: Any = None) -> Array:
    """One value in the shape and dtype of `x`.

    Parameters
    ----------
    x : Array
        Whose shape to take.
    fill_value : number
        The value.
    dtype : dtype, optional
        Of the elements; by default that of `x`.
    device : Device or str, optional
        Where to; by default the device of `x`.
    """
    check_arrays("full_like", x)
    kind = x.dtype if dtype is None else dtype
    where_ = x.device if device is None else device
    return full(x.shape, fill_value, dtype=kind, device=where_)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Array:
    """Ones on the diagonal `k` above the main one, zeros elsewhere.

    Parameters
    ----------
    n_rows : int
        Rows.
    n_cols : int, optional
        Columns; by default as many.
    k : int
        Which diagonal; negative ones lie below the main one.
    dtype : dtype, optional
        Of the elements; by default the device's default for floats, `float64` where it has that.
    device : Device or str, optional
        Where to; by default the device in use.
    """
    columns = n_rows if n_cols is None else n_cols
    target = device_for(device)
    out = target.empty(shape_of((n_rows, columns)), dtype_for(target, dtype))
    if out.size:
        launch = _diagonal(target, out.shape, out.dtype)
        launch((None, out.buffer, None), (0, out.offset, 0), (None, None, _reachable(k, out)))
    return out  # type: ignore[no-any-return]


@lru_cache(maxsize=1024)
def _diagonal(device: Device, shape: tuple[int, ...], kind: DType) -> Launch:
    """The launch of `eye` for arrays alike."""
    lanes = vector_lanes((kind,), shape[1], device.capabilities)
    chunk, rows, ndrange, group = work_of(shape, lanes, device.capabilities, strided=False)
    constants = {"SIDE": ON, "SHARE": Share(lanes, chunk, rows, False)}
    args = (None, device.empty(shape, kind), 0)
    return repeatable(triangle[ndrange, group], args, constants, disjoint=True)


def _reachable(k: int, x: Array) -> int:
    """A diagonal as far out as `k`, for the matrices of `x`, and no farther than just outside."""
    return min(max(k, -x.shape[-2]), x.shape[-1])


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles, up to the diagonal `k`; zeros above it."""
    check_arrays("tril", x)
    return _triangle(x, k, BELOW)  # type: ignore[no-any-return]


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles, from the diagonal `k` on; zeros below it."""
    check_arrays("triu", x)
    return _triangle(x, k, ABOVE)  # type: ignore[no-any-return]


def _write_triangle(x: Any, k: int, side: str) -> Callable[..., Any]:
    """What `tril` and `triu` have to do for arrays like `x`."""
    if x.ndim < 2:
        raise ValueError(f"a triangle of an array of shape {x.shape}; it takes matrices")
    recipe = Recipe(x)
    out = recipe.empty(x.shape, x.dtype)
    if x.size:
        capabilities = x.device.capabilities
        neighbours = x.strides[-1] == x.dtype.itemsize
        lanes = vector_lanes((x.dtype,), x.shape[-1], capabilities) if neighbours else 1
        chunk, rows, ndrange, group = work_of(x.shape, lanes, capabilities, strided=not neighbours)
        how = {"SIDE": side, "SHARE": Share(lanes, chunk, rows, False)}
        recipe.launch(triangle, ndrange, group, x, out, _reachable(k, x), **how)
    return recipe.finish(out)


_triangle: Final = Plans(_write_triangle)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid: each 1-d array spread along the others' axes."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing={indexing!r}; meshgrid knows 'xy' and 'ij'")
    check_arrays("meshgrid", *arrays)
    if any(x.ndim > 1 for x in arrays):
        raise ShapeError(f"meshgrid takes vectors, not shapes {[x.shape for x in arrays]}")
    if not arrays:
        return []
    check_operands("meshgrid", arrays)
    found = _grid.run(arrays, indexing)
    return list(found) if len(arrays) > 1 else [found]


def _write_grid(arrays: tuple[Any, ...], indexing: str) -> Callable[..., Any]:
    """What `meshgrid` has to do for vectors like these."""
    ndim = len(arrays)
    order = list(range(ndim))
    if indexing == "xy" and ndim > 1:
        order[:2] = [1, 0]
    shape = tuple(arrays[i].size for i in order)
    recipe = Recipe(*arrays)
    spread = [
        x.viewed(shape, tuple(x.strides[0] if i == own and x.ndim else 0 for i in order))
        for own, x in enumerate(arrays)
    ]
    grids = [recipe.empty(shape, x.dtype) for x in arrays]
    copy_in(recipe, list(zip(spread, grids, strict=True)))
    return recipe.finish(*grids)


_grid: Final = Plans(_write_grid)


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Array:
    """`obj` as an array: an array of any library, a nested sequence, or a number.

    Parameters
    ----------
    obj : array, sequence or number
        What to take; other libraries' arrays are copied through the host.
    dtype, device
        What to convert to, and where.
    copy : bool, optional
        True: always a copy; False: never one; None: only where it is needed.

    Raises
    ------
    ValueError
        If `copy` is False and a copy is needed.
    OverflowError
        For integers that the dtype does not hold.
    DTypeError
        For what is no number, and complex numbers as real ones.
    """
    if isinstance(obj, Storage):
        return _from_ours(obj, dtype, device, copy)
    if copy is False:
        raise ValueError(
            f"asarray of a {type(obj).__name__} copies it to the device; leave out copy=False"
        )
    owner = device_for(device)
    host = _on_host(obj, None if dtype is None else dtypes.dtype(dtype))
    typed = isinstance(obj, np.ndarray | np.generic) or hasattr(obj, "__dlpack__")
    if dtype is not None:
        kind = dtype_for(owner, dtype)
    else:
        kind = dtypes.dtype(host.dtype)
        wide = kind.real is dtypes.float64 and not typed
        kind = default_dtype(owner, kind.kind) if wide else dtype_for(owner, kind)
    return owner.from_numpy(_converted(host, kind, None if typed else obj))  # type: ignore[no-any-return]


def _converted(host: np.ndarray[Any, Any], kind: DType, python: Any) -> np.ndarray[Any, Any]:
    """An array on the host in another dtype; Python's integers may not be out of range."""
    if host.dtype.kind == "c" and kind.kind in "iuf":
        raise DTypeError(f"asarray of complex numbers as {kind.name}; take their real parts")
    if python is not None and kind.is_integer and host.dtype != kind.numpy:
        return np.asarray(_plain(python), dtype=kind.numpy)
    with np.errstate(all="ignore"):
        return host.astype(kind.numpy, copy=False)


def _from_ours(x: Any, dtype: Any, device: Any, copy: bool | None) -> Array:
    target = x.device if device is None else device_for(device)
    kind = x.dtype if dtype is None else dtypes.dtype(dtype)
    moved, changed = target is not x.device, kind is not x.dtype
    if copy is False and (moved or changed):
        raise ValueError("asarray with copy=False cannot change the dtype or the device")
    if moved:
        x = x.to_device(target)
    if changed:
        return astype(x, kind)
    return copied(x) if copy and not moved else x


def _on_host(obj: Any, wanted: DType | None) -> np.ndarray[Any, Any]:
    if isinstance(obj, np.ndarray):
        return obj
    if hasattr(obj, "__dlpack__"):
        return _from_dlpack(obj)
    try:
        found = np.asarray(obj)
    except TypeError:  # arrays in a sequence, which are not copied to the host unasked
        found = np.asarray(_plain(obj))
    return _of_numbers(found, wanted) if found.dtype == object else found


def _of_numbers(found: np.ndarray[Any, Any], wanted: DType | None) -> np.ndarray[Any, Any]:
    """Python's numbers, of which NumPy makes no dtype since an integer is too large for any."""
    for x in found.flat:
        if not isinstance(x, int | float | complex):
            raise DTypeError(f"asarray of {x!r}, which is no number")
    letters = {kind_of(x) for x in found.flat} | ({wanted.kind} if wanted else set())
    if not letters & {"f", "c"}:
        raise OverflowError("asarray of an integer out of range for 64 bits; name a float's dtype")
    return found.astype(np.complex128 if "c" in letters else np.float64)


def _plain(items: Any) -> Any:
    """A nested sequence with the arrays in it brought to the host."""
    if isinstance(items, list | tuple):
        return [_plain(item) for item in items]
    return items.device.to_numpy(items) if isinstance(items, Storage) else items


def _from_dlpack(obj: Any) -> np.ndarray[Any, Any]:
    from portable.namespace import to_numpy

    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return to_numpy(obj)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of a library that offers DLPack, copied to the device through the host.

    Parameters
    ----------
    x : array
        Of a library that offers DLPack.
    device : Device or str, optional
        Where to; by default the device in use.
    copy : bool, optional
        False asks for shared memory, and is refused.

    Raises
    ------
    BufferError
        If `copy` is False, since memory of other libraries is not shared.
    AttributeError
        If `x` does not offer DLPack.
    """
    if isinstance(x, Storage):
        return _from_ours(x, None, device, copy)
    if copy is False:
        raise BufferError("from_dlpack copies to the device; leave out copy=False")
    if not hasattr(x, "__dlpack__"):
        raise AttributeError(f"{type(x).__name__} offers no __dlpack__; use asarray")
    return asarray(x, device=device)
