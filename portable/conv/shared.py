"""Convolutions whose images are shared out among the members of a group."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from portable.conv.convolution import Convolution, prepare
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.parallel import Member

__all__ = ["SharedConvolution", "prepare_shared"]


def prepare_shared(
    member: Member,
    x_shape: tuple[int, ...],
    w: Any,
    *,
    pieces: int = 4,
    gather: bool = True,
    **settings: Any,
) -> SharedConvolution:
    """A convolution of which each member of a group makes the results of its own images.

    Parameters
    ----------
    member : Member
        Of a `portable.parallel.group`; all members prepare the same.
    x_shape : tuple of int
        The shape of each member's images, N of them, the same for all.
    w : array
        The filters, on the member's device; each member transforms them for itself.
    pieces : int
        Parts of the images: while one is gathered the next is worked out.
    gather : bool
        Whether every member gets all results, or only its own.
    **settings
        As for `prepare`.

    Returns
    -------
    SharedConvolution
        To be called with the member's images, by all members.

    Raises
    ------
    ValueError
        For fewer than one piece.
    ParallelError
        On every member, if they prepare different shapes.
    """
    if pieces < 1:
        raise ValueError(f"pieces={pieces}: it takes an integer from 1 on")
    return SharedConvolution(member, tuple(x_shape), w, pieces if gather else 1, gather, settings)


class SharedConvolution:
    """One member's part of a convolution; made by `prepare_shared`.

    Attributes
    ----------
    member : Member
    """

    def __init__(
        self,
        member: Member,
        x_shape: tuple[int, ...],
        w: Any,
        pieces: int,
        gather: bool,
        settings: dict[str, Any],
    ) -> None:
        self.member: Final = member
        self._gather = gather
        self._pieces = _cut(x_shape[0], pieces)
        lengths = {piece.stop - piece.start for piece in self._pieces}
        self._plans: dict[int, Convolution] = {
            n: prepare((n, *x_shape[1:]), w, **settings) for n in lengths
        }
        self._images = x_shape[0]
        said = member.exchange((x_shape, tuple(w.shape), pieces, gather))
        if any(other != said[0] for other in said):
            raise ShapeError(f"members of a group prepare different convolutions: {said}")

    def __call__(self, x: Any, *, out: Any = None) -> Any:
        """The results of all members' images in order, or of this member's alone.

        Parameters
        ----------
        x : array
            This member's images.
        out : array, optional
            Where to put the results.

        Raises
        ------
        ShapeError, DTypeError, DeviceMismatchError
            As of `Convolution`.
        """
        member, count = self.member, self._images
        plans = self._plans
        shape = next(iter(plans.values())).result_shape[1:]
        everyone = member.size if self._gather else 1
        if out is None:
            out = member.device.empty((everyone * count, *shape), dtype(x.dtype))
        own = out[member.rank * count : (member.rank + 1) * count] if self._gather else out
        transfers = []
        for piece in self._pieces:
            plans[piece.stop - piece.start](x[piece], out=own[piece])
            if self._gather and member.size > 1:
                places = [
                    out[r * count + piece.start : r * count + piece.stop]
                    for r in range(member.size)
                ]
                transfers.append(member.start_gather(own[piece], places, agreed=True))
        for transfer in transfers:
            transfer.wait()
        return out


def _cut(count: int, pieces: int) -> list[slice]:
    """Parts of so many images, as even as can be, none of them empty."""
    each, more = divmod(count, max(1, min(pieces, count)))
    begins = [i * each + min(i, more) for i in range(max(1, min(pieces, count)) + 1)]
    return [slice(a, b) for a, b in pairwise(begins)]
