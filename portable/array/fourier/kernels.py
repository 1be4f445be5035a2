"""Lines transformed by workgroups: a stage in registers, an exchange through local memory, and on.

The Stockham form of the fast Fourier transform, which needs no reordering: stage by stage, element
``i + k n / R`` goes to ``i // s * s * R + i % s + k s``, where `s` is the product of the earlier
radices. After Govindaraju, Lloyd, Dotsenko, Smith and Manferdelli, "High performance discrete
Fourier transforms on graphics processors", SC 2008; Van Loan, "Computational Frameworks for the
Fast Fourier Transform", 1992, section 1.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from portable import lang as kl
from portable.array.fourier.access import dft, element, times
from portable.lang.function import function
from portable.lang.kernel import kernel

_SPACED = 32
"""Elements of local memory after which one is left out, against conflicts of its banks."""


@dataclass(frozen=True)
class Stage:
    """A stage as the work-items of a line share it; a constant.

    Attributes
    ----------
    radix : int
        Elements of a butterfly.
    many : int
        Butterflies of a line.
    before : int
        The product of the radices of earlier stages.
    width : int
        Work-items of a line.
    """

    radix: int
    many: int
    before: int
    width: int

    @property
    def each(self) -> int:
        """How many butterflies a work-item does."""
        return -(-self.many // self.width)

    def butterflies(self, t: kl.Scalar) -> Any:
        """Which of them a work-item does; the last one where there are no more."""
        return [kl.minimum(t + c * self.width, self.many - 1) for c in kl.static_range(self.each)]

    def places(self, t: kl.Scalar) -> Any:
        """The elements that each of those takes."""
        return [
            [i + k * self.many for k in kl.static_range(self.radix)] for i in self.butterflies(t)
        ]

    def done(self, groups: Any, twiddles: kl.Array, t: kl.Scalar) -> Any:
        """What the butterflies make of what they take."""
        return [
            dft([self.turned(group[k], twiddles, i, k) for k in kl.static_range(self.radix)])
            for i, group in zip(self.butterflies(t), groups, strict=True)
        ]

    def turned(self, z: kl.Scalar, twiddles: kl.Array, i: kl.Scalar, k: int) -> Any:
        """Rotated by ``exp(-2 pi i k (i % before) / (before radix))``: of the `i`-th the `k`-th."""
        if k == 0 or self.before == 1:
            return z
        # The tables of all stages lie behind each other.
        entry = self.before - 1 + (k - 1) * self.before + i % self.before
        return times(z, element(twiddles, (), entry))


@dataclass(frozen=True)
class Pairs:
    """What a line's results are split by: pairs that are mirrored to each other; a constant.

    Attributes
    ----------
    length : int
        Of the line.
    width : int
        Work-items of a line.
    """

    length: int
    width: int

    def places(self, t: kl.Scalar) -> Any:
        """The elements of a work-item's pairs; the last one where there are no more."""
        last = self.length // 2
        columns = [kl.minimum(t + c, last) for c in kl.static_range(0, last + 1, self.width)]
        return [(k, (self.length - k) % self.length) for k in columns]

    def write(
        self, target: Any, line: kl.Scalar, pairs: Any, turns: kl.Array, t: kl.Scalar
    ) -> None:
        """Splits and writes them."""
        row = target.row(line)
        for c, pair in enumerate(pairs):
            k = t + c * self.width
            if k <= self.length // 2:
                target.put_pair(row, k, self.length, pair, element(turns, (), k), -1)


@function
def part_of(z: kl.Scalar, PART: int) -> Any:
    """The real (0) or imaginary (1) part."""
    return z.real if PART == 0 else z.imag


@dataclass(frozen=True)
class Shape:
    """How a workgroup shares lines; a constant of the kernel.

    Attributes
    ----------
    kind : DType
        Of the parts of numbers.
    length : int
        Of a line.
    radices : tuple of int
        Of the stages.
    width, tall : int
        Work-items of a line, and lines.
    across : bool
        Whether neighbouring work-items are at neighbouring lines, else along a line.
    staged : bool
        Whether they read the other way round.
    whole : bool
        Whether local memory has room for both parts of numbers, which else take turns.
    splits : bool
        Whether results are split.
    """

    kind: Any
    length: int
    radices: Any
    width: int
    tall: int
    across: bool
    staged: bool
    whole: bool
    splits: bool

    @property
    def group(self) -> int:
        """Work-items of a workgroup."""
        return self.width * self.tall

    @property
    def room(self) -> int:
        """Places of local memory for one part of all numbers."""
        if len(self.radices) == 1 and not self.staged and not self.splits:
            return 1
        return (self.length + self.length // _SPACED) * self.tall

    @property
    def stages(self) -> tuple[Stage, ...]:
        """One after the other."""
        return tuple(
            Stage(radix, self.length // radix, prod(self.radices[:i]), self.width)
            for i, radix in enumerate(self.radices)
        )

    def slot(self, position: kl.Scalar, line: kl.Scalar) -> Any:
        """Where an element of a line stands in local memory."""
        spaced = position + position // _SPACED
        if self.across:
            return spaced * self.tall + line
        return line * (self.length + self.length // _SPACED) + spaced

    def place_and_line(self, item: kl.Scalar, m: int) -> Any:
        """Which element a work-item reads for others, neighbours lying the other way."""
        if self.across and self.length % self.group == 0:
            # The line is the same for all work-items, so that it is looked up once.
            return item + m * self.group % self.length, m * self.group // self.length
        p = kl.minimum(item + m * self.group, self.length * self.tall - 1)
        if self.across:
            return p % self.length, p // self.length
        return p // self.tall, p % self.tall


@dataclass(frozen=True)
class Item:
    """A work-item: the line of the workgroup that it works at, and its number among those there."""

    shape: Shape
    line: Any
    t: Any

    def gathered(self, memory: kl.Array, stage: Any) -> Any:
        """Parts of what a stage takes."""
        return [
            [memory[self.shape.slot(slot, self.line)] for slot in group]
            for group in stage.places(self.t)
        ]

    def exchanged(self, memory: tuple[kl.Array, ...], given: Any, stage: Any) -> Any:
        """What a stage takes, once each work-item has put what is `given` where it belongs."""
        real_parts, imag_parts = memory
        given.put(real_parts, 0, self)
        if self.shape.whole:
            given.put(imag_parts, 1, self)
        kl.barrier()
        real = self.gathered(real_parts, stage)
        if not self.shape.whole:
            kl.barrier()
            given.put(imag_parts, 1, self)
            kl.barrier()
        imag = self.gathered(imag_parts, stage)
        return [
            [kl.complex(x, y) for x, y in zip(*group, strict=True)]
            for group in zip(real, imag, strict=True)
        ]


@dataclass(frozen=True)
class Results:
    """What a stage found."""

    stage: Stage
    groups: Any

    def put(self, memory: kl.Array, PART: int, item: Item) -> None:
        """Parts to where the next stage expects them."""
        radix, before = self.stage.radix, self.stage.before
        for c in kl.static_range(self.stage.each):
            i = item.t + c * self.stage.width
            if i < self.stage.many:
                to = i // before * (before * radix) + i % before
                for k in kl.static_range(radix):
                    slot = item.shape.slot(to + k * before, item.line)
                    memory[slot] = part_of(self.groups[c][k], PART)


@dataclass(frozen=True)
class ReadForOthers:
    """What work-items have read in another order than they take it."""

    numbers: Any

    def put(self, memory: kl.Array, PART: int, item: Item) -> None:
        """Parts to where the first stage expects them."""
        shape, item_number = item.shape, kl.local_id(0)
        for m in kl.static_range(len(self.numbers)):
            slot, line = shape.place_and_line(item_number, m)
            if item_number + m * shape.group < shape.length * shape.tall:
                memory[shape.slot(slot, line)] = part_of(self.numbers[m], PART)


@function
def read_for_others(source: Any, first: kl.Scalar, lines: kl.Scalar, shape: Shape) -> Any:
    """A work-item's share of what the workgroup's first stage takes, neighbours as they lie."""
    return ReadForOthers(
        [
            read_one(source, *shape.place_and_line(kl.local_id(0), m), first, lines)
            for m in kl.static_range(kl.cdiv(shape.length, shape.width))
        ]
    )


@function
def read_one(
    source: Any, position: kl.Scalar, owner: kl.Scalar, first: kl.Scalar, lines: kl.Scalar
) -> Any:
    """An element of a line of the workgroup whose lines begin with the `first`."""
    line = kl.minimum(first + owner, lines - 1)
    j = source.place(position, source.start(line))
    return source.number(source.row(line), j)


@function
def read_own(source: Any, line: kl.Scalar, stage: Stage, t: kl.Scalar) -> Any:
    """What the first stage takes, from the array."""
    row, start = source.row(line), source.start(line)
    return [
        [source.number(row, source.place(slot, start)) for slot in group]
        for group in stage.places(t)
    ]


@function
def write(target: Any, line: kl.Scalar, held: Any, stage: Stage, t: kl.Scalar) -> None:
    """Writes what the last stage found."""
    row, start = target.row(line), target.start(line)
    start_in = target.start_in(line)
    for c, i in enumerate(stage.butterflies(t)):
        if t + c * stage.width < stage.many:
            if target.coarse is not None:
                first = target.turn(start_in, i)
            for k in kl.static_range(stage.radix):
                z = held[c][k]
                if target.coarse is not None:
                    # In two factors: neighbours share the second, so that few of them are loaded.
                    turn = first
                    if k > 0:
                        turn = times(first, target.turn(start_in, k * stage.many))
                    z = times(z, turn)
                target.put(row, target.place(i + k * stage.many, start), z)


@kernel
def transform_by_workgroup(
    source: Any, target: Any, twiddles: kl.Array, lines: kl.Scalar, *, SHAPE: Shape
) -> None:
    """Transforms lines, each workgroup as many as it is tall.

    Parameters
    ----------
    source : Source
        What is read.
    target : Target
        What is written.
    twiddles : array
        The rotations of the stages, see `portable.array.fourier.plan.stage_rotations`.
    lines : int
        How many there are.
    SHAPE : Shape
        How a workgroup shares them.
    """
    FIRST, LAST = SHAPE.stages[0], SHAPE.stages[len(SHAPE.stages) - 1]
    local = kl.local_id(0)
    b = local % SHAPE.tall if SHAPE.across else local // SHAPE.width
    t = local // SHAPE.tall if SHAPE.across else local % SHAPE.width
    item = Item(SHAPE, b, t)
    first = kl.group_id(0) * SHAPE.tall
    line = kl.minimum(first + b, lines - 1)
    real_parts = kl.local(SHAPE.room, SHAPE.kind)
    memory = (real_parts, kl.local(SHAPE.room, SHAPE.kind) if SHAPE.whole else real_parts)
    if SHAPE.staged:
        read = read_for_others(source, first, lines, SHAPE)
        groups = item.exchanged(memory, read, FIRST)
    else:
        groups = read_own(source, line, FIRST, t)
    for number in kl.static_range(1, len(SHAPE.stages)):
        STAGE = SHAPE.stages[number - 1]
        held = STAGE.done(groups, twiddles, t)
        if number > 1 or SHAPE.staged:
            kl.barrier()
        groups = item.exchanged(memory, Results(STAGE, held), SHAPE.stages[number])
    held = LAST.done(groups, twiddles, t)
    if SHAPE.splits:
        if len(SHAPE.stages) > 1 or SHAPE.staged:
            kl.barrier()
        PAIRS = Pairs(SHAPE.length, SHAPE.width)
        pairs = item.exchanged(memory, Results(LAST, held), PAIRS)
        if first + b < lines:
            PAIRS.write(target, line, pairs, source.turns, t)
    elif first + b < lines:
        write(target, line, held, LAST, t)
