"""What arrays of indices name in an array."""

from __future__ import annotations

from typing import Any, NamedTuple

from portable.errors import BadIndexError, ShapeError
from portable.primitives.base.geometry import broadcast_shapes, broadcast_strides


class Selection(NamedTuple):
    """Elements that arrays of indices name.

    Attributes
    ----------
    view : Array
        The array as integers and slices beside these leave it, the indexed dimensions side by side.
    indices : tuple of Array
        One for each of them; they broadcast. Negative ones count from the end.
    axis : int
        The first of these dimensions.
    known : bool
        Whether all indices are known to be in range.
    """

    view: Any
    indices: tuple[Any, ...]
    axis: int
    known: bool

    @property
    def extents(self) -> tuple[int, ...]:
        """Of the indexed dimensions."""
        return self.view.shape[self.axis : self.axis + len(self.indices)]  # type: ignore[no-any-return]


def spread(indices: tuple[Any, ...]) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The shape that arrays broadcast to, and views of them in it.

    Raises
    ------
    BadIndexError
        If they do not.
    """
    try:
        shape = broadcast_shapes([x.shape for x in indices])
    except ShapeError as error:
        raise BadIndexError(f"arrays of indices: {error}") from None
    return shape, tuple(
        x.viewed(shape, broadcast_strides(x.shape, x.strides, shape)) for x in indices
    )


def first_dimensions(view: Any, dims: tuple[int, ...]) -> Any:
    """The view with some dimensions first."""
    order = [*dims, *(d for d in range(view.ndim) if d not in dims)]
    return view.viewed(tuple(view.shape[d] for d in order), tuple(view.strides[d] for d in order))
