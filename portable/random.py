"""Random arrays on every device, the same numbers on each.

`Generator` fills arrays of a device's own library. The method is Philox 4x32-10, whose numbers are
a function of a seed and a position; kernels draw from it by ``kl.random``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, Final, NamedTuple, ParamSpec

import numpy as np

from portable import registry
from portable.absent_names import DRAWING, lacking
from portable.backend import Device
from portable.dtypes import DType, dtype, uint32, uint64
from portable.errors import DTypeError, ShapeError, UnsupportedError
from portable.interchange.host_arrays import MovedCall
from portable.lang import random
from portable.lang import words as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.namespace import device_of_arrays, elsewhere, takes_numpys, xp

__all__ = ["Generator"]


# Kernels that fill arrays with random numbers: one block of four words a work-item.


class Place(NamedTuple):
    """Where numbers come from: what `portable.lang.random` takes."""

    seed: Any
    block: Any
    stream: Any


@kernel
def fill(out: Any, first: Place, low: Any, size: Any, *, DRAW: Any) -> None:
    """``out[C i:C (i + 1)]`` of block i from the `first` on, C being ``DRAW.count``.

    Parameters
    ----------
    out : array
        In one dimension.
    first : Place
        The first block.
    low, size : number
        Told to ``DRAW.numbers``.
    DRAW : Floats or Integers
        What to draw.
    """
    i, COUNT = kl.global_id(0), DRAW.count
    if i * COUNT < out.shape[0]:
        origin = Place(first.seed, first.block + uint64(i), first.stream)
        numbers = DRAW.numbers(origin, low, size)
        if (i + 1) * COUNT <= out.shape[0]:
            kl.vstore(out, i * COUNT, kl.vector(*numbers))
        else:
            for lane in kl.static_range(COUNT):
                if i * COUNT + lane < out.shape[0]:
                    out[i * COUNT + lane] = numbers[lane]


@dataclass(frozen=True)
class Floats:
    """Numbers of a distribution; a constant of `fill`.

    Attributes
    ----------
    standard : Function
        The numbers of a block, as of `portable.lang.random.uniform`.
    moved : Function
        What becomes of each, by `low` and `size`: `scaled`, `between` or `lengthened`.
    count : int
        Of a block.
    """

    standard: Any
    moved: Any
    count: int

    def numbers(self, origin: Place, low: Any, size: Any) -> Any:
        """Those of a block."""
        return [self.moved(x, low, size) for x in self.standard(*origin)]


@function
def scaled(x: Any, low: Any, size: Any) -> Any:
    """From 0 to 1, or of the standard normal distribution: from `low`, `size` times as far."""
    return low + size * x


@function
def between(x: Any, low: Any, high: Any) -> Any:
    """From 0 to 1: from `low` to `high`, which may be further apart than the largest number."""
    return low * (1 - x) + high * x


@function
def lengthened(x: Any, low: Any, scale: Any) -> Any:
    """From 0 to 1: `low` and more, of an exponential distribution.

    At most ``16.7 scale`` more in f32, and ``36.8 scale`` in f64.
    """
    return low - scale * kl.log1p(-x)


@dataclass(frozen=True)
class Integers:
    """Whole numbers, `size` of them from `low` on; a constant of `fill`.

    D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29 (2019): the upper word
    of x * size, unless the lower one is among the few that would make some results likelier.

    Attributes
    ----------
    count : int
        Of a block: 4 of one word each, `size` in u32 and not 0, or 2 of two words, `size` in u64,
        0 meaning all 2**64.
    """

    count: int

    def numbers(self, origin: Place, low: Any, size: Any) -> Any:
        """Those of a block."""
        words = random.bits(*origin)
        lanes = range(0, 4, 4 // self.count)
        return [low + low.dtype(self.bounded(words, lane, origin, size)) for lane in lanes]

    def bounded(self, words: Any, lane: int, origin: Place, size: Any) -> Any:
        """A number below `size` from the words of a block, drawn again until it is fair."""
        x = self.word(words, lane)
        attempt = uint32(0)
        if x * size < size:
            threshold = (size.dtype(0) - size) % size
            while x * size < threshold:
                attempt += 1
                x = self.word(random.bits(*origin, attempt), lane)
        upper = kl.mulhi(x, size)
        return upper if self.count == 4 else kl.where(size == 0, x, upper)

    def word(self, words: Any, lane: int) -> Any:
        """A u32, or a u64 of two."""
        if self.count == 4:
            return words[lane]
        return (uint64(words[lane]) << 32) | uint64(words[lane + 1])


# -- generator -------------------------------------------------------------------------------------

_Parameters = ParamSpec("_Parameters")


def _calls(**ours: str) -> Callable[[Callable[_Parameters, Any]], Callable[_Parameters, Any]]:
    """Makes a method say what NumPy's names for its arguments are here."""

    def saying(method: Callable[_Parameters, Any]) -> Callable[_Parameters, Any]:
        @wraps(method)
        def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Any:
            for name in kwargs:
                if name in ours:
                    raise TypeError(f"{method.__name__} calls NumPy's {name}= {ours[name]}=")
            return method(*args, **kwargs)

        return call

    return saying


_WORDS: Final = 2**64
_RARE: Final = 16
"""One of so many elements is chosen at most where those that come again are left out."""
_SPARE: Final = 8
"""One number in so many, and so many, are drawn beyond those that are wanted."""
_STREAMS: Final = 2**32

_UNIFORM: Final = (Floats(random.uniform, scaled, 4), Floats(random.uniform64, scaled, 2))
_NORMAL: Final = (Floats(random.normal, scaled, 4), Floats(random.normal64, scaled, 2))
_WIDE_UNIFORM: Final = (Floats(random.uniform, between, 4), Floats(random.uniform64, between, 2))
_EXPONENTIAL: Final = (
    Floats(random.uniform, lengthened, 4),
    Floats(random.uniform64, lengthened, 2),
)
_SHORT: Final = Integers(4)
_LONG: Final = Integers(2)


class Generator:
    """Draws random arrays: a seed means the same numbers on every device.

    Integers and uniform numbers are equal bit for bit on all devices, normal and exponential ones
    up to the rounding of the functions that they are made with. Each call takes the next numbers of
    a sequence of 2**66 words; streams of one seed are independent sequences.

    Parameters
    ----------
    seed : int
        From 0 to 2**64 - 1.
    stream : int
        From 0 to 2**32 - 1: the number of the sequence.
    device : str or Device, optional
        Where arrays are made, and NumPy's go to; the device in use at each call if left out.

    Notes
    -----
    Philox 4x32-10: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as
    easy as 1, 2, 3", SC 2011. A generator is not to be shared by threads: give each a stream.

    Examples
    --------
    >>> import portable as pt
    >>> rng = pt.random.Generator(2026)
    >>> x = rng.normal((1000, 3))
    """

    def __init__(
        self, seed: int = 0, *, stream: int = 0, device: str | Device | None = None
    ) -> None:
        self._seed = _within("seed", seed, _WORDS)
        self._stream = _within("stream", stream, _STREAMS)
        self._device = device
        self._block = 0

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, stream={self._stream}, block={self._block})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Says what NumPy's name for a method is here."""
            methods = [x for x in vars(type(self)) if not x.startswith("_")]
            raise lacking("Generator", methods, name, DRAWING)

    def jump(self, blocks: int = 2**40) -> None:
        """Passes over blocks of four 32-bit words, as drawing as many would."""
        self._block = (self._block + _within("blocks", blocks, _WORDS)) % _WORDS

    @_calls(size="shape")
    def uniform(
        self,
        shape: int | tuple[int, ...] = (),
        *,
        low: float = 0.0,
        high: float = 1.0,
        dtype: Any = "float32",
    ) -> Any:
        """Numbers from `low` to `high`, all equally likely.

        Parameters
        ----------
        shape : int or tuple of int
            Of the array.
        low, high : float
            The interval's ends; `high` is left out, but where rounding makes a number of it.
        dtype : dtype
            float16, float32 (multiples of 2**-24 of the interval) or float64 (2**-53).

        Returns
        -------
        array
            Of the device's library.

        Raises
        ------
        ValueError
            For ends that are not finite numbers of the type, or in the wrong order.
        DTypeError
            For another type.
        """
        kind = _float(dtype)
        low, high = _finite("low", low, kind), _finite("high", high, kind)
        if low > high:
            raise ValueError(f"uniform from {low} to {high}: low may not be more than high")
        if high - low > float(np.finfo(_drawn(kind)).max):
            return self._floats(shape, _WIDE_UNIFORM, low, high, kind)
        return self._floats(shape, _UNIFORM, low, high - low, kind)

    @_calls(size="shape", loc="mean", scale="deviation")
    def normal(
        self,
        shape: int | tuple[int, ...] = (),
        *,
        mean: float = 0.0,
        deviation: float = 1.0,
        dtype: Any = "float32",
    ) -> Any:
        """Numbers of a normal distribution, by the method of Box and Muller.

        Parameters
        ----------
        shape : int or tuple of int
            Of the array.
        mean, deviation : float
            The distribution's mean and standard deviation.
        dtype : dtype
            float16, float32 (at most 6.8 deviations from the mean) or float64 (8.7).

        Returns
        -------
        array
            Of the device's library.

        Raises
        ------
        ValueError
            For numbers that are not finite in the type, or a negative deviation.
        DTypeError
            For another type.
        """
        kind = _float(dtype)
        deviation = _not_negative("deviation", deviation, kind)
        return self._floats(shape, _NORMAL, _finite("mean", mean, kind), deviation, kind)

    @_calls(size="shape")
    def exponential(
        self, shape: int | tuple[int, ...] = (), *, scale: float = 1.0, dtype: Any = "float32"
    ) -> Any:
        """Numbers of an exponential distribution with mean `scale`, by inversion.

        Parameters
        ----------
        shape : int or tuple of int
            Of the array.
        scale : float
            The mean.
        dtype : dtype
            float16, float32 (at most 16.7 means) or float64 (36.8).

        Returns
        -------
        array
            Of the device's library.

        Raises
        ------
        ValueError
            For a mean that is negative or not finite in the type.
        DTypeError
            For another type.
        """
        kind = _float(dtype)
        return self._floats(shape, _EXPONENTIAL, 0.0, _not_negative("scale", scale, kind), kind)

    @_calls(size="shape")
    def integers(
        self,
        low: int,
        high: int | None = None,
        shape: int | tuple[int, ...] = (),
        *,
        dtype: Any = "int64",
    ) -> Any:
        """Integers from `low` to ``high - 1``, all exactly equally likely.

        Parameters
        ----------
        low, high : int
            The range, `high` left out; from 0 to `low` where `high` is not given.
        shape : int or tuple of int
            Of the array.
        dtype : dtype
            Any integer type that holds the range.

        Returns
        -------
        array
            Of the device's library.

        Raises
        ------
        ValueError
            If the range is empty, or the type does not hold it.
        TypeError
            For ends that are no integers.
        """
        if high is None:
            low, high = 0, low
        kind, low, high = _integer(dtype), _whole("low", low), _whole("high", high)
        held = np.iinfo(kind.numpy)
        if not low < high:
            raise ValueError(f"integers from {low} to {high - 1}: low must be less than high")
        if low < held.min or high - 1 > held.max:
            raise ValueError(f"integers from {low} to {high - 1} do not fit into {kind.name}")
        wide = np.uint64 if kind.kind == "u" else np.int64
        if high - low < _STREAMS and low < 2**63:
            return self._filled(shape, kind, _SHORT, np.int64(low), np.uint32(high - low))
        return self._filled(shape, kind, _LONG, wide(low), np.uint64((high - low) % _WORDS))

    def permutation(self, x: Any, *, axis: int = 0) -> Any:
        """The numbers below `x` in random order, or the parts of array `x` along an axis.

        Parameters
        ----------
        x : int or array
            How many, or what to put in random order; it is left as it is.
        axis : int
            The axis of an array along which parts change places.

        Returns
        -------
        array
            Of int64 for an int, else like `x`.
        """
        if not hasattr(x, "shape") or isinstance(x, np.integer):
            return self._order(_whole("x", x))
        if not -x.ndim <= axis < x.ndim:
            raise ShapeError(f"axis {axis} of an array of {x.ndim} dimensions")

        def permuted(beside: Generator, x: Any) -> Any:
            return xp(device_of_arrays(x)).take(x, beside._order(x.shape[axis]), axis=axis)

        return self._with_arrays(permuted, x)

    @_calls(size="shape")
    def choice(
        self, x: Any, shape: int | tuple[int, ...] = (), *, replace: bool = True, p: Any = None
    ) -> Any:
        """Elements of a vector, or numbers below `x`, drawn with or without putting them back.

        Parameters
        ----------
        x : int or array, shape (n,)
            What to choose from.
        shape : int or tuple of int
            Of the result.
        replace : bool
            Whether an element may be drawn again.
        p : array, shape (n,), optional
            How likely each element is, in sum 1, on the same device; only with `replace`. All are
            equally likely if left out.

        Returns
        -------
        array
            Of int64 for an int, else like `x`.

        Raises
        ------
        ValueError
            If there are too few elements, or `p` goes without `replace`, or holds NaN or negative
            numbers, or its sum is not 1.
        ShapeError
            If `x` is no vector or `p` not of its length.
        """
        counts = not hasattr(x, "shape") or isinstance(x, np.integer)
        n = _whole("x", x) if counts else _length(x)
        if counts:
            return self._places(n, _shape(shape), replace, p)

        def chosen(beside: Generator, x: Any, p: Any) -> Any:
            extents, space = _shape(shape), xp(device_of_arrays(x))
            places = beside._places(n, (prod(extents),), replace, p)
            return space.reshape(space.take(x, places, axis=0), extents)

        return self._with_arrays(chosen, x, p)

    def _with_arrays(self, draw: Callable[..., Any], *arrays: Any) -> Any:
        """Draws by a generator that is where the arrays are, and goes on behind it.

        NumPy's go to the generator's device, or the one that was chosen, and results are NumPy's.
        """
        where = device_of_arrays(arrays[0])
        away: Device | None = None
        if all(x is None or isinstance(x, np.ndarray | list) for x in arrays):
            wanted = elsewhere() if self._device is None else registry.device(self._device)
            where = wanted or where
            away = None if takes_numpys(where.for_arrays()) else where
        beside = Generator(self._seed, stream=self._stream, device=where)
        beside._block = self._block
        if away is None:
            result = draw(beside, *arrays)
        else:
            result = MovedCall(away).called(partial(draw, beside), arrays, {})
        self._block = beside._block
        return result

    def _places(self, n: int, shape: tuple[int, ...], replace: bool, p: Any) -> Any:
        """Random numbers below `n`."""
        count = prod(shape)
        if p is not None:
            return self._weighted(n, shape, replace, p)
        if replace:
            return self.integers(0, n, shape)
        if count > n:
            raise ValueError(f"{count} of {n} elements cannot be chosen without replacing them")
        few = self._distinct(n, count) if 0 < count * _RARE <= n else self._order(n)[:count]
        return self._namespace().reshape(few, shape)

    def _distinct(self, n: int, count: int) -> Any:
        """A few random numbers below `n`: the first so many that come for the first time."""
        space = self._namespace()
        drawn = self.integers(0, n, count + count // _SPARE + _SPARE)
        while True:
            order = space.argsort(drawn, stable=True)
            ordered = space.take(drawn, order)
            other = space.concat([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])
            first = space.sort(order[other])
            if first.shape[0] >= count:
                return space.take(drawn, first[:count])
            drawn = space.concat([drawn, self.integers(0, n, count)])

    def _weighted(self, n: int, shape: tuple[int, ...], replace: bool, p: Any) -> Any:
        """Random numbers below `n` by the inverse of the sums of their probabilities."""
        if not replace:
            raise ValueError("choice with p takes replace=True")
        space = self._namespace()
        p = space.asarray(p)
        if _length(p) != n:
            raise ShapeError(f"p has {p.shape[0]} elements; it takes one for each of {n}")
        if not space.isdtype(p.dtype, "real floating"):
            p = space.astype(p, space.float32)
        sums = space.cumulative_sum(p)
        _check_likely(space, p, sums)
        drawn = self.uniform(prod(shape), dtype=str(sums.dtype).rpartition(".")[2]) * sums[-1]
        chosen = space.searchsorted(sums, drawn, side="right")
        # A number that rounding made as large as the whole sum belongs to the last that is likely.
        last = space.searchsorted(sums, sums[-1:], side="left")
        return space.reshape(space.astype(space.minimum(chosen, last), space.int64), shape)

    def _order(self, n: int) -> Any:
        """The numbers below `n` in random order: that of random 64-bit numbers."""
        space = self._namespace()
        order = space.argsort(self.integers(0, _WORDS, n, dtype="uint64"), stable=True)
        return space.astype(order, space.int64, copy=False)

    def _floats(
        self,
        shape: int | tuple[int, ...],
        draws: tuple[Floats, Floats],
        first: float,
        second: float,
        kind: DType,
    ) -> Any:
        """An array of floats, drawn by the one for its width."""
        number = _drawn(kind)
        return self._filled(shape, kind, draws[number is np.float64], number(first), number(second))

    def _filled(
        self, shape: int | tuple[int, ...], kind: DType, draw: Floats | Integers, *numbers: Any
    ) -> Any:
        """A new array, and the generator moved past what it took."""
        space, extents = self._namespace(), _shape(shape)
        if kind.name == "float64" and not hasattr(space, "float64"):
            raise UnsupportedError("this device has no float64; ask for dtype='float32'")
        out = space.empty(prod(extents), dtype=getattr(space, kind.name))
        blocks = -(-prod(extents) // draw.count)
        if blocks:
            seed, block, stream = np.uint64(self._seed), np.uint64(self._block), self._stream
            origin = Place(seed, block, np.uint32(stream))
            fill[blocks, None](out, origin, *numbers, DRAW=draw)
        self._block = (self._block + blocks) % _WORDS
        return space.reshape(out, extents)

    def _namespace(self) -> Any:
        return xp(self._device)


def _check_likely(space: Any, p: Any, sums: Any) -> None:
    """Refuses what are no probabilities."""
    if not p.shape[0] or not bool(space.all(p >= 0)):  # which NaN is not, either
        raise ValueError(
            "choice: p holds NaN or negative numbers, or nothing; probabilities do not"
        )
    total = float(sums[-1])
    if not abs(total - 1) <= float(space.finfo(p.dtype).eps) ** 0.5:
        raise ValueError(
            f"choice: p has the sum {total}; divide it by that, for probabilities of 1"
        )


def _within(name: str, value: Any, bound: int) -> int:
    try:
        number = -1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = -1
    if not 0 <= number < bound:
        raise ValueError(f"{name}={value!r}: it takes an integer from 0 to {bound - 1}")
    return number


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: it takes an integer") from None


def _float(kind: Any) -> DType:
    type_of = dtype(kind)
    if not type_of.is_float:
        raise DTypeError(f"{type_of.name} is no real floating-point type")
    return type_of


def _drawn(kind: DType) -> Any:
    """The type that numbers are drawn in."""
    return np.float64 if kind.bits == 64 else np.float32


def _finite(name: str, value: Any, kind: DType) -> float:
    """A number that the type holds."""
    # bfloat16, which NumPy does not know, reaches as far as float32.
    most = float(np.finfo("float32" if kind.name == "bfloat16" else kind.numpy).max)
    number = float(value)
    if not -most <= number <= most:
        raise ValueError(f"{name}={value!r}: it takes a finite number of {kind.name}")
    return number


def _not_negative(name: str, value: Any, kind: DType) -> float:
    number = _finite(name, value, kind)
    if number < 0:
        raise ValueError(f"{name}={value!r}: it may not be negative")
    return number


def _integer(kind: Any) -> DType:
    type_of = dtype(kind)
    if not type_of.is_integer:
        raise DTypeError(f"{type_of.name} is no integer type")
    return type_of


def _shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    try:
        extents = tuple(map(index, shape)) if isinstance(shape, Iterable) else (index(shape),)
    except TypeError:
        raise ShapeError(f"a shape is an integer or several of them, not {shape!r}") from None
    if any(n < 0 for n in extents):
        raise ShapeError(f"a shape has no negative extents: {shape!r}")
    return extents


def _length(x: Any) -> int:
    if x.ndim != 1:
        raise ShapeError(f"an array of shape {tuple(x.shape)}; choice takes a vector")
    return int(x.shape[0])


if not TYPE_CHECKING:  # checkers tell of names that are not there

    def __getattr__(name: str) -> Any:
        drawn = DRAWING.get(name, name)
        word = f"{__name__}.Generator(seed)"
        instead = {name: f"{word}.{drawn}" if hasattr(Generator, drawn) else word}
        raise lacking(__name__, __all__, name, instead)
