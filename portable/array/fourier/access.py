"""How passes of a transform read what they transform and write what they found.

What else is done to each number (padding, mirroring, conjugation, tables, scaling) is done on the
way. A pass transforms *lines*: a line consists of every `step`-th element of a row of an array.
Lines are counted row by row, or, where elements of `inner` rows lie side by side, those lines of
these rows in turn that begin with the same element.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from portable import lang as kl
from portable.lang.function import function
from portable.primitives.maps.elementwise_kernel import unravelled

# Transforms of a few complex numbers held in registers: the steps that longer ones are made of.
#
# Their lengths are constants, so that all rotations are; the parts of the numbers may be vectors.


@function
def times(x: kl.Scalar, y: kl.Scalar) -> Any:
    """The product of complex numbers, without the care for infinities that ``*`` takes."""
    return kl.complex(x.real * y.real - x.imag * y.imag, x.real * y.imag + x.imag * y.real)


@function
def cosine(k: int, n: int) -> float:
    """``cos(2 pi k / n)`` within an ulp: angles are brought into an eighth of the circle first."""
    k = k % n
    if 2 * k > n:
        return cosine(n - k, n)  # type: ignore[no-any-return]
    if 4 * k > n:
        return -cosine(n - 2 * k, 2 * n)  # type: ignore[no-any-return]
    if 8 * k > n:
        return math.sin(2 * math.pi * (n - 4 * k) / (4 * n))
    return math.cos(2 * math.pi * k / n)


@function
def sine(k: int, n: int) -> float:
    """``sin(2 pi k / n)``, the cosine a quarter of the circle away."""
    return cosine(n - 4 * k, 4 * n)  # type: ignore[no-any-return]


@function
def rotated(z: kl.Scalar, k: int, n: int) -> Any:
    """``exp(-2 pi i k / n) z``."""
    if k == 0:
        return z
    if 4 * k == n:
        return kl.complex(z.imag, -z.real)
    if 8 * k == n:
        half = math.sqrt(0.5)
        return kl.complex((z.real + z.imag) * half, (z.imag - z.real) * half)
    c, s = cosine(k, n), sine(k, n)
    return kl.complex(z.real * c + z.imag * s, z.imag * c - z.real * s)


@function
def smallest_factor(n: int) -> int:
    """The smallest prime factor of a number below 25."""
    return 2 if n % 2 == 0 else 3 if n % 3 == 0 else n


@function
def dft(values: tuple[kl.Scalar, ...]) -> Any:
    """The transform of a tuple of up to 16 complex numbers.

    Decimation in time (Cooley and Tukey 1965) down to prime lengths.
    """
    R = len(values)
    if R == 1:
        return values
    P = smallest_factor(R)
    if P == R:
        return _of_two(values) if R == 2 else _of_odd(values)
    Q = R // P
    parts = [dft(values[p::P]) for p in kl.static_range(P)]
    columns = [
        dft([rotated(parts[p][q], p * q, R) for p in kl.static_range(P)])
        for q in kl.static_range(Q)
    ]
    return [columns[k % Q][k // Q] for k in kl.static_range(R)]


@function
def _of_two(values: tuple[kl.Scalar, ...]) -> Any:
    return values[0] + values[1], values[0] - values[1]


@function
def _of_odd(values: tuple[kl.Scalar, ...]) -> Any:
    """An odd prime length: pairs of mirror images share their cosines and sines."""
    R = len(values)
    pairs = [_of_two((values[j], values[R - j])) for j in kl.static_range(1, R // 2 + 1)]
    first = values[0]
    for total, _ in pairs:
        first = first + total
    outputs = [_mirror_images(values[0], pairs, k, R) for k in kl.static_range(1, R // 2 + 1)]
    return (first, *[near for near, _ in outputs], *[far for _, far in reversed(outputs)])


@function
def _mirror_images(first: kl.Scalar, pairs: Any, k: int, n: int) -> Any:
    """Elements `k` and ``n - k`` of a transform, of the sums and gaps of mirror images."""
    even = first
    odd = weighted(pairs[0][1], sine(k, n))
    for j, (total, gap) in enumerate(pairs):
        even = even + weighted(total, cosine((j + 1) * k, n))
        if j > 0:
            odd = odd + weighted(gap, sine((j + 1) * k, n))
    near = kl.complex(even.real + odd.imag, even.imag - odd.real)
    return near, kl.complex(even.real - odd.imag, even.imag + odd.real)


@function
def weighted(z: kl.Scalar, weight: float) -> Any:
    """A complex number times a real one."""
    return kl.complex(z.real * weight, z.imag * weight)


# -- access ----------------------------------------------------------------------------------------


class Form:
    """How arrays hold numbers and rows, and what is made of rows on the way; constants of kernels.

    Attributes
    ----------
    WITHIN : str
        Complex numbers as pairs of real ones along the rows, of which neighbouring lines are parts.
    BESIDE : str
        The same along the last dimension but one, in neighbouring rows.
    ALONG : str
        As pairs of real ones along the rows, each of them one line.
    PAIRED : str
        Neighbouring real numbers of rows, as complex ones; the last may lack its second.
    HALVED : str
        Rows of real numbers of which the first half are real parts and the second imaginary ones.
    MIRRORED : str
        Rows that are read are halves of Hermitian ones.
    MERGED : str
        Such rows, made into what a transform of half the length takes to give reals in pairs.
    SPLIT : str
        Results of pairs of real numbers are made into half of the Hermitian row of these.
    FITTING : str
        Rows are as long as what is read of them, or written to them.
    """

    WITHIN, BESIDE, ALONG = "within", "beside", "along"
    PAIRED, HALVED = "paired", "halved"
    MIRRORED, MERGED, SPLIT = "mirrored", "merged", "split"
    FITTING = "fitting"


@function
def extent(x: kl.Array, FORM: str | None) -> Any:
    """How many numbers a row has."""
    end = x.shape[x.ndim - 1]
    if x.dtype == kl.u64 or x.dtype.is_complex:
        return end
    if FORM == Form.PAIRED:
        return (end + 1) // 2
    return end // 2 if FORM in (Form.WITHIN, Form.ALONG, Form.HALVED) else end


@function
def pair_of(row: tuple[kl.Scalar, ...], j: kl.Scalar, part: int, FORM: str) -> Any:
    """Where the real (0) or imaginary (1) part of an element stands."""
    if FORM in (Form.WITHIN, Form.ALONG, Form.PAIRED):
        return (*row, 2 * j + part)
    last = len(row) - 1
    return (*row[:last], 2 * row[last] + part, j)


@function
def complex_vector(
    x: kl.Array,
    before: tuple[kl.Scalar, ...],
    at: kl.Scalar,
    after: tuple[kl.Scalar, ...],
    LANES: int,
) -> Any:
    """`LANES` complex numbers whose parts lie behind each other along a dimension."""
    AXIS = -1 - len(after)
    low = kl.vload(x, *before, at, *after, lanes=LANES, axis=AXIS)
    high = kl.vload(x, *before, at + LANES, *after, lanes=LANES, axis=AXIS)
    parts = [(low if n < LANES else high)[n % LANES] for n in kl.static_range(2 * LANES)]
    return kl.complex(kl.vector(*parts[::2]), kl.vector(*parts[1::2]))


@function
def put_complex_vector(
    x: kl.Array,
    before: tuple[kl.Scalar, ...],
    at: kl.Scalar,
    after: tuple[kl.Scalar, ...],
    z: kl.Scalar,
) -> None:
    """Writes what `complex_vector` reads."""
    LANES = z.real.lanes
    parts = [(z.imag if n % 2 else z.real)[n // 2] for n in kl.static_range(2 * LANES)]
    for start in kl.static_range(0, 2 * LANES, LANES):
        half = kl.vector(*parts[start : start + LANES])
        kl.vstore(x, *before, at + start, *after, half, axis=-1 - len(after))


@function
def element(
    x: kl.Array,
    row: tuple[kl.Scalar, ...],
    j: kl.Scalar,
    FORM: str | None = Form.WITHIN,
    LANES: int = 1,
) -> Any:
    """An element as a complex number, in words of 64 bits or of its type, or as `FORM` says.

    Or as many neighbours `WITHIN` a row as there are lanes.
    """
    if LANES > 1:
        return complex_vector(x, row, 2 * j, (), LANES)
    if x.dtype == kl.u64:
        word = x[*row, j]
        return kl.complex(
            kl.bitcast(kl.cast(word, kl.u32), kl.f32),
            kl.bitcast(kl.cast(word >> 32, kl.u32), kl.f32),
        )
    if FORM == Form.HALVED:
        return kl.complex(x[*row, j], x[*row, extent(x, FORM) + j])
    if FORM == Form.PAIRED:
        first, end = x[*row, 2 * j], x.shape[x.ndim - 1]
        second = x[*row, kl.minimum(2 * j + 1, end - 1)]
        return kl.complex(first, kl.where(2 * j + 1 < end, second, second * 0))
    if (
        FORM in (Form.WITHIN, Form.BESIDE)
        and not x.dtype.is_complex
        and not kl.target.single_work_items
    ):
        both = kl.vload(
            x, *pair_of(row, j, 0, FORM), lanes=2, axis=-1 if FORM == Form.WITHIN else -2
        )
        return kl.complex(both[0], both[1])
    if FORM is not None and not x.dtype.is_complex:
        return kl.complex(x[*pair_of(row, j, 0, FORM)], x[*pair_of(row, j, 1, FORM)])
    value = x[*row, j]
    return value if x.dtype.is_complex else kl.complex(value, value * 0)


@function
def recombined(z: kl.Scalar, other: kl.Scalar, turn: kl.Scalar, SIGN: int) -> Any:
    """An element of a merged (`SIGN` 1) or split (-1) row; `other` is the one mirrored to `z`.

    It comes out doubled.
    """
    total = kl.complex(z.real + other.real, z.imag - other.imag)
    gap = times(kl.complex(z.real - other.real, z.imag + other.imag), turn)
    return kl.complex(total.real - SIGN * gap.imag, total.imag + SIGN * gap.real)


@function
def backwards(z: kl.Scalar) -> Any:
    """The complex numbers of a vector from the last to the first."""
    numbers = [(z.real[n], z.imag[n]) for n in kl.static_range(z.real.lanes - 1, -1, -1)]
    return kl.complex(kl.vector(*[x for x, _ in numbers]), kl.vector(*[y for _, y in numbers]))


@dataclass(frozen=True)
class Lines:
    """Where the lines of a pass lie in an array; counts of 1 are None.

    Attributes
    ----------
    array : array
        Their numbers, in rows along its last dimension.
    form : str or None
        How it holds the parts of complex numbers: `WITHIN`, ...; None as such, or real ones.
    near : str or None
        Where neighbouring lines lie that are taken together: `WITHIN`, `BESIDE` or `ALONG`.
    step : int or None
        Of how many lines a row consists.
    inner : int or None
        How many rows lie side by side.
    fitting : str or None
        `FITTING`, unless rows are filled up or cut off.
    """

    array: Any
    form: Any = None
    near: Any = None
    step: Any = None
    inner: Any = None
    fitting: Any = None

    def extent(self) -> Any:
        """How many numbers a row has."""
        return extent(self.array, self.form)

    def row(self, line: kl.Scalar) -> Any:
        """The index of a line's row: all dimensions but the last."""
        shape = self.array.shape[: self.array.ndim - 1]
        if self.form == Form.BESIDE:
            shape = (*shape[: self.array.ndim - 2], shape[self.array.ndim - 2] // 2)
        if self.step is None:
            return unravelled(line, shape)
        if self.inner is None:
            return unravelled(line // self.step, shape)
        return unravelled(line // (self.step * self.inner) * self.inner + line % self.inner, shape)

    def start(self, line: kl.Scalar) -> Any:
        """The element of its row with which a line begins, below `step`."""
        if self.step is None:
            return 0
        return line % self.step if self.inner is None else line // self.inner % self.step

    @property
    def axis(self) -> int:
        """The dimension, counted from the last, along which neighbouring lines lie."""
        return -1 if self.near == Form.WITHIN else -2

    def place(self, a: kl.Scalar, start: kl.Scalar) -> Any:
        """Which element of its row element `a` of a line is that begins with another."""
        return a if self.step is None else a * self.step + start


@dataclass(frozen=True)
class Source(Lines):
    """What a pass reads, and what is done to each number on the way.

    Attributes
    ----------
    sign : number
        -1 conjugates.
    table : array or None
        To multiply by, after that.
    real : str or None
        What transforms of real numbers need: rows are halves of Hermitian ones if `MIRRORED` or
        `MERGED`, of whose elements 0 and ``length / 2`` the real parts count.
    length : int or None
        Of the Hermitian rows.
    turns : array or None
        The rotations by which elements are merged or split.
    """

    sign: Any = None
    table: Any = None
    real: Any = None
    length: Any = None
    turns: Any = None

    def element(self, row: tuple[kl.Scalar, ...], j: kl.Scalar) -> Any:
        """An element of a row, conjugated if that is asked for."""
        z = element(self.array, row, j, self.form)
        return kl.complex(z.real, z.imag * self.sign)

    def number(self, row: tuple[kl.Scalar, ...], j: kl.Scalar) -> Any:
        """Element `j` of a row; zero beyond the end, which is not looked for in `FITTING` rows."""
        if self.real == Form.MERGED:
            return self.multiplied(self._merged(row, j), j)
        if self.real == Form.MIRRORED:
            return self._mirrored(row, j)
        if self.fitting == Form.FITTING:
            return self.multiplied(self.element(row, j), j)
        end = self.extent()
        return self._unless(j < end, self.element(row, kl.clip(j, 0, end - 1)), j)

    def vector(self, row: tuple[kl.Scalar, ...], j: kl.Scalar, LANES: int) -> Any:
        """`number` of neighbouring lines, all of them there."""
        x, last = self.array, len(row) - 1
        if self.form is None:
            real = kl.vload(x, *row, j, lanes=LANES, axis=self.axis)
            z = kl.complex(real, real * 0)
        elif self.near == Form.WITHIN:
            z = complex_vector(x, row, 2 * j, (), LANES)
        elif self.form == Form.PAIRED:
            real = kl.vload(x, *row, 2 * j, lanes=LANES, axis=-2)
            z = kl.complex(real, kl.vload(x, *row, 2 * j + 1, lanes=LANES, axis=-2))
        else:
            z = complex_vector(x, row[:last], 2 * row[last], (j,), LANES)
        z = kl.complex(z.real, z.imag * self.sign)
        return self.multiplied(z, j, LANES if self.near == Form.WITHIN else 1)

    def multiplied(self, z: kl.Scalar, j: kl.Scalar, LANES: int = 1) -> Any:
        """What element `j` becomes by the table; those beyond its end are zero."""
        if self.table is None:
            return z
        column = kl.minimum(j, extent(self.table, Form.WITHIN) - LANES)
        return times(z, element(self.table, (), column, Form.WITHIN, LANES))

    def _unless(self, inside: kl.Scalar, z: kl.Scalar, j: kl.Scalar) -> Any:
        """The same, or zero where it is not inside."""
        z = self.multiplied(z, j)
        return kl.complex(kl.where(inside, z.real, 0), kl.where(inside, z.imag, 0))

    def _mirrored(self, row: tuple[kl.Scalar, ...], j: kl.Scalar) -> Any:
        """Element `j` of a Hermitian row, see `MIRRORED`."""
        at, end = kl.minimum(j, self.length - j), self.extent()
        inside = (at < end) & (j < self.length)
        z = element(self.array, row, kl.clip(at, 0, end - 1), self.form)
        alone = (at == 0) | (2 * at == self.length)
        imag = kl.where(alone, z.real * 0, kl.where(at < j, -z.imag, z.imag))
        return self._unless(inside, kl.complex(z.real, imag * self.sign), j)

    def _merged(self, row: tuple[kl.Scalar, ...], j: kl.Scalar) -> Any:
        """Element `j` of half as many, see `MERGED`; zero beyond."""
        half, plain = self.length // 2, replace(self, real=None, table=None)
        k = kl.minimum(j, half)
        z, other = plain.number(row, k), plain.number(row, half - k)
        z = kl.complex(z.real, kl.where(k == 0, 0, z.imag))
        other = kl.complex(other.real, kl.where(k == 0, 0, other.imag))
        z = recombined(z, other, element(self.turns, (), kl.minimum(k, half - 1)), 1)
        return kl.complex(kl.where(j < half, z.real, 0), kl.where(j < half, z.imag, 0))


@dataclass(frozen=True)
class Target(Lines):
    """What a pass writes, and what is done to each number on the way.

    Attributes
    ----------
    sign : number
        -1 conjugates before the multiplication by `table`, if there is one.
    scale, imag_scale : number
        What the parts are multiplied by at last.
    table : array or None
        To multiply by.
    coarse, fine : array or None
        Rotations for a later pass are products of two small tables' elements; none of None.
    step_in : int or None
        Of how many lines a row consists that was read.
    """

    sign: Any = None
    scale: Any = None
    imag_scale: Any = None
    table: Any = None
    coarse: Any = None
    fine: Any = None
    step_in: Any = None

    def start_in(self, line: kl.Scalar) -> Any:
        """The element of the row that was read with which a line begins."""
        return replace(self, step=self.step_in).start(line)

    def turn(self, start: kl.Scalar, k: kl.Scalar, LANES: int = 1) -> Any:
        """The rotation of element `k` of a line, or of neighbours in a row, for a later pass."""
        width = extent(self.fine, Form.WITHIN)
        coarse = element(self.coarse, (start // width,), k)
        return times(coarse, element(self.fine, (k,), start % width, Form.WITHIN, LANES))

    def finished(self, z: kl.Scalar, k: kl.Scalar, LANES: int = 1) -> Any:
        """What is done to the result that is element `k` of its row, or to neighbours in it."""
        if self.table is not None:
            factor = element(self.table, (), k, Form.WITHIN, LANES)
            z = times(kl.complex(z.real, z.imag * self.sign), factor)
        return kl.complex(z.real * self.scale, z.imag * self.imag_scale)

    def put_vector(self, row: tuple[kl.Scalar, ...], k: kl.Scalar, z: kl.Scalar) -> None:
        """`put` of neighbouring lines, for all of which there is room."""
        out, last = self.array, len(row) - 1
        z = self.finished(z, k, z.real.lanes if self.near == Form.WITHIN else 1)
        if self.form is None:
            kl.vstore(out, *row, k, z.real, axis=self.axis)
        elif self.near == Form.WITHIN:
            put_complex_vector(out, row, 2 * k, (), z)
        elif self.form == Form.PAIRED:
            kl.vstore(out, *row, 2 * k, z.real, axis=-2)
            kl.vstore(out, *row, 2 * k + 1, z.imag, axis=-2)
        else:
            put_complex_vector(out, row[:last], 2 * row[last], (k,), z)

    def put(self, row: tuple[kl.Scalar, ...], k: kl.Scalar, z: kl.Scalar) -> None:
        """Writes element `k` of a row unless it is beyond the end."""
        if self.fitting == Form.FITTING or k < self.extent():
            put(self.array, row, k, self.finished(z, k), self.form)

    def put_pair(
        self,
        row: tuple[kl.Scalar, ...],
        k: kl.Scalar,
        n: kl.Scalar,
        pair: tuple[kl.Scalar, ...],
        turn: kl.Scalar,
        SIGN: int,
    ) -> None:
        """Writes what elements `k` and ``n - k`` merged (`SIGN` 1) or split (-1) become.

        Or as many from `k` on as there are lanes, and those that are mirrored to them.
        """
        z, other = pair
        near = recombined(z, other, turn, SIGN)
        # The rotation of the mirror image is the negative conjugate.
        far = kl.conj(recombined(z, other, turn, -SIGN))
        if z.real.lanes == 1:
            self.put(row, k, near)
            self.put(row, n - k, far)
        else:
            self.put_vector(row, k, near)
            self.put_vector(row, n - k - (z.real.lanes - 1), backwards(far))


@function
def put(
    x: kl.Array, row: tuple[kl.Scalar, ...], k: kl.Scalar, z: kl.Scalar, FORM: str | None
) -> None:
    """Writes what `element` reads."""
    if x.dtype == kl.u64:
        low = kl.cast(kl.bitcast(z.real, kl.u32), kl.u64)
        x[*row, k] = low | (kl.cast(kl.bitcast(z.imag, kl.u32), kl.u64) << 32)
    elif FORM == Form.HALVED:
        x[*row, k] = z.real
        x[*row, extent(x, FORM) + k] = z.imag
    elif FORM in (Form.WITHIN, Form.BESIDE) and not kl.target.single_work_items:
        pair = kl.vector(z.real, z.imag)
        kl.vstore(x, *pair_of(row, k, 0, FORM), pair, axis=-1 if FORM == Form.WITHIN else -2)
    elif FORM is not None:
        x[*pair_of(row, k, 0, FORM)] = z.real
        x[*pair_of(row, k, 1, FORM)] = z.imag
    else:
        x[*row, k] = z if x.dtype.is_complex else z.real
