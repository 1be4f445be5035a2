"""How a transform is cut into passes over memory, and those into stages; no device needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np

from portable.array.fourier.access import Form, Source, Target
from portable.backend import Device
from portable.dtypes import DType, complex64, uint64
from portable.primitives.base.operands import collapsed, number_for
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import stored

# Tables of rotations, made in double precision on the host and kept on the device for a while.

Table = np.ndarray[Any, np.dtype[np.complex128]]


def roots(k: Any, n: int) -> Table:
    """``exp(-2 pi i k / n)`` of integers, within an ulp.

    Angles are brought into an eighth of the circle by integers, which rounds nothing.
    """
    k = np.asarray(k, np.int64) % n
    octant, rest = np.divmod(8 * k, n)
    mirrored = octant % 2 == 1
    rest = np.where(mirrored, n - rest, rest)
    angle = rest * (np.pi / 4 / n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(mirrored, s, c), np.where(mirrored, c, s)
    quadrant = octant // 2
    real = np.choose(quadrant, [c, -s, -c, s])
    imag = np.choose(quadrant, [s, c, -s, -c])
    return real - 1j * imag  # type: ignore[no-any-return]


def stage_rotations(radices: Sequence[int]) -> Table:
    """For each stage, after `s` elements of earlier ones, ``exp(-2 pi i j k / (s R))``.

    By j from 1 to R - 1, then by k below s; one element fewer than the transform has. After a gap
    of one come the roots of 7, 11 and 13.
    """
    parts = []
    s = 1
    for radix in radices:
        j = np.arange(1, radix)[:, None]
        parts.append(roots(j * np.arange(s), s * radix).reshape(-1))
        s *= radix
    primes = [roots(np.arange(p), p) for p in (7, 11, 13)]
    return np.concatenate([*parts, np.ones(1), *primes])


def between_halves(half: int) -> Table:
    """``exp(-pi i k / half)`` for k below `half`, or for 0 and 1 at least."""
    return roots(np.arange(max(half, 2)), 2 * half)


def between_long_halves(half: int, width: int) -> tuple[Table, Table]:
    """`between_halves` for k up to ``half // 2``.

    As products of ``coarse[k // width]`` and ``fine[k % width]``.
    """
    n = 2 * half
    return roots(np.arange(0, half // 2 + 1, width), n), roots(np.arange(width), n)


def between_passes(length: int, step: int, width: int) -> tuple[Table, Table]:
    """``exp(-2 pi i q k / (length step))`` for k below `length` and q below `step`.

    As products of ``coarse[q // width, k]`` and ``fine[k, q % width]``.

    Parameters
    ----------
    length : int
        Elements of the pass.
    step : int
        Elements between those of a transform.
    width : int
        Columns of the fine table.
    """
    k, n = np.arange(length), length * step
    coarse = roots(np.arange(0, step, width)[:, None] * k % n, n)
    fine = roots(k[:, None] * np.arange(min(width, step)) % n, n)
    return coarse, fine


class TableCache:
    """Tables on devices, the least recently used of them given up beyond so many bytes.

    Parameters
    ----------
    most : int
        Bytes to keep.
    """

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._bytes = 0
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def __call__(
        self, device: Device, dtype: DType, make: Callable[..., Any], *args: Any
    ) -> tuple[Any, ...]:
        """What a function makes of arguments, one table or several, as arrays of a device."""
        key = (device, dtype, make, args)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept  # type: ignore[no-any-return]
        made = make(*args)
        tables = tuple(
            stored(device, device.from_numpy(np.ascontiguousarray(table, dtype.numpy)))
            for table in (made if isinstance(made, tuple) else (made,))
        )
        with self._lock:
            self._keep(key, tables)
        return tables

    def _keep(self, key: Any, tables: tuple[Any, ...]) -> None:
        if key in self._kept:
            return
        self._kept[key] = tables
        self._bytes += _bytes(tables)
        while self._bytes > self._most and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= _bytes(gone)


def _bytes(tables: tuple[Any, ...]) -> int:
    return sum(int(table.nbytes) for table in tables)


# What one pass of a transform is to do.

TABLES: Final = TableCache(1 << 28)
"""Tables of all plans, 256 MiB of them at most."""
_NARROWEST: Final = 16


@dataclass(frozen=True, slots=True)
class PassOptions:
    """What is done to numbers when they are first read and when they are written at last.

    Rows shorter than the transform are filled up with zeros, and of results no more are written
    than there is room for.

    Attributes
    ----------
    conjugate : bool
        On reading.
    real : str or None
        What transforms of real numbers need: rows `MIRRORED` or `MERGED` on reading, or `SPLIT` on
        writing, which takes a single pass; or None.
    length : int
        Of the Hermitian rows of which rows are half.
    turns : array or None
        The rotations by which elements are merged or split.
    parts : str or None
        How the parts of complex numbers lie in arrays of real ones: `PAIRED` or `HALVED`.
    table : array or None
        To multiply by, on reading, after conjugation.
    conjugate_before, conjugate_after : bool
        On writing, before and after the multiplication by `factors`.
    factors : array or None
        To multiply by, on writing.
    scale : float
        To multiply by as well.
    """

    conjugate: bool = False
    real: str | None = None
    length: int = 0
    turns: Any = None
    parts: str | None = None
    table: Any = None
    conjugate_before: bool = False
    conjugate_after: bool = False
    factors: Any = None
    scale: float = 1.0

    def first(self) -> PassOptions:
        """Those of the first of several passes."""
        return PassOptions(
            self.conjugate, self.real, self.length, self.turns, self.parts, self.table
        )

    def last(self) -> PassOptions:
        """Those of the last of several passes."""
        return replace(self, conjugate=False, real=None, length=0, turns=None, table=None)

    def form(self, x: Any) -> str | None:
        """How complex numbers are stored in an array; None if as such."""
        return None if x.dtype.is_complex else self.parts

    def source(
        self, array: Any, kind: DType, view: Callable[[Any], Any] | None = None, **lines: Any
    ) -> Source:
        """What a kernel reads.

        Parameters
        ----------
        array : Storage
            The numbers, as the kernel takes them.
        kind : DType
            Of the complex numbers.
        view : callable, optional
            Gives tables, or None of None, as the kernel takes them.
        **lines
            How lines lie in the array: fields of `portable.array.fourier.access.Lines`.
        """
        view = view or _as_it_is
        return Source(
            array,
            sign=number_for(-1.0 if self.conjugate else 1.0, kind.real),
            table=view(self.table),
            real=self.real,
            length=self.length,
            turns=view(self.turns),
            **lines,
        )

    def target(
        self, array: Any, kind: DType, view: Callable[[Any], Any] | None = None, **lines: Any
    ) -> Target:
        """What a kernel writes; the parameters are those of `source`."""
        without_factors = self.factors is None and self.conjugate_before
        imag_scale = -self.scale if self.conjugate_after != without_factors else self.scale
        return Target(
            array,
            sign=number_for(-1.0 if self.conjugate_before else 1.0, kind.real),
            scale=number_for(self.scale, kind.real),
            imag_scale=number_for(imag_scale, kind.real),
            table=(view or _as_it_is)(self.factors),
            **lines,
        )


def _as_it_is(x: Any) -> Any:
    return x


@dataclass(frozen=True, slots=True)
class Pass:
    """Transforms of lines that are parts of rows, see `access`.

    Attributes
    ----------
    length : int
        Of the lines.
    step_in, step_out : int
        Of how many lines a row that is read, or written, consists.
    inner : int
        How many rows lie side by side.
    turned : bool
        Whether results are rotated for a later pass over what neighbours hold.
    options : PassOptions
        What else is to be done.
    """

    length: int
    step_in: int
    step_out: int
    inner: int
    turned: bool
    options: PassOptions

    def source(self, array: Any, kind: DType, view: Callable[[Any], Any], **lines: Any) -> Source:
        """What a kernel reads, see `PassOptions.source`."""
        counts = {"step": _count(self.step_in), "inner": _count(self.inner)}
        return self.options.source(array, kind, view, **counts, **lines)

    def target(
        self,
        array: Any,
        kind: DType,
        view: Callable[[Any], Any],
        between: tuple[Any, Any],
        **lines: Any,
    ) -> Target:
        """What a kernel writes, with the tables of the rotations after the pass, or None."""
        counts = {
            "step": _count(self.step_out),
            "inner": _count(self.inner),
            "step_in": _count(self.step_in),
        }
        coarse, fine = map(view, between)
        return self.options.target(array, kind, view, coarse=coarse, fine=fine, **counts, **lines)


def _count(n: int) -> int | None:
    """As kernels take it."""
    return None if n == 1 else n


class Transform(NamedTuple):
    """A transform of rows, to be written down as launches.

    Attributes
    ----------
    recipe : Recipe
        What gets the launches.
    x, out : Storage
        What is read and written, of the same shape but for the last axis, along which rows lie.
    n : int
        The length.
    kind : DType
        The complex type to compute in.
    options : PassOptions
        What else is done to numbers on the way.
    """

    recipe: Recipe
    x: Any
    out: Any
    n: int
    kind: DType
    options: PassOptions


def lies_across(x: Any, step: int = 1, inner: int = 1) -> bool:
    """Whether neighbouring elements in memory are of neighbouring lines.

    Parameters
    ----------
    x : Storage
        Lines along its last axis.
    step : int
        So many elements of a line lie between those of a transform.
    inner : int
        So many transforms lie beside each other in a line.
    """
    if step > 1 and inner == 1:
        return True
    return bool(x.ndim > 1 and x.shape[-2] > 1 and abs(x.strides[-2]) < abs(x.strides[-1]))


def rotations_between(recipe: Recipe, device: Device, kind: DType, step: Pass) -> tuple[Any, Any]:
    """The two tables of the rotations after a pass; None where there are none.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    device : Device
        Where.
    kind : DType
        Of the complex numbers, or of their parts.
    step : Pass
        The pass.
    """
    if not step.turned:
        return None, None
    width = max(_NARROWEST, 1 << (step.step_in.bit_length() + 1) // 2)
    find = partial(TABLES, device, kind, between_passes, step.length, step.step_in, width)
    return found_table(recipe, find, 0), found_table(recipe, find, 1)


def with_few_dimensions(x: Any) -> Any:
    """A view whose rows are told apart by as few dimensions as possible, the last one kept."""
    lead, (steps,) = collapsed(x.shape[:-1], [x.strides[:-1]])
    return x.viewed((*lead, x.shape[-1]), (*steps, x.strides[-1]))


def found_table(recipe: Recipe, find: Callable[[], tuple[Any, ...]], position: int = 0) -> Any:
    """One of several tables, looked up in each run.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    find : callable
        Gives the tables.
    position : int
        Which of them.
    """
    return recipe.found(lambda: find()[position])


def in_words(x: Any) -> Any:
    """A view of numbers of 64 bits as words, which compilers know to be aligned as a whole."""
    if x is None or x.dtype is not complex64:
        return x
    return x.viewed(x.shape, x.strides, dtype=uint64)


def as_real_pairs(x: Any, form: str) -> Any:
    """A view of complex numbers as twice as many real ones; None of None."""
    if x is None:
        return None
    axis = x.ndim - (2 if form == Form.BESIDE else 1)
    shape, strides = list(x.shape), list(x.strides)
    shape[axis] *= 2
    strides[axis] //= 2
    return x.viewed(tuple(shape), tuple(strides), dtype=x.dtype.real)


# -- plan ------------------------------------------------------------------------------------------

LARGEST_PRIME: Final = 13
_LONG: Final = 64


@lru_cache(maxsize=1024)
def prime_factors(n: int) -> tuple[int, ...]:
    """The prime factors of a positive number, ascending."""
    factors = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return (*factors, n) if n > 1 else tuple(factors)


def is_smooth(n: int) -> bool:
    """Whether all prime factors of a number have a butterfly."""
    return all(p <= LARGEST_PRIME for p in prime_factors(n))


@lru_cache(maxsize=1024)
def next_smooth(n: int) -> int:
    """The least number not below `n` whose prime factors are 2, 3 and 5, 8 dividing it if long."""
    best = 1 << (n - 1).bit_length()
    threes = 1
    while threes < best:
        odd = threes
        while odd < best:
            twos = 1 << (-(-n // odd) - 1).bit_length()
            best = min(best, odd * (twos if n < _LONG else max(twos, 8)))
            odd *= 5
        threes *= 3
    return best


@lru_cache(maxsize=1024)
def radices(n: int, largest: int, *, mixed: bool = True) -> tuple[int, ...]:
    """Radices whose product is `n`, as few as possible, not above `largest` unless they are prime.

    Powers of two are shared evenly, so that stages are alike, and multiplied by odd primes if
    `mixed`; ``(1,)`` for one element.

    Parameters
    ----------
    n : int
        The product.
    largest : int
        The greatest radix but for primes.
    mixed : bool
        Whether powers of two are multiplied by odd primes.
    """
    primes = prime_factors(n)
    twos = primes.count(2)
    most = largest.bit_length() - 1
    stages = -(-twos // most)
    exponents = [1 << (twos // stages + (i < twos % stages)) for i in range(stages)]
    for p in reversed(primes[twos:]):
        partner = next((i for i, r in enumerate(exponents) if mixed and r * p <= largest), None)
        if partner is None:
            exponents.append(p)
        else:
            exponents[partner] *= p
    return tuple(sorted(exponents, reverse=True)) or (1,)


@lru_cache(maxsize=1024)
def balanced(n: int, most: int) -> tuple[int, ...]:
    """`n` as a product of as few factors of at most `most` as possible, which are much alike.

    Each prime factor is at most `most`.
    """
    primes = sorted(prime_factors(n), reverse=True)
    for count in range(1, len(primes) + 1):
        shares = _shared(primes, count)
        if max(shares) <= most:
            return tuple(sorted(shares, reverse=True))
    return (n,)


def _shared(primes: list[int], count: int) -> list[int]:
    """Prime factors dealt out, each to the smallest product so far."""
    shares = [1] * count
    for p in primes:
        shares[shares.index(min(shares))] *= p
    assert prod(shares) == prod(primes)
    return shares
