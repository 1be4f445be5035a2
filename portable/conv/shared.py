"""Convolutions whose images are shared out among the members of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

from portable.conv.convolution import Convolution, prepare
from portable.dtypes import dtype
from portable.errors import ShapeError
from portable.parallel import Member, Transfer


def prepare_shared(
    member: Member,
    x_shape: tuple[int, ...],
    w: Any,
    *,
    pieces: int = 4,
    gather: bool = True,
    **settings: Any,
) -> SharedConvolution:
    """A convolution shared by a group: each member computes the results of its own images.

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

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the results."""
        plan = next(iter(self._plans.values()))
        return (self._images * (self.member.size if self._gather else 1), *plan.result_shape[1:])

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
        return self.start(x, out=out).wait()

    def start(self, x: Any, *, out: Any = None) -> Transfer:
        """The same, while results may still be on their way; beside what is enqueued next.

        So results of one layer are gathered while those of the next are worked out.

        Returns
        -------
        Transfer
            Its `wait` comes before the others' results are used, or `out` is written again.
        """
        if out is None:
            out = self.member.maker(x).empty(self.result_shape, dtype(x.dtype))
        return PreparedConvolution(self._parts(x, out, self._once), out).start()

    def prepare(self, x: Any, *, out: Any) -> PreparedConvolution:
        """The same images' results again and again at the least cost.

        Parameters
        ----------
        x, out : array
            As of a call; they must stay where they are.
        """
        replay, gather = self.member.device.replay, self.member.prepare_gather
        parts = [replace(part, work=replay(part.work)) for part in self._parts(x, out, gather)]
        return PreparedConvolution(parts, out)

    def _once(self, share: Any, places: Sequence[Any]) -> Callable[[], Transfer]:
        """What begins a gather that may not come again."""
        return partial(self.member.start_gather, share, places, agreed=True)

    def _parts(
        self, x: Any, out: Any, gather: Callable[[Any, Sequence[Any]], Callable[[], Transfer]]
    ) -> list[_Part]:
        """What there is to do, piece by piece; `gather` says what begins a gather."""
        rank, count = self.member.rank, self._images
        share = out[rank * count :][:count] if self._gather else out
        parts = []
        for piece in self._pieces:
            target = share[piece]
            work = partial(self._plans[target.shape[0]], x[piece], out=target)
            begins = range(piece.start, out.shape[0], count)
            places = [out[begin : begin + target.shape[0]] for begin in begins]
            parts.append(_Part(work, gather(target, places) if self._gather else None))
        return parts


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a member's results: what works it out, and what begins to gather it."""

    work: Callable[[], object]
    gather: Callable[[], Transfer] | None


class PreparedConvolution:
    """A shared convolution of certain arrays; made by `SharedConvolution.prepare`."""

    def __init__(self, parts: Sequence[_Part], out: Any) -> None:
        self._parts = parts
        self._out = out

    def __call__(self) -> Any:
        """The results, as of the convolution."""
        return self.start().wait()

    def start(self) -> Transfer:
        """As of the convolution."""
        transfers: list[Transfer] = []
        for part in self._parts:
            part.work()
            if part.gather is not None:
                transfers.append(part.gather())

        def wait() -> None:
            for transfer in transfers:
                transfer.wait()

        return Transfer(self._out, wait)


def _cut(count: int, pieces: int) -> list[slice]:
    """Parts of so many images, as even as can be, none of them empty."""
    each, more = divmod(count, max(1, min(pieces, count)))
    begins = [i * each + min(i, more) for i in range(max(1, min(pieces, count)) + 1)]
    return [slice(a, b) for a, b in pairwise(begins)]
