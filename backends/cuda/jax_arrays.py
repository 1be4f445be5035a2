"""JAX's arrays in the memory of a GPU, as compiled code sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portable.backend import ViewCode
from portable.dtypes import NARROW, dtype
from portable.interchange.jax_arrays import function_of
from portable_backends.common.loans import Loans


class LentArrays:
    """The arrays of one launch, which waits until they are written and keeps them until it is done.

    Parameters
    ----------
    loans : Loans
        Where they are kept.
    pack : callable
        What makes a stream wait for an array, and keeps JAX from writing to its memory.
    stream : int
        The address of the stream that the launch is enqueued on.
    """

    __slots__ = ("_held", "_loan", "_pack", "_stream")

    def __init__(self, loans: Loans, pack: Callable[..., Any], stream: int) -> None:
        self._held: list[Any] = []
        self._loan = loans.loan(self._held)
        self._pack = pack
        self._stream = stream

    def address(self, array: Any) -> int:
        """Where an array lies, which is lent from now on."""
        self._held.append(self._pack(array, stream=self._stream))
        return int(array.unsafe_buffer_pointer())


def view_code(array: Any, index: int, loans: Loans, stream: Callable[[], int]) -> ViewCode | None:
    """How compiled code sees arrays like one; None where it does not.

    Parameters
    ----------
    array : jax.Array
        On the GPU.
    index : int
        The GPU's number.
    loans : Loans
        Of the GPU.
    stream : callable
        The address of the stream that launches are enqueued on, as DLPack writes it.
    """
    from cupy_backends.cuda.api import runtime

    pack = function_of(array, "buffer_to_dlpack_managed_tensor")
    if pack is None or dtype(array.dtype) in NARROW or not hasattr(array, "_pjrt_layout"):
        return None
    return ViewCode(
        type(array),
        same="{x}.dtype == {x}_dtype and {x}.shape == {x}_shape"
        " and {x}._pjrt_layout == {x}_order and {x}.sharding == {x}_sharding",
        handle="lent.address({x})",
        address="{x}_handle",
        offset="0",
        owner="None",
        names={
            "{x}_order": array._pjrt_layout,
            "{x}_sharding": array.sharding,
            "index": index,
            "current": runtime.getDevice,
            "lend": lambda: LentArrays(loans, pack, stream()),
        },
        for_all="index == current() and (lent := lend())",
    )
