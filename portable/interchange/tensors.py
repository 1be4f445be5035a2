"""PyTorch's tensors as arrays and back, several times faster than through DLPack.

Nothing here imports PyTorch: where there is a tensor, it has been imported.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

from portable.dtypes import DType, dtype
from portable.errors import UnsupportedError

HOST, _CUDA, ROCM = 1, 2, 10
_NO_WAITING: Final = -1
"""What DLPack calls the stream of a consumer that works on the same one."""

_kinds: Final[dict[type, bool]] = {np.ndarray: False}
_places: Final[dict[Any, tuple[int, int] | None]] = {}
_dtypes: Final[dict[Any, DType]] = {}

numpy_dtypes: Final[dict[Any, np.dtype[Any]]] = {}
"""NumPy's for those of PyTorch's dtypes that were asked for."""


def is_tensor(x: object) -> bool:
    """Whether this is a tensor or parameter of PyTorch's own; of classes derived from them none."""
    kind = type(x)
    known = _kinds.get(kind)
    if known is None:
        torch = sys.modules.get("torch")
        known = _kinds[kind] = torch is not None and kind in (torch.Tensor, torch.nn.Parameter)
    return known


def place_of(tensor: Any) -> tuple[int, int] | None:
    """DLPack's number for the kind of memory it lies in, and the device's; None for other kinds.

    Pinned memory is the host's, though DLPack has a number of its own for it.
    """
    device = tensor.device
    try:
        return _places[device]
    except KeyError:
        location = _places[device] = _place(device)
        return location


def _place(device: Any) -> tuple[int, int] | None:
    if device.type == "cpu":
        return HOST, 0
    if device.type != "cuda":
        return None
    rocm = sys.modules["torch"].version.hip is not None
    return (ROCM if rocm else _CUDA), int(device.index)


def host_view(tensor: Any) -> np.ndarray[Any, Any] | None:
    """A NumPy array over a plain tensor's memory; None where that takes a longer look (`plain`)."""
    try:
        view: np.ndarray[Any, Any] = tensor.numpy()
    except (TypeError, RuntimeError):  # other memory, dtypes, gradients, conjugates
        return None
    return view


def dtype_of(tensor: Any) -> DType:
    """Its dtype.

    Raises
    ------
    DTypeError
        For one that kernels do not know.
    """
    kind = tensor.dtype
    try:
        return _dtypes[kind]
    except KeyError:
        result = _dtypes[kind] = dtype(kind)
        numpy_dtypes[kind] = result.numpy
        return result


def plain(tensor: Any) -> Any:
    """The tensor, `detached` where need be, if its memory holds what it shows.

    Raises
    ------
    UnsupportedError
        For one that records its gradient, one whose numbers are conjugated or negated as they are
        read, and one that is not dense.
    """
    if tensor.layout is not sys.modules["torch"].strided:
        raise UnsupportedError(f"a tensor of layout {tensor.layout}; pass x.to_dense()")
    if tensor.is_conj() or tensor.is_neg():
        raise UnsupportedError(
            "a tensor that PyTorch conjugates or negates as it is read, not in memory; pass "
            "x.resolve_conj().resolve_neg()"
        )
    return detached(tensor) if tensor.requires_grad else tensor


def detached(tensor: Any) -> Any:
    """A view of a tensor that records its gradient, where no gradients are recorded.

    Raises
    ------
    UnsupportedError
        Where they are.
    """
    if sys.modules["torch"].is_grad_enabled():
        raise UnsupportedError(
            "a tensor with requires_grad=True, but PyTorch would record no gradient of what is "
            "done here; pass x.detach(), or call it under torch.no_grad()"
        )
    return tensor.detach()


def stream_of(tensor: Any) -> int | None:
    """The address of the stream that PyTorch works on where the tensor is; None on the host."""
    if not tensor.is_cuda:
        return None
    torch, index = sys.modules["torch"], tensor.device.index
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # no stream object is made
    return int(raw(index) if raw else torch.cuda.current_stream(index).cuda_stream)


def tensor_over(array: Any) -> Any:
    """A tensor over the memory of a NumPy or CuPy array, made on the stream it is used on."""
    torch = sys.modules["torch"]
    if isinstance(array, np.ndarray):
        return torch.from_numpy(array)
    return torch.from_dlpack(array.__dlpack__(stream=_NO_WAITING))
