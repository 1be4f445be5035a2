"""Lines transformed by processors: a vector holds an element of each of several lines.

So every step is vector arithmetic without exchanges between lanes. The stages are those of
`kernels`, their radices known at run time only, so that few programs do all lengths. They go to
and fro between two halves of a worker's own memory, which stays in the processor's cache.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fourier.access import (
    ALONG,
    MERGED,
    MIRRORED,
    PAIRED,
    SPLIT,
    WITHIN,
    element,
    extent,
    number_at,
    pair_of,
    place_of,
    put_at,
    recombined,
    row_of,
    scaled,
    start_of,
    turn_between,
)
from portable.array.fourier.butterflies import dft, times
from portable.array.fourier.plan import LARGEST_PRIME
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["transform_in_vectors"]

_RADICES = (2, 3, 4, 5, 8)
"""Those that have code of their own; the others are odd primes, which share code."""
_STRETCH = 32
"""Elements of a line after which another line has its turn, so that what they share is cached."""


# -- vectors of complex numbers -----------------------------------------------------------------


@function
def complex_vector(x: Any, before: Any, at: Any, after: Any, LANES: int) -> Any:
    """`LANES` complex numbers whose parts lie behind each other along a dimension."""
    AXIS = -1 - len(after)
    low = kl.vload(x, *before, at, *after, lanes=LANES, axis=AXIS)
    high = kl.vload(x, *before, at + LANES, *after, lanes=LANES, axis=AXIS)
    real = ()
    imag = ()
    for lane in kl.static_range(LANES):
        half = low if 2 * lane < LANES else high
        real = (*real, half[2 * lane % LANES])  # type: ignore[assignment]
        imag = (*imag, half[2 * lane % LANES + 1])  # type: ignore[assignment]
    return kl.complex(kl.vector(*real), kl.vector(*imag))


@function
def put_complex_vector(x: Any, before: Any, at: Any, after: Any, z: Any, LANES: int) -> None:
    """Writes what `complex_vector` reads."""
    HALF = LANES // 2
    for part in kl.static_range(2):
        mixed = ()
        for lane in kl.static_range(part * HALF, part * HALF + HALF):
            mixed = (*mixed, z.real[lane], z.imag[lane])  # type: ignore[assignment]
        start = at + part * LANES
        kl.vstore(x, *before, start, *after, kl.vector(*mixed), axis=-1 - len(after))


@function
def held_at(memory: Any, worker: Any, place: Any, LANES: int) -> Any:
    """What a worker's memory holds at a place, in each lane."""
    at = place * (2 * LANES)
    if LANES == 1:
        return kl.complex(memory[worker, at], memory[worker, at + 1])
    real = kl.vload(memory, worker, at, lanes=LANES)
    return kl.complex(real, kl.vload(memory, worker, at + LANES, lanes=LANES))


@function
def hold(memory: Any, worker: Any, place: Any, z: Any, LANES: int) -> None:
    """Writes what `held_at` reads."""
    at = place * (2 * LANES)
    if LANES == 1:
        memory[worker, at] = z.real
        memory[worker, at + 1] = z.imag
    else:
        kl.vstore(memory, worker, at, z.real)
        kl.vstore(memory, worker, at + LANES, z.imag)


@function
def factors_at(table: Any, j: Any, HOW: str, LANES: int) -> Any:
    """What neighbouring lines are multiplied by: the same number, unless they share a row."""
    if table is None:
        return None
    if HOW == WITHIN:
        return complex_vector(table, (), 2 * j, (), LANES)
    return element(table, (), j, WITHIN)


# -- neighbouring lines together ----------------------------------------------------------------


@function
def vector_at(
    x: Any, row: Any, j: Any, sign: Any, table: Any, HOW: str, FORM: Any, LANES: int
) -> Any:
    """`number_at` of neighbouring lines, all of them there."""
    last = len(row) - 1
    if HOW == WITHIN and FORM is None:
        found = kl.vload(x, *row, j, lanes=LANES)
        z = kl.complex(found, found * 0)
    elif HOW == WITHIN:
        z = complex_vector(x, row, 2 * j, (), LANES)
    elif FORM is None:
        found = kl.vload(x, *row, j, lanes=LANES, axis=-2)
        z = kl.complex(found, found * 0)
    elif FORM == PAIRED:
        found = kl.vload(x, *row, 2 * j, lanes=LANES, axis=-2)
        z = kl.complex(found, kl.vload(x, *row, 2 * j + 1, lanes=LANES, axis=-2))
    else:
        z = complex_vector(x, row[:last], 2 * row[last], (j,), LANES)
    z = kl.complex(z.real, z.imag * sign)
    return z if table is None else times(z, factors_at(table, j, HOW, LANES))


@function
def put_vector(
    out: Any, row: Any, k: Any, z: Any, table: Any, scales: Any, HOW: str, FORM: Any, LANES: int
) -> None:
    """`put_at` of neighbouring lines, for all of which there is room."""
    last = len(row) - 1
    z = scaled(z, factors_at(table, k, HOW, LANES), scales)
    if FORM is None:
        kl.vstore(out, *row, k, z.real, axis=-1 if HOW == WITHIN else -2)
    elif HOW == WITHIN:
        put_complex_vector(out, row, 2 * k, (), z, LANES)
    elif FORM == PAIRED:
        kl.vstore(out, *row, 2 * k, z.real, axis=-2)
        kl.vstore(out, *row, 2 * k + 1, z.imag, axis=-2)
    else:
        put_complex_vector(out, row[:last], 2 * row[last], (k,), z, LANES)


@function
def turned_vector(z: Any, coarse: Any, fine: Any, start: Any, k: Any, NEAR: str, LANES: int) -> Any:
    """Rotations between passes of neighbouring lines, which begin alike unless they share a row."""
    if NEAR != WITHIN:
        return times(z, turn_between(coarse, fine, start, k))
    width = extent(fine, WITHIN)
    across = complex_vector(fine, (k,), 2 * (start % width), (), LANES)
    return times(z, times(element(coarse, (start // width,), k, WITHIN), across))


# -- lines beside each other turned into vectors --------------------------------------------------


@function
def interleaved(x: Any, y: Any, START: int, LANES: int) -> Any:
    """Half of the lanes of two vectors in turn."""
    mixed = ()
    for lane in kl.static_range(START, START + LANES // 2):
        mixed = (*mixed, x[lane], y[lane])  # type: ignore[assignment]
    return kl.vector(*mixed)


@function
def riffle(square: Any, spare: Any, LANES: int) -> None:
    """One step of a transposition: each vector of the upper half with its one of the lower."""
    HALF = LANES // 2
    for i in kl.range(HALF):
        x, y = square[i], square[i + HALF]
        spare[2 * i] = interleaved(x, y, 0, LANES)
        spare[2 * i + 1] = interleaved(x, y, HALF, LANES)


@function
def transposed(square: Any, spare: Any, STEPS: int, LANES: int) -> Any:
    """A square of vectors by columns, after ``log2(STEPS)`` steps; which of the two holds it."""
    if STEPS == 1:
        return square
    riffle(square, spare, LANES)
    return transposed(spare, square, STEPS // 2, LANES)


@function
def read_square(
    x: Any, memory: Any, worker: Any, line: Any, a: Any, sign: Any, table: Any, FORM: Any,
    LANES: int,
) -> None:  # fmt: skip
    """As many real numbers of each line as there are lanes, from element `a` on."""
    rows = kl.private(LANES, memory.dtype, lanes=LANES)
    spare = kl.private(LANES, memory.dtype, lanes=LANES)
    for lane in kl.range(LANES):
        row = row_of(x, line + lane, None, None, FORM)
        rows[lane] = kl.vload(x, *row, a if FORM is None else 2 * a, lanes=LANES)
    columns = transposed(rows, spare, LANES, LANES)
    for c in kl.range(LANES if FORM is None else LANES // 2):
        if FORM is None:
            z = kl.complex(columns[c], columns[c] * 0)
        else:
            z = kl.complex(columns[2 * c], columns[2 * c + 1] * sign)
        if table is not None:
            z = times(z, element(table, (), a + c, WITHIN))
        hold(memory, worker, a + c, z, LANES)


@function
def write_square(
    out: Any, memory: Any, worker: Any, source: Any, line: Any, a: Any, table: Any, scales: Any,
    FORM: Any, LANES: int,
) -> None:  # fmt: skip
    """Writes what `read_square` reads."""
    columns = kl.private(LANES, memory.dtype, lanes=LANES)
    spare = kl.private(LANES, memory.dtype, lanes=LANES)
    for c in kl.range(LANES if FORM is None else LANES // 2):
        z = held_at(memory, worker, source + a + c, LANES)
        z = scaled(z, None if table is None else element(table, (), a + c, WITHIN), scales)
        if FORM is None:
            columns[c] = z.real
        else:
            columns[2 * c] = z.real
            columns[2 * c + 1] = z.imag
    rows = transposed(columns, spare, LANES, LANES)
    for lane in kl.range(LANES):
        row = row_of(out, line + lane, None, None, FORM)
        kl.vstore(out, *row, a if FORM is None else 2 * a, rows[lane])


@function
def read_column(
    x: Any, memory: Any, worker: Any, line: Any, a: Any, sign: Any, table: Any, FORM: Any,
    LANES: int,
) -> None:  # fmt: skip
    """Element `a` of each line, which all of them have."""
    real = ()
    imag = ()
    for lane in kl.static_range(LANES):
        z = element(x, row_of(x, line + lane, None, None, FORM), a, FORM)
        real = (*real, z.real)  # type: ignore[assignment]
        imag = (*imag, z.imag)  # type: ignore[assignment]
    z = kl.complex(kl.vector(*real), kl.vector(*imag) * sign)
    hold(memory, worker, a, z if table is None else times(z, element(table, (), a, WITHIN)), LANES)


@function
def write_column(
    out: Any, memory: Any, worker: Any, source: Any, line: Any, a: Any, table: Any, scales: Any,
    FORM: Any, LANES: int,
) -> None:  # fmt: skip
    """Writes what `read_column` reads."""
    z = held_at(memory, worker, source + a, LANES)
    z = scaled(z, None if table is None else element(table, (), a, WITHIN), scales)
    for lane in kl.static_range(LANES):
        row = row_of(out, line + lane, None, None, FORM)
        if FORM is None:
            out[*row, a] = z.real[lane]
        else:
            out[*pair_of(row, a, 0, FORM)] = z.real[lane]
            out[*pair_of(row, a, 1, FORM)] = z.imag[lane]


# -- lines one by one -----------------------------------------------------------------------------


@function
def read_lines(
    x: Any, memory: Any, worker: Any, line: Any, count: Any, first: Any, stop: Any, step: Any,
    inner: Any, sign: Any, table: Any, length: Any, FORM: Any, REAL: Any, LANES: int,
) -> None:  # fmt: skip
    """Elements from `first` to `stop`; lanes without a line get zeros."""
    if count < LANES:
        zero = kl.cast(0, sign.dtype)
        nothing = zero if LANES == 1 else kl.splat(zero, LANES)
        for a in range(first, stop):
            hold(memory, worker, a, kl.complex(nothing, nothing), LANES)
    for lane in range(count):
        own = line + lane
        row = row_of(x, own, step, inner, FORM)
        for a in range(first, stop):
            j = place_of(a, start_of(own, step, inner), step)
            z = number_at(x, row, j, sign, table, length, None, FORM, REAL, False)
            memory[worker, a * (2 * LANES) + lane] = z.real
            memory[worker, a * (2 * LANES) + LANES + lane] = z.imag


@function
def write_lines(
    out: Any, memory: Any, worker: Any, source: Any, line: Any, count: Any, first: Any, stop: Any,
    step_in: Any, step: Any, inner: Any, coarse: Any, fine: Any, table: Any, scales: Any, FORM: Any,
    LANES: int,
) -> None:  # fmt: skip
    """Elements from `first` to `stop`."""
    for lane in range(count):
        own = line + lane
        row = row_of(out, own, step, inner, FORM)
        for a in range(first, stop):
            at = (source + a) * (2 * LANES) + lane
            z = kl.complex(memory[worker, at], memory[worker, at + LANES])
            if coarse is not None:
                z = times(z, turn_between(coarse, fine, start_of(own, step_in, inner), a))
            k = place_of(a, start_of(own, step, inner), step)
            put_at(out, row, k, z, table, scales, FORM, False)


# -- stages ---------------------------------------------------------------------------------------


@function
def stage(
    memory: Any, worker: Any, source: Any, target: Any, n: Any, s: Any, twiddles: Any,
    R: int, LANES: int,
) -> None:  # fmt: skip
    """One stage of radix `R` from places at `source` to places at `target`, after `s` elements."""
    apart = n // R
    for g in range(apart // s):
        for k in range(s):
            i = g * s + k
            parts = (held_at(memory, worker, source + i, LANES),)
            for q in kl.static_range(1, R):
                z = held_at(memory, worker, source + i + q * apart, LANES)
                turn = element(twiddles, (), s - 1 + (q - 1) * s + k, WITHIN)
                parts = (*parts, times(z, turn))  # type: ignore[assignment]
            found = dft(parts)
            for q in kl.static_range(R):
                hold(memory, worker, target + g * (s * R) + k + q * s, found[q], LANES)


@function
def stage_of_prime(
    memory: Any, worker: Any, source: Any, target: Any, n: Any, s: Any, twiddles: Any,
    R: Any, start: Any, LANES: int,
) -> None:  # fmt: skip
    """`stage` of an odd prime radix known at run time, whose roots are in the table at `start`."""
    apart = n // R
    H = LARGEST_PRIME // 2
    sum_real = kl.private(H, memory.dtype, lanes=LANES)
    sum_imag = kl.private(H, memory.dtype, lanes=LANES)
    gap_real = kl.private(H, memory.dtype, lanes=LANES)
    gap_imag = kl.private(H, memory.dtype, lanes=LANES)
    for g in range(apart // s):
        for k in range(s):
            i = source + g * s + k
            to = target + g * (s * R) + k
            first = held_at(memory, worker, i, LANES)
            total = first
            for j in range(R // 2):
                q, mirrored = j + 1, R - 1 - j
                x = held_at(memory, worker, i + q * apart, LANES)
                y = held_at(memory, worker, i + mirrored * apart, LANES)
                x = times(x, element(twiddles, (), s - 1 + (q - 1) * s + k, WITHIN))
                y = times(y, element(twiddles, (), s - 1 + (mirrored - 1) * s + k, WITHIN))
                sum_real[j] = x.real + y.real
                sum_imag[j] = x.imag + y.imag
                gap_real[j] = x.real - y.real
                gap_imag[j] = x.imag - y.imag
                total = total + (x + y)
            hold(memory, worker, to, total, LANES)
            for q in range(1, R // 2 + 1):
                even = first
                odd = kl.cast(0, first.dtype)
                power = 0
                for j in range(R // 2):
                    power = power + q
                    power = kl.where(power >= R, power - R, power)
                    root = element(twiddles, (), start + power, WITHIN)
                    c, d = root.real, root.imag
                    even = kl.complex(even.real + sum_real[j] * c, even.imag + sum_imag[j] * c)
                    odd = kl.complex(odd.real - gap_imag[j] * d, odd.imag + gap_real[j] * d)
                hold(memory, worker, to + q * s, even + odd, LANES)
                hold(memory, worker, to + (R - q) * s, even - odd, LANES)


@function
def stages(memory: Any, worker: Any, n: Any, code: Any, twiddles: Any, LANES: int) -> Any:
    """All stages, whose radices are the hexadecimal digits of `code`; returns where they end.

    Behind the rotations of the stages, the table has the roots of the primes from 7 on.
    """
    s = n // n
    source = kl.cast(0, s.dtype)
    rest = code
    while s < n:
        radix = kl.cast(rest % 16, kl.i32)
        rest = rest // 16
        if radix == 7 or radix > 8:
            start = n + kl.where(radix == 7, 0, kl.where(radix == 11, 7, 18))
            stage_of_prime(
                memory, worker, source, n - source, n, s, twiddles, radix, start, LANES
            )  # fmt: skip
        else:
            for R in _RADICES:
                if radix == R:
                    stage(memory, worker, source, n - source, n, s, twiddles, R, LANES)
        source = n - source
        s = s * radix
    return source


@function
def mirror(memory: Any, worker: Any, n: Any, LANES: int) -> None:
    """Hermitian lines of which the first half is there completed, see `number_at`."""
    for k in range(1, (n + 1) // 2):
        z = held_at(memory, worker, k, LANES)
        hold(memory, worker, n - k, kl.complex(z.real, -z.imag), LANES)
    first = held_at(memory, worker, 0, LANES)
    hold(memory, worker, 0, kl.complex(first.real, first.real * 0), LANES)
    if n % 2 == 0:
        middle = held_at(memory, worker, n // 2, LANES)
        hold(memory, worker, n // 2, kl.complex(middle.real, middle.real * 0), LANES)


@function
def recombine(
    memory: Any, worker: Any, source: Any, n: Any, turns: Any, SIGN: int, LANES: int
) -> None:
    """Lines merged (`SIGN` 1) or split (-1) in place; with an element more before or behind it."""
    first = held_at(memory, worker, source, LANES)
    other = first.imag if SIGN == -1 else held_at(memory, worker, source + n, LANES).real
    total, gap = first.real + other, first.real - other
    if SIGN == -1:
        nothing = gap * 0
        hold(memory, worker, source, kl.complex(total * 2, nothing), LANES)
        hold(memory, worker, source + n, kl.complex(gap * 2, nothing), LANES)
    else:
        hold(memory, worker, source, kl.complex(total, gap), LANES)
    for k in range(1, n // 2 + 1):
        near = held_at(memory, worker, source + k, LANES)
        far = held_at(memory, worker, source + n - k, LANES)
        turn = element(turns, (), k, WITHIN)
        hold(memory, worker, source + k, recombined(near, far, turn, SIGN), LANES)
        # The rotation of the mirrored element is the negative conjugate.
        z = recombined(near, far, turn, -SIGN)
        hold(memory, worker, source + n - k, kl.complex(z.real, -z.imag), LANES)


@function
def read_block(
    x: Any, memory: Any, worker: Any, line: Any, count: Any, n: Any, step: Any, inner: Any,
    sign: Any, table: Any, length: Any, turns: Any, HOW: Any, REAL: Any, LANES: int,
) -> None:  # fmt: skip
    """Brings lines into a worker's memory, as many elements as possible together."""
    NEAR, FORM = HOW
    # Whole rows that have no factors are completed when they are there.
    LATER = REAL == MERGED or (REAL == MIRRORED and step is None and table is None)
    many = n
    if LATER:
        many = n + 1 if REAL == MERGED else n // 2 + 1
    done = kl.cast(0, n.dtype)
    if NEAR is not None and count == LANES:
        SIDE = side_of(NEAR, FORM, LANES)
        start = start_of(line, step, inner)
        there = elements_at_once(whole(x, FORM), many, start, step, NEAR, LANES)
        done = there // SIDE * SIDE
        row = row_of(x, line, step, inner, FORM)
        for a in range(0, done, SIDE):
            if NEAR == ALONG:
                read_square(x, memory, worker, line, a, sign, table, FORM, LANES)
            else:
                z = vector_at(x, row, place_of(a, start, step), sign, table, NEAR, FORM, LANES)
                hold(memory, worker, a, z, LANES)
        if NEAR == ALONG:
            for a in range(done, there):
                read_column(x, memory, worker, line, a, sign, table, FORM, LANES)
            done = there
    for begin in range(done, many, _STRETCH):
        stop = kl.minimum(begin + _STRETCH, many)
        read_lines(
            x, memory, worker, line, count, begin, stop, step, inner, sign, table, length, FORM,
            None if LATER or REAL == SPLIT else REAL, LANES,
        )  # fmt: skip
    if REAL == MERGED:
        recombine(memory, worker, 0, n, turns, 1, LANES)
    elif LATER:
        mirror(memory, worker, n, LANES)


@function
def write_block(
    out: Any, memory: Any, worker: Any, source: Any, line: Any, count: Any, n: Any, step_in: Any,
    step: Any, inner: Any, coarse: Any, fine: Any, table: Any, scales: Any, HOW: Any, LANES: int,
) -> None:  # fmt: skip
    """Takes lines from a worker's memory, as many elements as possible together."""
    NEAR, FORM = HOW
    done = kl.cast(0, n.dtype)
    if NEAR is not None and count == LANES:
        SIDE = side_of(NEAR, FORM, LANES)
        start = start_of(line, step, inner)
        there = elements_at_once(whole(out, FORM), n, start, step, NEAR, LANES)
        done = there // SIDE * SIDE
        row = row_of(out, line, step, inner, FORM)
        for a in range(0, done, SIDE):
            if NEAR == ALONG:
                write_square(out, memory, worker, source, line, a, table, scales, FORM, LANES)
            else:
                z = held_at(memory, worker, source + a, LANES)
                if coarse is not None:
                    begin_in = start_of(line, step_in, inner)
                    z = turned_vector(z, coarse, fine, begin_in, a, NEAR, LANES)
                put_vector(out, row, place_of(a, start, step), z, table, scales, NEAR, FORM, LANES)
        if NEAR == ALONG:
            for a in range(done, there):
                write_column(out, memory, worker, source, line, a, table, scales, FORM, LANES)
            done = there
    for begin in range(done, n, _STRETCH):
        stop = kl.minimum(begin + _STRETCH, n)
        write_lines(
            out, memory, worker, source, line, count, begin, stop, step_in, step, inner, coarse,
            fine, table, scales, FORM, LANES,
        )  # fmt: skip


@function
def side_of(NEAR: str, FORM: Any, LANES: int) -> int:
    """How many elements of each line are taken at a time."""
    if NEAR != ALONG:
        return 1
    return LANES if FORM is None else LANES // 2


@function
def whole(x: Any, FORM: Any) -> Any:
    """How many numbers of a row lack nothing."""
    return x.shape[x.ndim - 1] // 2 if FORM == PAIRED else extent(x, FORM)


@function
def elements_at_once(end: Any, n: Any, start: Any, step: Any, NEAR: str, LANES: int) -> Any:
    """How many of the first elements of lines can be taken together, rows having `end`."""
    room = end - start - (LANES if NEAR == WITHIN else 1)
    steps = room if step is None else room // step
    return kl.where(room < 0, 0, kl.minimum(n, steps + 1))


@kernel
def transform_in_vectors(
    x: Any,
    out: Any,
    memory: Any,
    twiddles: Any,
    read_table: Any,
    write_table: Any,
    coarse: Any,
    fine: Any,
    sign: Any,
    sign_between: Any,
    scale: Any,
    imag_scale: Any,
    length: Any,
    turns: Any,
    lines: Any,
    run: Any,
    step_in: Any,
    step_out: Any,
    inner: Any,
    n: Any,
    code: Any,
    *,
    LANES: int,
    IN: Any,
    OUT: Any,
    REAL: Any,
) -> None:
    """Transforms lines of `n`, each worker every so many blocks of up to `LANES` lines.

    Blocks are cut from runs of `run` lines. `IN` and `OUT` are pairs: where neighbouring lines lie
    (`WITHIN` rows or `BESIDE` each other; None if they cannot be taken as vectors), and how an
    array holds the parts of complex numbers, None for numbers as such. `REAL` says what is done for
    transforms of real numbers.
    """
    worker = kl.global_id(0)
    scales = (sign_between, scale, imag_scale)
    per_run = kl.cdiv(run, LANES)
    for block in range(worker, lines // run * per_run, memory.shape[0]):
        offset = block % per_run * LANES
        line = block // per_run * run + offset
        count = kl.minimum(run - offset, LANES)
        read_block(
            x, memory, worker, line, count, n, step_in, inner, sign, read_table, length, turns, IN,
            REAL, LANES,
        )  # fmt: skip
        source = stages(memory, worker, n, code, twiddles, LANES)
        if REAL == SPLIT:
            recombine(memory, worker, source, n, turns, -1, LANES)
        many = n + 1 if REAL == SPLIT else n
        write_block(
            out, memory, worker, source, line, count, many, step_in, step_out, inner, coarse, fine,
            write_table, scales, OUT, LANES,
        )  # fmt: skip
