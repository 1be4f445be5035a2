"""Lines transformed by processors: a vector holds an element of each of several lines.

So every step is vector arithmetic without exchanges between lanes. The stages are those of
`kernels`, their radices known at run time only, so that few programs do all lengths. They go to
and fro between two halves of a worker's own memory, which stays in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from portable import lang as kl
from portable.array.fourier.access import Form, dft, element, put, recombined, times
from portable.array.fourier.plan import LARGEST_PRIME
from portable.lang.function import function
from portable.lang.kernel import kernel

_RADICES = (2, 3, 4, 5, 8)
"""Those that have code of their own; the others are odd primes, which share code."""
_STRETCH = 32
"""Elements of a line after which another line has its turn, so that what they share is cached."""
_FEW = 3
"""Last elements of lines that are sooner taken one after the other than in one more square."""


@dataclass(frozen=True)
class Workspace:
    """A worker's own memory: at each place an element of so many lines, a lane each.

    Attributes
    ----------
    memory : array
        Of all workers, each of which has a row.
    worker : int
        Which of them it is.
    lanes : int
        A constant.
    """

    memory: Any
    worker: Any
    lanes: int

    def held(self, position: kl.Scalar) -> Any:
        """What is held at a place, in each lane."""
        at = position * (2 * self.lanes)
        real = kl.vload(self.memory, self.worker, at, lanes=self.lanes)
        imag = kl.vload(self.memory, self.worker, at + self.lanes, lanes=self.lanes)
        return kl.complex(real, imag)

    def hold(self, position: kl.Scalar, z: kl.Scalar) -> None:
        """Writes what `held` reads."""
        at = position * (2 * self.lanes)
        kl.vstore(self.memory, self.worker, at, z.real)
        kl.vstore(self.memory, self.worker, at + self.lanes, z.imag)

    def held_in(self, position: kl.Scalar, lane: kl.Scalar) -> Any:
        """What one of the lanes holds."""
        at = position * (2 * self.lanes) + lane
        return kl.complex(self.memory[self.worker, at], self.memory[self.worker, at + self.lanes])

    def hold_in(self, position: kl.Scalar, lane: kl.Scalar, z: kl.Scalar) -> None:
        """Writes what `held_in` reads."""
        at = position * (2 * self.lanes) + lane
        self.memory[self.worker, at] = z.real
        self.memory[self.worker, at + self.lanes] = z.imag

    def vectors(self, count: int) -> Any:
        """So many vectors in registers."""
        return kl.private(count, self.memory.dtype, lanes=self.lanes)


# -- lines beside each other turned into vectors --------------------------------------------------


@function
def interleaved(x: kl.Scalar, y: kl.Scalar, START: int, LANES: int) -> Any:
    """Half of the lanes of two vectors in turn."""
    return kl.vector(*[(y if n % 2 else x)[START + n // 2] for n in kl.static_range(LANES)])


@function
def riffle(square: kl.Array, spare: kl.Array, LANES: int) -> None:
    """One step of a transposition: each vector of the upper half with its one of the lower."""
    HALF = LANES // 2
    for i in kl.range(HALF):
        x, y = square[i], square[i + HALF]
        spare[2 * i] = interleaved(x, y, 0, LANES)
        spare[2 * i + 1] = interleaved(x, y, HALF, LANES)


@function
def transposed(square: kl.Array, spare: kl.Array, STEPS: int, LANES: int) -> Any:
    """A square of vectors by columns, after ``log2(STEPS)`` steps; which of the two holds it."""
    if STEPS == 1:
        return square
    riffle(square, spare, LANES)
    return transposed(spare, square, STEPS // 2, LANES)


@function
def read_square(source: Any, work: Workspace, line: kl.Scalar, a: kl.Scalar) -> None:
    """As many real numbers of each line as there are lanes, from element `a` on."""
    REAL, LANES = source.form is None, work.lanes
    rows, spare = work.vectors(LANES), work.vectors(LANES)
    for lane in kl.range(LANES):
        row = source.row(line + lane)
        rows[lane] = kl.vload(source.array, *row, a if REAL else 2 * a, lanes=LANES)
    columns = transposed(rows, spare, LANES, LANES)
    for c in kl.range(LANES if REAL else LANES // 2):
        if REAL:
            z = kl.complex(columns[c], columns[c] * 0)
        else:
            z = kl.complex(columns[2 * c], columns[2 * c + 1] * source.sign)
        if source.table is not None:
            z = times(z, element(source.table, (), a + c))
        work.hold(a + c, z)


@function
def write_square(
    target: Any, work: Workspace, origin: kl.Scalar, line: kl.Scalar, a: kl.Scalar
) -> None:
    """Writes what `read_square` reads, from places at `origin` on."""
    REAL, LANES = target.form is None, work.lanes
    columns, spare = work.vectors(LANES), work.vectors(LANES)
    for c in kl.range(LANES if REAL else LANES // 2):
        z = target.finished(work.held(origin + a + c), a + c)
        if REAL:
            columns[c] = z.real
        else:
            columns[2 * c] = z.real
            columns[2 * c + 1] = z.imag
    rows = transposed(columns, spare, LANES, LANES)
    for lane in kl.range(LANES):
        row = target.row(line + lane)
        kl.vstore(target.array, *row, a if REAL else 2 * a, rows[lane])


class Part(NamedTuple):
    """Elements from `first` to `stop` of lines from `line` on."""

    line: Any
    first: Any
    stop: Any


@function
def read_columns(source: Any, work: Workspace, part: Part) -> None:
    """Elements, each of all lines at once."""
    line, first, stop = part
    for a in range(first, stop):
        elements = [source.element(source.row(line + k), a) for k in kl.static_range(work.lanes)]
        z = kl.complex(
            kl.vector(*[z.real for z in elements]), kl.vector(*[z.imag for z in elements])
        )
        work.hold(a, source.multiplied(z, a))


@function
def write_columns(target: Any, work: Workspace, origin: kl.Scalar, part: Part) -> None:
    """Writes what `read_columns` reads, from places at `origin` on."""
    line, first, stop = part
    for a in range(first, stop):
        z = target.finished(work.held(origin + a), a)
        for k in kl.static_range(work.lanes):
            one = kl.complex(z.real[k], z.imag[k])
            put(target.array, target.row(line + k), a, one, target.form)


# -- lines one by one -----------------------------------------------------------------------------


@function
def read_lines(source: Any, work: Workspace, part: Part, count: kl.Scalar) -> None:
    """Elements of so many lines; lanes without a line get zeros."""
    line, first, stop = part
    if count < work.lanes:
        nothing = kl.splat(kl.cast(0, source.sign.dtype), work.lanes)
        for a in range(first, stop):
            work.hold(a, kl.complex(nothing, nothing))
    for lane in range(count):
        row, start = source.row(line + lane), source.start(line + lane)
        for a in range(first, stop):
            work.hold_in(a, lane, source.number(row, source.place(a, start)))


@function
def write_lines(
    target: Any, work: Workspace, origin: kl.Scalar, part: Part, count: kl.Scalar
) -> None:
    """Elements of so many lines, which are held from places at `origin` on."""
    line, first, stop = part
    for lane in range(count):
        row, start = target.row(line + lane), target.start(line + lane)
        for a in range(first, stop):
            z = work.held_in(origin + a, lane)
            if target.coarse is not None:
                z = times(z, target.turn(target.start_in(line + lane), a))
            target.put(row, target.place(a, start), z)


# -- stages ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """One stage of lines of a length, between two halves of a workspace.

    Attributes
    ----------
    work : Workspace
        Where lines are held.
    twiddles : array
        The rotations of all stages.
    begin, end : int
        The places from which it takes numbers, and to which it brings them.
    length : int
        Of the lines.
    before : int
        The product of the radices of earlier stages.
    """

    work: Workspace
    twiddles: Any
    begin: Any
    end: Any
    length: Any
    before: Any

    def turned(self, position: kl.Scalar, q: kl.Scalar, k: kl.Scalar) -> Any:
        """What is held at a place, rotated as the `q`-th of what a butterfly takes, `k` its own."""
        turn = element(self.twiddles, (), self.before - 1 + (q - 1) * self.before + k)
        return times(self.work.held(position), turn)

    def of_radix(self, R: int) -> None:
        """Butterflies of a radix known to the compiler."""
        apart = self.length // R
        for g in range(apart // self.before):
            for k in range(self.before):
                i = self.begin + g * self.before + k
                others = [self.turned(i + q * apart, q, k) for q in kl.static_range(1, R)]
                outputs = dft((self.work.held(i), *others))
                to = self.end + g * (self.before * R) + k
                for q in kl.static_range(R):
                    self.work.hold(to + q * self.before, outputs[q])

    def of_prime(self, R: kl.Scalar, roots: kl.Scalar) -> None:
        """Those of an odd prime radix known at run time; `roots` is where its roots begin."""
        apart, half = self.length // R, R // 2
        pairs = kl.private(LARGEST_PRIME // 2, (self.work.memory.dtype,) * 4, lanes=self.work.lanes)
        for g in range(apart // self.before):
            for k in range(self.before):
                i = self.begin + g * self.before + k
                to = self.end + g * (self.before * R) + k
                first = self.work.held(i)
                total = first
                for j in range(half):
                    x = self.turned(i + (j + 1) * apart, j + 1, k)
                    y = self.turned(i + (R - 1 - j) * apart, R - 1 - j, k)
                    pairs[j] = (x.real + y.real, x.imag + y.imag, x.real - y.real, x.imag - y.imag)
                    total = total + (x + y)
                self.work.hold(to, total)
                for q in range(1, half + 1):
                    even, odd = first, kl.cast(0, first.dtype)
                    for j in range(half):
                        root = element(self.twiddles, (), roots + (j + 1) * q % R)
                        sum_real, sum_imag, gap_real, gap_imag = pairs[j]
                        c, d = root.real, root.imag
                        even = kl.complex(even.real + sum_real * c, even.imag + sum_imag * c)
                        odd = kl.complex(odd.real - gap_imag * d, odd.imag + gap_real * d)
                    self.work.hold(to + q * self.before, even + odd)
                    self.work.hold(to + (R - q) * self.before, even - odd)


@function
def all_stages(work: Workspace, n: kl.Scalar, code: kl.Scalar, twiddles: kl.Array) -> Any:
    """All stages, whose radices are the hexadecimal digits of `code`; returns where they end.

    Behind the rotations of the stages, the table has the roots of the primes from 7 on.
    """
    before = n // n
    begin = kl.cast(0, before.dtype)
    rest = code
    while before < n:
        radix = kl.cast(rest % 16, kl.i32)
        rest = rest // 16
        stage = Stage(work, twiddles, begin, n - begin, n, before)
        if radix == 7 or radix > 8:
            stage.of_prime(radix, n + kl.where(radix == 7, 0, kl.where(radix == 11, 7, 18)))
        else:
            for R in _RADICES:
                if radix == R:
                    stage.of_radix(R)
        begin = n - begin
        before = before * radix
    return begin


@function
def mirror(work: Workspace, n: kl.Scalar) -> None:
    """Hermitian lines of which the first half is there completed, see `MIRRORED`."""
    for k in range(1, (n + 1) // 2):
        work.hold(n - k, kl.conj(work.held(k)))
    first = work.held(0)
    work.hold(0, kl.complex(first.real, first.real * 0))
    if n % 2 == 0:
        middle = work.held(n // 2)
        work.hold(n // 2, kl.complex(middle.real, middle.real * 0))


@function
def recombine(work: Workspace, begin: kl.Scalar, n: kl.Scalar, table: kl.Array, SIGN: int) -> None:
    """Lines merged (`SIGN` 1) or split (-1) in place; with an element more before or behind it."""
    first = work.held(begin)
    other = first.imag if SIGN == -1 else work.held(begin + n).real
    total, gap = first.real + other, first.real - other
    if SIGN == -1:
        nothing = gap * 0
        work.hold(begin, kl.complex(total * 2, nothing))
        work.hold(begin + n, kl.complex(gap * 2, nothing))
    else:
        work.hold(begin, kl.complex(total, gap))
    for k in range(1, n // 2 + 1):
        near, far = work.held(begin + k), work.held(begin + n - k)
        turn = element(table, (), k)
        work.hold(begin + k, recombined(near, far, turn, SIGN))
        # The rotation of the mirrored element is the negative conjugate.
        work.hold(begin + n - k, kl.conj(recombined(near, far, turn, -SIGN)))


# -- blocks of lines ------------------------------------------------------------------------------


@function
def at_a_time(lines: Any, LANES: int) -> int:
    """How many elements of each line are taken together."""
    if lines.near != Form.ALONG:
        return 1
    return LANES if lines.form is None else LANES // 2


@function
def elements_at_once(lines: Any, line: kl.Scalar, n: kl.Scalar, LANES: int) -> Any:
    """How many of the first elements of neighbouring lines can be taken together."""
    x, start = lines.array, lines.start(line)
    # Of the last pair of a row, the second number may be missing.
    end = x.shape[x.ndim - 1] // 2 if lines.form == Form.PAIRED else lines.extent()
    room = end - start - (LANES if lines.near == Form.WITHIN else 1)
    steps = room if lines.step is None else room // lines.step
    return kl.where(room < 0, 0, kl.minimum(n, steps + 1))


@function
def in_squares(count: kl.Scalar, EACH: int) -> Any:
    """How many elements come in squares; the last one may begin with some of the one before."""
    rest = count % EACH
    return kl.where(count < EACH or rest < _FEW, count - rest, count)


@function
def read_block(
    source: Any, work: Workspace, line: kl.Scalar, count: kl.Scalar, n: kl.Scalar
) -> None:
    """Brings lines into a worker's memory, as many elements as possible together."""
    # Whole rows that have no factors are completed when they are there.
    ALONE = source.step is None and source.table is None
    LATER = source.real == Form.MERGED or (source.real == Form.MIRRORED and ALONE)
    many = n
    if LATER:
        many = n + 1 if source.real == Form.MERGED else n // 2 + 1
    done = kl.cast(0, n.dtype)
    if source.near is not None and count == work.lanes:
        EACH = at_a_time(source, work.lanes)
        done = elements_at_once(source, line, many, work.lanes)
        row, start = source.row(line), source.start(line)
        squares = in_squares(done, EACH)
        for a in range(0, squares, EACH):
            if source.near == Form.ALONG:
                read_square(source, work, line, kl.minimum(a, done - EACH))
            else:
                work.hold(a, source.vector(row, source.place(a, start), work.lanes))
        if source.near == Form.ALONG:
            read_columns(source, work, Part(line, squares, done))
    given = replace(source, real=None) if LATER else source
    for begin in range(done, many, _STRETCH):
        part = Part(line, begin, kl.minimum(begin + _STRETCH, many))
        read_lines(given, work, part, count)
    if source.real == Form.MERGED:
        recombine(work, 0, n, source.turns, 1)
    elif LATER:
        mirror(work, n)


@function
def write_block(
    target: Any, work: Workspace, origin: kl.Scalar, line: kl.Scalar, count: kl.Scalar, n: kl.Scalar
) -> None:
    """Takes lines from places at `origin` in a worker's memory, as `read_block` brings them."""
    done = kl.cast(0, n.dtype)
    if target.near is not None and count == work.lanes:
        EACH = at_a_time(target, work.lanes)
        done = elements_at_once(target, line, n, work.lanes)
        row, start = target.row(line), target.start(line)
        squares = in_squares(done, EACH)
        for a in range(0, squares, EACH):
            if target.near == Form.ALONG:
                write_square(target, work, origin, line, kl.minimum(a, done - EACH))
            else:
                z = work.held(origin + a)
                if target.coarse is not None:
                    together = work.lanes if target.near == Form.WITHIN else 1
                    z = times(z, target.turn(target.start_in(line), a, together))
                target.put_vector(row, target.place(a, start), z)
        if target.near == Form.ALONG:
            write_columns(target, work, origin, Part(line, squares, done))
    for begin in range(done, n, _STRETCH):
        part = Part(line, begin, kl.minimum(begin + _STRETCH, n))
        write_lines(target, work, origin, part, count)


@kernel
def transform_in_vectors(
    source: Any,
    target: Any,
    memory: kl.Array,
    twiddles: kl.Array,
    lines: kl.Scalar,
    run: kl.Scalar,
    n: kl.Scalar,
    code: kl.Scalar,
    *,
    LANES: int,
) -> None:
    """Transforms lines, each worker every so many blocks of up to `LANES` of them.

    Parameters
    ----------
    source : Source
        What is read.
    target : Target
        What is written.
    memory : array
        A row for each worker, with room for its lines twice, and an element of each more.
    twiddles : array
        The rotations of the stages, see `portable.array.fourier.plan.stage_rotations`.
    lines, run : int
        How many there are, and of how many neighbours blocks are cut.
    n : int
        Elements of a line.
    code : int
        Its hexadecimal digits are the radices of the stages.
    LANES : int
        Lines of a vector.
    """
    work = Workspace(memory, kl.global_id(0), LANES)
    per_run = kl.cdiv(run, LANES)
    for block in range(kl.global_id(0), lines // run * per_run, memory.shape[0]):
        offset = block % per_run * LANES
        line = block // per_run * run + offset
        count = kl.minimum(run - offset, LANES)
        read_block(source, work, line, count, n)
        transformed = all_stages(work, n, code, twiddles)
        if source.real == Form.SPLIT:
            recombine(work, transformed, n, source.turns, -1)
        many = n + 1 if source.real == Form.SPLIT else n
        write_block(target, work, transformed, line, count, many)
