"""Lines transformed by workgroups: a stage in registers, an exchange through local memory, and on.

The Stockham form of the fast Fourier transform, which needs no reordering: stage by stage, element
``i + k n / R`` goes to ``i // s * s * R + i % s + k s``, where `s` is the product of the earlier
radices. After Govindaraju, Lloyd, Dotsenko, Smith and Manferdelli, "High performance discrete
Fourier transforms on graphics processors", SC 2008; Van Loan, "Computational Frameworks for the
Fast Fourier Transform", 1992, section 1.7.
"""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.array.fourier.access import (
    SPLIT,
    WITHIN,
    element,
    number_at,
    place_of,
    put_at,
    recombined,
    row_of,
    start_of,
    turn_between,
)
from portable.array.fourier.butterflies import dft, rotated, times
from portable.lang.function import function
from portable.lang.kernel import kernel

__all__ = ["transform_by_workgroup"]

_SPACED = 32
"""Elements of local memory after which one is left out, against conflicts of its banks."""


@function
def slot(place: Any, line: Any, N: int, TALL: int, ACROSS: bool) -> Any:
    """Where an element of a line stands in local memory."""
    spaced = place + place // _SPACED
    return spaced * TALL + line if ACROSS else line * (N + N // _SPACED) + spaced


@function
def part_of(z: Any, PART: int) -> Any:
    """The real (0) or imaginary (1) part."""
    return z.real if PART == 0 else z.imag


@function
def counted(N: int, R: int, WIDTH: int, PAIRS: bool) -> int:
    """How many butterflies of radix `R` a work-item does, or twice as many pairs."""
    if PAIRS:
        return 2 * (((N // R + 1) // 2 + WIDTH - 1) // WIDTH)
    return (N // R + WIDTH - 1) // WIDTH


@function
def butterfly_of(t: Any, c: int, MANY: int, WIDTH: int, PAIRS: bool) -> Any:
    """Which of a stage's butterflies a work-item does; the last one where there are no more.

    If in `PAIRS`, by two that hold what is mirrored to each other's: the first and the middle one,
    which hold what is mirrored to their own, or the first twice.
    """
    if not PAIRS:
        return kl.minimum(t + c * WIDTH, MANY - 1)
    pair = kl.minimum(t + c // 2 * WIDTH, (MANY + 1) // 2 - 1)
    if c % 2 == 0:
        return pair
    return kl.where(pair == 0, 0 if MANY % 2 else MANY // 2, MANY - pair)


@function
def is_there(t: Any, c: int, MANY: int, WIDTH: int, PAIRS: bool) -> Any:
    """Whether there is a butterfly for a work-item to do."""
    return t + c // 2 * WIDTH < (MANY + 1) // 2 if PAIRS else t + c * WIDTH < MANY


@function
def scatter(
    memory: Any, held: Any, PART: int, t: Any, b: Any, S: int, R: int, N: int, LAYOUT: Any
) -> None:
    """Parts of a stage's results to where the next stage expects them."""
    WIDTH, TALL, ACROSS = LAYOUT
    for c in kl.static_range(len(held)):
        i = t + c * WIDTH
        if i < N // R:
            to = i // S * (S * R) + i % S
            for k in kl.static_range(R):
                memory[slot(to + k * S, b, N, TALL, ACROSS)] = part_of(held[c][k], PART)


@function
def gathered(memory: Any, t: Any, b: Any, R: int, N: int, LAYOUT: Any, PAIRS: bool) -> Any:
    """Parts of what a stage of radix `R` takes."""
    WIDTH, TALL, ACROSS = LAYOUT
    found = ()
    for c in kl.static_range(counted(N, R, WIDTH, PAIRS)):
        i = butterfly_of(t, c, N // R, WIDTH, PAIRS)
        parts = ()
        for k in kl.static_range(R):
            parts = (*parts, memory[slot(i + k * (N // R), b, N, TALL, ACROSS)])  # type: ignore[assignment]
        found = (*found, parts)  # type: ignore[assignment]
    return found


@function
def chosen(condition: Any, z: Any, other: Any) -> Any:
    """One of two complex numbers."""
    return kl.complex(
        kl.where(condition, z.real, other.real), kl.where(condition, z.imag, other.imag)
    )


@function
def mirrored_to(held: Any, c: int, k: int, first: Any, EVEN: bool) -> Any:
    """The result that is mirrored to one of a work-item's, whose pair may be the `first`."""
    R = len(held[c])
    far = held[c - 1 if c % 2 else c + 1][R - 1 - k]
    own = held[c][R - 1 - k if c % 2 and EVEN else (R - k) % R]
    return chosen(first, own, far)


@function
def split(held: Any, turns: Any, t: Any, S: int, WIDTH: int) -> Any:
    """Results of pairs of real numbers made into those of the numbers."""
    found = ()
    for c in kl.static_range(len(held)):
        turn = element(turns, (), butterfly_of(t, c, S, WIDTH, True), WITHIN)
        group = ()
        for k in kl.static_range(len(held[c])):
            other = mirrored_to(held, c, k, t + c // 2 * WIDTH == 0, S % 2 == 0)
            z = recombined(held[c][k], other, rotated(turn, k, 2 * len(held[c])), -1)
            group = (*group, z)  # type: ignore[assignment]
        found = (*found, group)  # type: ignore[assignment]
    return found


@function
def paired(real: Any, imag: Any) -> Any:
    """Complex numbers of their parts, group by group."""
    found = ()
    for c in kl.static_range(len(real)):
        group = ()
        for k in kl.static_range(len(real[c])):
            group = (*group, kl.complex(real[c][k], imag[c][k]))  # type: ignore[assignment]
        found = (*found, group)  # type: ignore[assignment]
    return found


@function
def staged(memory: Any, read: Any, PART: int, item: Any, N: int, LAYOUT: Any) -> None:
    """Parts of what was read in another order to where the first stage expects them."""
    WIDTH, TALL, ACROSS = LAYOUT
    for m in kl.static_range(len(read)):
        place, line = place_and_line(item, m, N, LAYOUT)
        if item + m * (WIDTH * TALL) < N * TALL:
            memory[slot(place, line, N, TALL, ACROSS)] = part_of(read[m], PART)


@function
def place_and_line(item: Any, m: int, N: int, LAYOUT: Any) -> Any:
    """Which element a work-item reads for others, neighbours lying the other way."""
    WIDTH, TALL, ACROSS = LAYOUT
    GROUP = WIDTH * TALL
    if ACROSS and N % GROUP == 0:
        # The line is the same for all work-items, so that it is looked up once.
        return item + m * GROUP % N, m * GROUP // N
    p = kl.minimum(item + m * GROUP, N * TALL - 1)
    return (p % N, p // N) if ACROSS else (p // TALL, p % TALL)


@function
def butterflies(groups: Any, twiddles: Any, t: Any, S: int, N: int, WIDTH: int, PAIRS: bool) -> Any:
    """A stage's butterflies after rotations by ``exp(-2 pi i k (i % S) / (S R))``."""
    found = ()
    R = len(groups[0])
    for c in kl.static_range(len(groups)):
        i = butterfly_of(t, c, N // R, WIDTH, PAIRS)
        turned = (groups[c][0],)
        for k in kl.static_range(1, R):
            z = groups[c][k]
            if S > 1:
                # The tables of all stages lie behind each other.
                z = times(z, element(twiddles, (), S - 1 + (k - 1) * S + i % S, WITHIN))
            turned = (*turned, z)  # type: ignore[assignment]
        found = (*found, dft(turned))  # type: ignore[assignment]
    return found


@function
def read_first(
    x: Any, table: Any, sign: Any, length: Any, turns: Any, line: Any, step: Any, inner: Any,
    t: Any, R: int, N: int, WIDTH: int, PAIRS: bool, HOW: Any,
) -> Any:  # fmt: skip
    """What the first stage takes, from the array; `HOW` is (IN, REAL, FITTING)."""
    FORM, REAL, FITTING = HOW
    row = row_of(x, line, step, inner, FORM)
    start = start_of(line, step, inner)
    found = ()
    for c in kl.static_range(counted(N, R, WIDTH, PAIRS)):
        i = butterfly_of(t, c, N // R, WIDTH, PAIRS)
        group = ()
        for k in kl.static_range(R):
            j = place_of(i + k * (N // R), start, step)
            z = number_at(x, row, j, sign, table, length, turns, FORM, REAL, FITTING)
            group = (*group, z)  # type: ignore[assignment]
        found = (*found, group)  # type: ignore[assignment]
    return found


@function
def read_for_others(
    x: Any, table: Any, sign: Any, length: Any, turns: Any, lines: Any, step: Any, inner: Any,
    N: int, LAYOUT: Any, HOW: Any,
) -> Any:  # fmt: skip
    """A work-item's share of what the workgroup's first stage takes, neighbours as they lie."""
    FORM, REAL, FITTING = HOW
    found = ()
    for m in kl.static_range((N + LAYOUT[0] - 1) // LAYOUT[0]):
        place, owner = place_and_line(kl.local_id(0), m, N, LAYOUT)
        line = kl.minimum(kl.group_id(0) * LAYOUT[1] + owner, lines - 1)
        j = place_of(place, start_of(line, step, inner), step)
        row = row_of(x, line, step, inner, FORM)
        z = number_at(x, row, j, sign, table, length, turns, FORM, REAL, FITTING)
        found = (*found, z)  # type: ignore[assignment]
    return found


@function
def finish(
    out: Any, held: Any, table: Any, coarse: Any, fine: Any, scales: Any, line: Any, step_in: Any,
    step: Any, inner: Any, t: Any, S: int, WIDTH: int, PAIRS: bool, FORM: Any, FITTING: bool,
) -> None:  # fmt: skip
    """Writes what the last stage found."""
    row = row_of(out, line, step, inner, FORM)
    start, start_in = start_of(line, step, inner), start_of(line, step_in, inner)
    for c in kl.static_range(len(held)):
        i = butterfly_of(t, c, S, WIDTH, PAIRS)
        if is_there(t, c, S, WIDTH, PAIRS):
            if coarse is not None:
                first = turn_between(coarse, fine, start_in, i)
            for k in kl.static_range(len(held[c])):
                z = held[c][k]
                if coarse is not None:
                    # In two factors: neighbours share the second, so that few of them are loaded.
                    turn = first
                    if k > 0:
                        turn = times(first, turn_between(coarse, fine, start_in, k * S))
                    z = times(z, turn)
                put_at(out, row, place_of(i + k * S, start, step), z, table, scales, FORM, FITTING)


@kernel
def transform_by_workgroup(
    x: Any,
    out: Any,
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
    step_in: Any,
    step_out: Any,
    inner: Any,
    *,
    KIND: Any,
    N: int,
    RADICES: Any,
    LAYOUT: Any,
    STAGED: bool,
    WHOLE: bool,
    IN: Any,
    OUT: Any,
    REAL: Any,
    FITTING: bool,
) -> None:
    """Transforms lines of `N`. `LAYOUT` is (WIDTH, TALL, ACROSS).

    A workgroup does `TALL` lines with `WIDTH` work-items each. Neighbouring work-items are at
    neighbouring lines if `ACROSS`, else along a line; the other way round for reading if `STAGED`.
    Real and imaginary parts take turns in local memory unless it has room for the `WHOLE`. `IN` and
    `OUT` say how complex numbers are stored, `REAL` what is done for transforms of real numbers,
    `FITTING` that no rows that are read are filled up, and none that are written cut off.
    """
    WIDTH, TALL, ACROSS = LAYOUT
    STAGES = len(RADICES)
    item = kl.local_id(0)
    b = item % TALL if ACROSS else item // WIDTH
    t = item // TALL if ACROSS else item % WIDTH
    first = kl.group_id(0) * TALL
    line = kl.minimum(first + b, lines - 1)
    SIZE = (N + N // _SPACED) * TALL if STAGES > 1 or STAGED else 1
    memory = kl.local(SIZE, KIND)
    other = kl.local(SIZE, KIND) if WHOLE else memory
    # Results are split where a work-item holds those that are mirrored to each other.
    PAIRS = REAL == SPLIT and STAGES == 1
    if STAGED:
        read = read_for_others(
            x,
            read_table,
            sign,
            length,
            turns,
            lines,
            step_in,
            inner,
            N,
            LAYOUT,
            (IN, REAL, FITTING),
        )
        staged(memory, read, 0, item, N, LAYOUT)
        if WHOLE:
            staged(other, read, 1, item, N, LAYOUT)
        kl.barrier()
        real = gathered(memory, t, b, RADICES[0], N, LAYOUT, PAIRS)
        if not WHOLE:
            kl.barrier()
            staged(other, read, 1, item, N, LAYOUT)
            kl.barrier()
        groups = paired(real, gathered(other, t, b, RADICES[0], N, LAYOUT, PAIRS))
    else:
        groups = read_first(
            x, read_table, sign, length, turns, line, step_in, inner, t, RADICES[0], N, WIDTH,
            PAIRS, (IN, REAL, FITTING),
        )  # fmt: skip
    S = 1
    for stage in kl.static_range(STAGES - 1):
        R = RADICES[stage]
        held = butterflies(groups, twiddles, t, S, N, WIDTH, False)
        PAIRS = REAL == SPLIT and stage == STAGES - 2
        if stage > 0 or STAGED:
            kl.barrier()
        scatter(memory, held, 0, t, b, S, R, N, LAYOUT)
        if WHOLE:
            scatter(other, held, 1, t, b, S, R, N, LAYOUT)
        kl.barrier()
        real = gathered(memory, t, b, RADICES[stage + 1], N, LAYOUT, PAIRS)
        if not WHOLE:
            kl.barrier()
            scatter(other, held, 1, t, b, S, R, N, LAYOUT)
            kl.barrier()
        groups = paired(real, gathered(other, t, b, RADICES[stage + 1], N, LAYOUT, PAIRS))
        S = S * R
    held = butterflies(groups, twiddles, t, S, N, WIDTH, REAL == SPLIT)
    scales = (sign_between, scale, imag_scale)
    if REAL == SPLIT:
        if t == 0 and first + b < lines:
            z = held[0][0]
            last = kl.complex(2 * (z.real - z.imag), 0 * z.real)
            put_at(out, row_of(out, line, None, None, OUT), N, last, None, scales, OUT, FITTING)
        held = split(held, turns, t, S, WIDTH)
    if first + b < lines:
        finish(
            out, held, write_table, coarse, fine, scales, line, step_in, step_out, inner, t, S,
            WIDTH, REAL == SPLIT, OUT, FITTING,
        )  # fmt: skip
