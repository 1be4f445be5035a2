"""PyTorch's tensors in the memory of a GPU, as CuPy's arrays and as compiled code sees them."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any, Final

import numpy as np

from portable.backend import ViewCode
from portable.dtypes import NARROW, DType
from portable.interchange.tensors import dtype_of, numpy_dtypes

BYTES: Final = tuple(kind.numpy for kind in NARROW if kind.itemsize == 1)
"""Floats of which CuPy makes no arrays; views of its bytes are such."""


def array_over(cupy: Any, tensor: Any, index: int) -> Any:
    """A CuPy array over a tensor's memory, which is no matter for streams.

    Parameters
    ----------
    cupy : module
    tensor : tensor
        On the GPU.
    index : int
        The GPU's number.
    """
    shape, kind, strides, nbytes = _layout(dtype_of(tensor), tensor.shape, tensor.stride())
    memory = cupy.cuda.UnownedMemory(tensor.data_ptr(), nbytes, tensor, index)
    pointer = cupy.cuda.MemoryPointer(memory, 0)
    if kind not in BYTES:
        return cupy.ndarray(shape, kind, pointer, strides)
    return cupy.ndarray(shape, np.uint8, pointer, strides).view(kind)


@lru_cache(maxsize=4096)
def _layout(
    dtype: DType, shape: tuple[int, ...], element_strides: tuple[int, ...]
) -> tuple[tuple[int, ...], np.dtype[Any], tuple[int, ...], int]:
    """A tensor's shape, its dtype and strides in NumPy's words, and the bytes from end to end."""
    kind = dtype.numpy
    strides = tuple(s * kind.itemsize for s in element_strides)
    nbytes = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + kind.itemsize
    return tuple(shape), kind, strides, max(nbytes, 0)


def view_code(tensor: Any, index: int) -> ViewCode:
    """How compiled code sees tensors like one, whose launches go to the stream PyTorch works on.

    Parameters
    ----------
    tensor : tensor
        On the GPU.
    index : int
        The GPU's number.
    """
    from cupy_backends.cuda.api import runtime

    return ViewCode(
        type(tensor),
        same="numpy_of[{x}.dtype] is {x}_dtype and {x}.shape == {x}_shape"
        " and {x}.stride() == {x}_element_strides and {x}.get_device() == index"
        " and not ({x}.requires_grad and records() or {x}.is_conj() or {x}.is_neg())",
        handle="{x}.data_ptr()",
        address="{x}_handle",
        offset="0",
        owner="None",
        names={
            "index": index,
            "numpy_of": numpy_dtypes,
            "current": runtime.getDevice,
            "records": sys.modules["torch"].is_grad_enabled,
            "theirs": sys.modules["torch"]._C._cuda_getCurrentRawStream,
        },
        for_all="index == current()",
        queue="theirs(index)",
    )
