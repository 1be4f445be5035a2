"""A band made narrower by whole panels: neighbouring rows, and then columns, eliminated together.

A sweep eliminates a panel of `COUNT` rows. Its hop at `s` combines columns `s` to ``s + M - 1`` so
that a panel ends where it shall: in the first hop the sweep's own, `N` superdiagonals from the
diagonal, and in later ones, `B` from it, the first rows of those that the hop before has filled in.
Then the hop combines rows `s` to ``s + M - 1``, so that nothing is left below the diagonal in
`COUNT` columns. What else has filled in is left to the next sweep. The next hop is `B` further. (C.
Bischof, B. Lang, X. Sun, "A framework for symmetric band reduction", ACM TOMS 26 (2000), does so
for symmetric matrices.)

Both halves of a hop are the same but for rows and columns: a block's first lines are the panel, of
which `COUNT` reflectors are made, one after another; all other lines are combined by these.
Sub-groups hold lines in registers. The first few have the panel and meet for each reflector, which
they leave in local memory; the others combine their lines with the reflectors of the panel before,
which are all at hand, and wait for nobody. So a line is read and written once for `COUNT`
reflectors, and a workgroup waits for another one once for as many.

A sweep is a workgroup. It may begin half h when the one before is done with half ``h + 2 LAG - 1``.
That one must have seen as much of the one before it when it says so, since lines reach farther than
from one sweep to the next: progress is published only after that has been waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from portable import lang as kl
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.linalg.bands.kernels import FINISHED, follow, publish, taken_pack
from portable.linalg.bands.narrowing import Narrowing
from portable.linalg.base.sums import add_up_neighbours
from portable.linalg.reflectors.householder import mirror, mirror_beside

_GRIDS: Final = {1: (1, 1), 8: (2, 4), 16: (4, 4), 32: (4, 8), 64: (8, 8)}


@dataclass(frozen=True, slots=True)
class PanelShape(Narrowing):
    """How sub-groups share panels.

    Attributes
    ----------
    size, sub_groups : int
        Work-items of a sub-group, and sub-groups of a workgroup.
    rows : int
        Lines that a work-item has a part of.
    spare : int
        Rows of local memory that nobody needs, so that fewer workgroups share a compute unit.
    """

    size: int
    sub_groups: int
    rows: int
    spare: int = 0

    @property
    def down(self) -> int:
        """Work-items side by side across lines."""
        return _GRIDS[self.size][0]

    @property
    def across(self) -> int:
        """Work-items that share a line, whose elements they have in turn."""
        return _GRIDS[self.size][1]

    @property
    def columns(self) -> int:
        """Elements of a line that a work-item has."""
        return self.length // self.across

    @property
    def strip(self) -> int:
        """Lines that a sub-group has at a time."""
        return self.rows * self.down

    @property
    def edge(self) -> int:
        """Rows and columns of the tiles that the band is stored in: strips are whole tiles."""
        return min(self.strip, self.across)

    @property
    def makers(self) -> int:
        """Sub-groups that have the panel."""
        return self.count // self.strip

    def turns(self, sub_groups: int) -> int:
        """Strips that a sub-group has one after another in half a hop, of so many sub-groups."""
        others = self.bandwidth - self.count
        ahead = -(-self.length // (self.strip * sub_groups))
        return ahead - (-others // (self.strip * (sub_groups - self.makers)))

    @property
    def elements(self) -> int:
        """Elements of local memory that a workgroup takes."""
        return 2 * (self.count * (self.length + 3) + self.spare * self.length)

    @property
    def fits(self) -> bool:
        """Whether lines and elements are whole parts of sub-groups."""
        extents = self.bandwidth, self.narrow, self.count
        whole = all(x % self.strip == 0 and x % self.across == 0 for x in extents)
        return whole and self.count <= self.narrow and 0 < self.makers < self.sub_groups


class Strip(NamedTuple):
    """Lines that a sub-group holds, and the work-item's place among those that share them."""

    x: Any
    down: Any
    across: Any


@dataclass(frozen=True)
class Block:
    """Lines of a band from a place on, which are rows or, `TRANSPOSED`, columns.

    Attributes
    ----------
    w : array
        The band in tiles.
    first : int
        Where the first line begins.
    SHAPE : PanelShape
    TRANSPOSED : bool
    """

    w: Any
    first: Any
    SHAPE: PanelShape
    TRANSPOSED: bool

    @property
    def steps(self) -> Any:
        """Places from a line to the next in the next tile and in the same; so for elements."""
        EDGE = self.SHAPE.edge
        row, column = (EDGE * EDGE, 1), (EDGE * EDGE * (self.SHAPE.pitch - 1), EDGE)
        return (column, row) if self.TRANSPOSED else (row, column)

    def start(self, strip: Strip, number: kl.Scalar) -> Any:
        """Where the work-item's first element of a strip is."""
        EDGE = self.SHAPE.edge
        LINE, ELEMENT = self.steps
        tiles = number * (self.SHAPE.strip // EDGE * LINE[0]) + strip.across // EDGE * ELEMENT[0]
        return self.first + tiles + strip.down * LINE[1] + strip.across % EDGE * ELEMENT[1]

    def offset(self, a: int, b: int) -> Any:
        """How far its element `b` of its line `a` is from its first."""
        EDGE, line = self.SHAPE.edge, a * self.SHAPE.down
        LINE, ELEMENT = self.steps
        within = line // EDGE * LINE[0] + line % EDGE * LINE[1]
        return within + b * (self.SHAPE.across // EDGE) * ELEMENT[0]

    def fetch(self, strip: Strip, number: kl.Scalar) -> None:
        """Loads a strip."""
        start = self.start(strip, number)
        for a in kl.static_range(self.SHAPE.rows):
            for b in kl.static_range(self.SHAPE.columns):
                strip.x[a, b] = self.w[start + self.offset(a, b)]

    def keep(self, strip: Strip, number: kl.Scalar) -> None:
        """Stores what `fetch` loads."""
        start = self.start(strip, number)
        for a in kl.static_range(self.SHAPE.rows):
            for b in kl.static_range(self.SHAPE.columns):
                self.w[start + self.offset(a, b)] = strip.x[a, b]


class Shared(NamedTuple):
    """Reflectors in local memory: numbers, sums of squares behind the first, heads, and scales."""

    v: Any
    tails: Any
    heads: Any
    scales: Any


class Half(NamedTuple):
    """Half a hop: its number, where its first line and the next panel begin, and its lines."""

    number: Any
    first: Any
    then: Any
    lines: Any


@kernel
def panel_packs(w: kl.Array, sync: kl.Array, n: kl.Scalar, *, SHAPE: PanelShape) -> None:
    """All hops: a workgroup for each sweep, a panel."""
    kl.static_assert(SHAPE.size == kl.sub_group_size(), "a strip is a sub-group's")
    kind, B, N, M = kl.accumulator(w.dtype), SHAPE.bandwidth, SHAPE.narrow, SHAPE.length
    right, left = reflectors(kind, SHAPE), reflectors(kind, SHAPE)
    sweep = taken_pack(sync)
    begin = sweep * SHAPE.count + N
    hops = (n - 2 - begin) // B + 1
    if kl.local_id(0) == 0:
        follow(sync, sweep, 2 * SHAPE.lag)
    kl.barrier()
    panel(Block(w, corner_of(begin, SHAPE) - rows_up(N, SHAPE), SHAPE, False), right)
    kl.barrier()
    for k in range(hops):
        s = begin + k * B
        above, corner = kl.where(k == 0, N, B), corner_of(s, SHAPE)
        further = corner + (SHAPE.pitch - 1) * rows_up(B, SHAPE)
        rows = Half(2 * k, corner - rows_up(above, SHAPE), corner, above + M)
        columns = Half(2 * k + 1, corner, further, B + M)
        make(w, sync, sweep, rows, (right, left), SHAPE, False)
        make(w, sync, sweep, columns, (left, right), SHAPE, True)
    if kl.local_id(0) == 0:
        follow(sync, sweep, FINISHED)
        publish(sync, sweep, FINISHED)


@kernel
def panel_wave(
    w: kl.Array,
    n: kl.Scalar,
    wave: kl.Scalar,
    first: kl.Scalar,
    *,
    SHAPE: PanelShape,
    TRANSPOSED: bool,
) -> None:
    """The halves of hops of one wave, on rows or, `TRANSPOSED`, columns, from sweep `first`."""
    kl.static_assert(SHAPE.size == kl.sub_group_size(), "a strip is a sub-group's")
    shared = reflectors(kl.accumulator(w.dtype), SHAPE)
    sweep = first + kl.group_id(0)
    k = wave // 2 - SHAPE.lag * sweep
    s = sweep * SHAPE.count + SHAPE.narrow + k * SHAPE.bandwidth
    above = 0 if TRANSPOSED else kl.where(k == 0, SHAPE.narrow, SHAPE.bandwidth)
    start = corner_of(s, SHAPE) - rows_up(above, SHAPE)
    stop = ((SHAPE.bandwidth if TRANSPOSED else above) + SHAPE.length) // SHAPE.strip
    if k >= 0 and s <= n - 2:
        block = Block(w, start, SHAPE, TRANSPOSED)
        panel(block, shared)
        kl.barrier()
        reflect(block, (SHAPE.makers + own_sub_group(), stop, SHAPE.sub_groups), shared)


@function
def reflectors(kind: Any, SHAPE: PanelShape) -> Any:
    """Room for those of a panel."""
    COUNT = SHAPE.count
    tails, heads, scales = kl.local(COUNT, kind), kl.local(COUNT, kind), kl.local(COUNT, kind)
    v = kl.local((COUNT + SHAPE.spare, SHAPE.length), kind)
    return Shared(v, tails, heads, scales)


@function
def make(
    w: kl.Array,
    sync: kl.Array,
    sweep: kl.Scalar,
    half: Half,
    both: Any,
    SHAPE: PanelShape,
    TRANSPOSED: bool,
) -> None:
    """Half a hop, on rows or, `TRANSPOSED`, on columns; then the wait for the next one.

    `both` are the panel's reflectors, made before, and room for the next ones. What the next panel
    is in goes first, so that some make that one's reflectors while the others go on.
    """
    now, then = both
    member, MAKERS, GROUPS = own_sub_group(), SHAPE.makers, SHAPE.sub_groups
    if member == GROUPS - 1 and kl.sub_group_local_id() == 0 and half.number > 0:
        publish(sync, sweep, half.number)
    end = half.lines // SHAPE.strip
    middle = end - SHAPE.length // SHAPE.strip
    block = Block(w, half.first, SHAPE, TRANSPOSED)
    reflect(block, (middle + member, end, GROUPS), now)
    kl.barrier()
    panel(Block(w, half.then, SHAPE, not TRANSPOSED), then)
    others = kl.where(member < MAKERS, middle, member)
    reflect(block, (others, middle, GROUPS - MAKERS), now)
    if kl.local_id(0) == 0:
        follow(sync, sweep, half.number + 1 + 2 * SHAPE.lag)
    kl.barrier()


@function
def reflect(block: Block, numbers: tuple[kl.Scalar, ...], shared: Shared) -> None:
    """Applies all reflectors to strips of a block."""
    start, stop, step = numbers
    strip = own_strip(block.w, block.SHAPE)
    for number in range(start, stop, step):
        block.fetch(strip, number)
        combine(strip, shared, block.SHAPE)
        block.keep(strip, number)


@function
def panel(block: Block, shared: Shared) -> None:
    """Makes the reflectors of a panel; all sub-groups come here."""
    strip, member, MAKERS = own_strip(block.w, block.SHAPE), own_sub_group(), block.SHAPE.makers
    if member < MAKERS:
        block.fetch(strip, member)
    factor(strip, shared, member, block.SHAPE)
    if member < MAKERS:
        block.keep(strip, member)


# -- strips --------------------------------------------------------------------------------------


@function
def own_sub_group() -> Any:
    """Its number, the same for all of it."""
    return kl.sub_group_broadcast(kl.sub_group_id(), 0)


@function
def own_strip(w: kl.Array, SHAPE: PanelShape) -> Any:
    """Lines in registers, zeros yet."""
    lane = kl.sub_group_local_id()
    x = kl.private((SHAPE.rows, SHAPE.columns), kl.accumulator(w.dtype), fill=0)
    return Strip(x, lane % SHAPE.down, lane // SHAPE.down)


@function
def corner_of(s: kl.Scalar, SHAPE: PanelShape) -> Any:
    """Where the tile of the diagonal's element `s` begins, a multiple of the edge."""
    return (s // SHAPE.edge * SHAPE.pitch + SHAPE.top) * (SHAPE.edge * SHAPE.edge)


@function
def rows_up(rows: kl.Scalar, SHAPE: PanelShape) -> Any:
    """Places from a tile to one so many rows above it, a multiple of the edge."""
    return rows * SHAPE.edge


@function
def combine(strip: Strip, shared: Shared, SHAPE: PanelShape) -> None:
    """Applies all reflectors, one after another."""
    factors, sums = kl.private(SHAPE.columns, strip.x.dtype), kl.private(SHAPE.rows, strip.x.dtype)
    for i in range(SHAPE.count):
        for b in kl.static_range(SHAPE.columns):
            factors[b] = shared.v[i, strip.across + b * SHAPE.across]
        products(strip, factors, sums, SHAPE)
        subtract(strip, factors, sums, shared.scales[i], SHAPE)


@function
def products(strip: Strip, factors: kl.Array, sums: kl.Array, SHAPE: PanelShape) -> None:
    """Of each line with a reflector's numbers."""
    for a in kl.static_range(SHAPE.rows):
        sums[a] = 0
        for b in kl.static_range(SHAPE.columns):
            sums[a] += factors[b] * strip.x[a, b]
    add_up(sums, SHAPE)


@function
def subtract(
    strip: Strip, factors: kl.Array, sums: kl.Array, scale: kl.Scalar, SHAPE: PanelShape
) -> None:
    """Each line's share of the reflector."""
    for a in kl.static_range(SHAPE.rows):
        share = scale * sums[a]
        for b in kl.static_range(SHAPE.columns):
            strip.x[a, b] -= share * factors[b]


@function
def add_up(sums: kl.Array, SHAPE: PanelShape) -> None:
    """Sums over those who share a line."""
    which = tuple(i for i in range(sums.shape[0]))
    add_up_neighbours(sums, which, SHAPE.size, SHAPE.down)


# -- a panel -------------------------------------------------------------------------------------


@function
def factor(strip: Strip, shared: Shared, member: kl.Scalar, SHAPE: PanelShape) -> None:
    """Makes a reflector of each line of the panel and applies it to those after.

    Line `i` is reflected to its first `i` elements and one more. Sub-groups without lines of the
    panel go along for the barriers.
    """
    STEP = min(SHAPE.down, SHAPE.across)
    for begin in kl.static_range(0, SHAPE.count, STEP):
        for i in range(begin, begin + STEP):
            A, B = begin % SHAPE.strip // SHAPE.down, begin // SHAPE.across
            mine = member == i // SHAPE.strip and strip.down == i % SHAPE.down
            if member < SHAPE.makers:
                leave(strip, shared, (i, mine, A, B), SHAPE)
            kl.barrier(sub_groups=SHAPE.makers)
            if member < SHAPE.makers:
                eliminate(strip, shared, (i, mine, A, B), SHAPE)
    kl.barrier(sub_groups=SHAPE.makers)
    for i in range(kl.local_id(0), SHAPE.count, SHAPE.makers * SHAPE.size):
        if member < SHAPE.makers:
            shared.v[i, i] = shared.heads[i]


@function
def leave(strip: Strip, shared: Shared, pivot: tuple[kl.Scalar, ...], SHAPE: PanelShape) -> None:
    """Leaves line `i` from its i-th element on, and the sum of the squares of those after."""
    i, mine, A, B = pivot
    column = i % SHAPE.across
    tail = kl.private(2, strip.x.dtype, fill=0)
    for b in kl.static_range(B, SHAPE.columns):
        value = strip.x[A, b]
        if b == B:
            value = kl.where(strip.across > column, value, 0)
        tail[b % 2] += value * value
    total = kl.private(1, strip.x.dtype, fill=tail[0] + tail[1])
    add_up(total, SHAPE)
    if mine:
        for b in kl.static_range(SHAPE.columns):
            value = kl.cast(0, strip.x.dtype)
            if b == B:
                value = kl.where(strip.across >= column, strip.x[A, b], 0)
            elif b > B:
                value = strip.x[A, b]
            shared.v[i, strip.across + b * SHAPE.across] = value
        if strip.across == 0:
            shared.tails[i] = total[0]


@function
def eliminate(
    strip: Strip, shared: Shared, pivot: tuple[kl.Scalar, ...], SHAPE: PanelShape
) -> None:
    """Applies the reflector that is made of line `i`, whose products go on beside a root."""
    i, mine, A, B = pivot
    column = i % SHAPE.across
    factors, sums = kl.private(SHAPE.columns, strip.x.dtype), kl.private(SHAPE.rows, strip.x.dtype)
    firsts = kl.private(SHAPE.rows, strip.x.dtype)
    has_first = strip.across == column
    for b in kl.static_range(SHAPE.columns):
        factors[b] = shared.v[i, strip.across + b * SHAPE.across]
    alpha = shared.v[i, i]
    factors[B] = kl.where(has_first, 0, factors[B])
    products(strip, factors, sums, SHAPE)
    for a in kl.static_range(SHAPE.rows):
        firsts[a] = kl.sub_group_shuffle(strip.x[a, B], strip.down + SHAPE.down * column)
    beta, head, scale = made(alpha, shared.tails[i])
    factors[B] = kl.where(has_first, head, factors[B])
    for a in kl.static_range(SHAPE.rows):
        sums[a] += head * firsts[a]
    subtract(strip, factors, sums, scale, SHAPE)
    if mine:
        for b in kl.static_range(B, SHAPE.columns):
            strip.x[A, b] = kl.where(strip.across > column, 0, strip.x[A, b]) if b == B else 0
        if has_first:
            strip.x[A, B] = beta
    if kl.local_id(0) == 0:
        shared.heads[i], shared.scales[i] = head, scale


@function
def made(first: kl.Scalar, tail: kl.Scalar) -> Any:
    """The reflector, see `portable.linalg.reflectors.householder`."""
    if first.dtype == kl.f32:
        return mirror_beside(first, tail)
    return mirror(first, tail)
