"""Dask arrays with blocks on a device, for data that outgrow its memory or a machine.

Dask cuts the work and runs it; each block is an array of the device. Importing this module, which
needs Dask, registers arrays of `portable.array` with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dask.array.dispatch import numel_lookup

from portable import namespace, registry
from portable.array import Array
from portable.backend import Device
from portable.dtypes import float32
from portable.errors import UnsupportedError


def on_device(x: Any, device: str | Device | None = None) -> Any:
    """A Dask array whose blocks are moved to a device when they are computed.

    Parameters
    ----------
    x : dask.array.Array
        Any chunks and shape.
    device : Device or str, optional
        Where to; by default the device in use. Workers in other processes find it by its name.

    Returns
    -------
    dask.array.Array
        Of the same chunks. Maps of blocks, element-wise functions, reductions, products, slices,
        concatenations and changes of chunks run on the device. Dask goes on believing that blocks
        are NumPy's, so that what makes arrays of its own between them (`cumsum`) does not.

    Raises
    ------
    TypeError
        For what is no Dask array.
    UnsupportedError
        For devices whose arrays Dask cannot join, as dpnp's.
    """
    if not hasattr(x, "map_blocks"):
        raise TypeError(
            f"on_device takes a Dask array, not {type(x).__name__}; dask.array.from_array(x) makes "
            "one, portable.asarray(x, device=...) moves a whole array"
        )
    there = registry.device(device).for_arrays()
    _check_known(there)
    name = there.name
    return x.map_blocks(_moved, name, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


def on_host(x: Any) -> Any:
    """A Dask array whose blocks are copied to the host, as NumPy's, when they are computed.

    Parameters
    ----------
    x : dask.array.Array
        As `on_device` gives it, or what was made of that.
    """
    return x.map_blocks(namespace.to_numpy, dtype=x.dtype, meta=np.empty((0,) * x.ndim, x.dtype))


def _check_known(device: Device) -> None:
    """Dask joins what NumPy's functions take, and what is registered with it."""
    kind = type(device.empty((0,), float32))
    if not issubclass(kind, Array) and not hasattr(kind, "__array_function__"):
        raise UnsupportedError(
            f"Dask cannot join arrays of {kind.__module__}.{kind.__name__}, which {device.name} "
            "has; take an OpenCL device of the same hardware, or a device with NumPy's arrays"
        )


def _moved(block: Any, name: str) -> Any:
    return namespace.asarray(block, device=name)


def _count(x: Array, *, axis: Any = None, keepdims: bool = False, **_: Any) -> Any:
    """How many elements a reduction takes together, in the shape of its result."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    gone = {a % x.ndim for a in axes} if x.ndim else set()
    shape = [1 if a in gone else n for a, n in enumerate(x.shape) if keepdims or a not in gone]
    count = int(np.prod([n for a, n in enumerate(x.shape) if a in gone], dtype=np.int64))
    held = x.dtype.numpy if x.dtype.is_float else np.dtype(np.int64)
    return x.device.from_numpy(np.full(shape, count, held))


numel_lookup.register(Array, _count)
