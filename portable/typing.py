"""Types for signatures: arrays of whatever library."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

__all__ = ["Array", "ArrayT"]


class Array(Protocol):
    """An array of any library: NumPy's, CuPy's, dpnp's, PyTorch's, JAX's, `portable.array`'s."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def dtype(self) -> Any:
        """The type of its elements."""

    @property
    def ndim(self) -> int:
        """Number of dimensions."""

    def __getitem__(self, key: Any, /) -> Any:
        """Elements, and views of parts."""


ArrayT = TypeVar("ArrayT", bound=Array)
"""An operation's arrays, and so its results, are of one library."""
