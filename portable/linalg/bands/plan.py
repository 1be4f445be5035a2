"""The plan of a bulge chase: stages that each narrow a band, and where each works on it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from portable.dtypes import DType
from portable.linalg.bands.hops import VectorShape
from portable.linalg.bands.items import ItemShape
from portable.linalg.bands.narrowing import Narrowing
from portable.linalg.bands.panels import PanelShape
from portable.linalg.bands.products import ProductShape
from portable.linalg.bands.ring import Ring
from portable.linalg.bands.tiles import TileShape, tile_shape


class Layout(NamedTuple):
    """Working storage: places from a column to the next, and the diagonal's in its column.

    Both are counted in square tiles of `edge` rows and columns, which lie column by column.
    """

    pitch: int
    top: int
    edge: int = 1

    def places(self, columns: int) -> int:
        """How many places so many columns take, a multiple of the edge."""
        return columns * self.pitch * self.edge


@dataclass(frozen=True, slots=True)
class Stage:
    """One reduction of a band to a narrower one.

    Attributes
    ----------
    bandwidth : int
        Superdiagonals that the hops work with, at least those of the matrix: the others are zeros.
    reflector : int
        The length of reflectors; one less superdiagonals go. At most `bandwidth`, and exactly that
        where the band becomes bidiagonal.
    residency : {"vectors", "products", "items", "panels", "ring", "direct"}
        Where the band is worked on: by a work-item alone in `lanes` wide vectors, by reflectors or
        by products with panels of them; by work-items side by side, in global memory, a wave of
        hops in a launch; in panels,
        whose reflectors sub-groups apply to lines in registers; or by sub-groups with blocks in
        registers, which they hand on through local memory or, direct, through global memory.
    lanes : int
        Rows of a vector.
    rows : int
        Vectors of rows that are combined at a time; `bandwidth` is a multiple of ``lanes * rows``.
        In panels, lines that a work-item has a part of. For products, rows of a panel.
    items : int
        Work-items of a sweep, or of a panel.
    sweeps : int
        Sweeps of a pack, or rows of a panel, which is a pack of its own.
    every : int
        Steps between looks at the pack before, in vectors.
    spare : int
        Blocks that are asked for before there is need to, in the ring; in panels, rows of local
        memory that nobody needs.
    parts : int
        Sub-groups that share a panel with what it combines.

    Raises
    ------
    ValueError
        For what the kernels of the residency do not hold for.
    """

    bandwidth: int
    reflector: int
    residency: Literal["vectors", "products", "items", "panels", "ring", "direct"]
    lanes: int = 1
    rows: int = 1
    items: int = 1
    sweeps: int = 1
    every: int = 1
    spare: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        b, whole = self.bandwidth, self.reflector == self.bandwidth
        least = min(self.lanes, self.rows, self.items, self.sweeps, self.every)
        _require(2 <= self.reflector <= b, "a reflector has 2 elements, and at most the bandwidth")
        _require(least >= 1, "lanes, rows, items, sweeps and steps are 1 at least")
        match self.residency:
            case "vectors":
                _require(whole, "work-items alone leave a bidiagonal matrix")
                _require(b % self.lanes == 0, "reflectors are whole vectors")
                _require(b % (self.lanes * self.rows) == 0, "rows go in whole parts")
                _require(self.items == 1, "a work-item has a sweep to itself")
            case "ring" | "direct":
                _require(whole, "blocks leave a bidiagonal matrix")
                tile = self._tile
                _require(self.items % 2 == 0 and tile is not None, "a sweep has two blocks")
                _require(tile is None or tile.order == b, "blocks are whole parts of sub-groups")
            case "items":
                _require(self.sweeps == 1, "work-items side by side have one sweep")
            case "products":
                _require(self.product_shape.fits, "panels and bands are whole tiles of vectors")
                _require(self.items == 1, "a work-item has a panel to itself")
            case "panels":
                _require(
                    self.items % self.parts == 0 and self.panel_shape.fits,
                    "panels and bands are whole strips of sub-groups",
                )

    @property
    def ring(self) -> Ring:
        """What the kernel of the ring is told."""
        assert self._tile is not None
        return Ring(self._tile, self.sweeps, self.spare, self.residency == "direct")

    @property
    def _tile(self) -> TileShape | None:
        """How its blocks are dealt out."""
        return tile_shape(self.bandwidth, self.items // 2, self.residency == "direct")

    @property
    def in_blocks(self) -> bool:
        """Whether sub-groups work on blocks."""
        return self.residency in ("ring", "direct")

    @property
    def narrow(self) -> int:
        """Superdiagonals that it leaves."""
        return self.bandwidth - self.reflector + 1

    @property
    def panel(self) -> int:
        """Rows that are eliminated together."""
        return {"panels": self.sweeps, "products": self.rows}.get(self.residency, 1)

    @property
    def length(self) -> int:
        """Elements of a line that a hop combines: those of all reflectors of a panel."""
        return self.reflector + self.panel - 1

    @property
    def narrowing(self) -> Narrowing | None:
        """The panels by which it narrows a band, if it does by panels."""
        match self.residency:
            case "panels":
                return self.panel_shape
            case "products":
                return self.product_shape
            case _:
                return None

    @property
    def vector_shape(self) -> VectorShape:
        """What the kernel of vectors is told."""
        return VectorShape(self.bandwidth, self.lanes, self.rows)

    @property
    def product_shape(self) -> ProductShape:
        """What the kernel of products is told."""
        return ProductShape(self.bandwidth, self.narrow, self.rows, self.lanes)

    @property
    def panel_shape(self) -> PanelShape:
        """What the kernel of panels is told."""
        size = self.items // self.parts
        extents = self.bandwidth, self.narrow, self.sweeps
        return PanelShape(*extents, size, self.parts, self.rows, self.spare)

    def item_shape(self, layout: Layout) -> ItemShape:
        """What kernels of work-items are told, for a working storage laid out so."""
        return ItemShape(self.reflector, self.items, layout.pitch, layout.top, self.lag)

    @property
    def lag(self) -> int:
        """Hops between neighbouring sweeps of a pack, or panels; in the ring one and a half."""
        narrowing = self.narrowing
        if narrowing is not None:
            return narrowing.lag
        return 2 if self.reflector == self.bandwidth else 1

    def sweep_count(self, n: int) -> int:
        """Sweeps that have a hop."""
        return n - 1 - self.narrow

    def pack_count(self, n: int) -> int:
        """Packs of them, or panels."""
        rows = self.rows if self.residency == "products" else 1
        return -(-self.sweep_count(n) // (rows * self.sweeps))


@dataclass(frozen=True, slots=True)
class Plan:
    """A reduction to bidiagonal form.

    Attributes
    ----------
    stages : tuple of Stage
        One after another.
    persistent : bool
        Whether one launch makes all hops of a stage, whose packs wait for each other; else, and for
        work-items side by side, each wave is one.
    storage : DType
        The type of the working storage. Half precision stays in half where the band is only in
        global memory; in vectors and in the ring it is kept in single: converting costs more than
        the memory (on an H200 0.245 s instead of 0.142 s at n = 32768, b = 32).

    Raises
    ------
    ValueError
        For stages that do not follow from each other or do not end in bidiagonal form.
    """

    stages: tuple[Stage, ...]
    persistent: bool
    storage: DType

    def __post_init__(self) -> None:
        residencies = {stage.residency for stage in self.stages}
        for before, after in pairwise(self.stages):
            _require(
                after.bandwidth >= before.narrow,
                "a stage works with all that the one before leaves",
            )
        if self.stages:
            last = self.stages[-1]
            _require(last.reflector == last.bandwidth, "the last stage leaves a bidiagonal matrix")
        if not residencies <= {"items", "panels"}:
            _require(self.persistent, "blocks and vectors wait for each other")
        if "vectors" in residencies:
            b = self.stages[-1].bandwidth
            _require(
                residencies <= {"vectors", "products"} and self.stages[-1].residency == "vectors",
                "vectors follow products alone",
            )
            _require(
                self.layout(self.stages[-1]) == Layout(3 * b, 2 * b),
                "vectors find columns 3 b apart",
            )

    def in_packs(self, stage: Stage) -> bool:
        """Whether one launch makes all hops of a stage."""
        return self.persistent and stage.residency != "items"

    @property
    def keeps(self) -> bool:
        """Whether the reflectors of all hops can be kept: one stage of packs makes them."""
        residencies = [stage.residency for stage in self.stages]
        return self.persistent and residencies in (["vectors"], ["ring"], ["direct"])

    def layout(self, stage: Stage) -> Layout:
        """The working storage of a stage: that of blocks or panels, or one of all the others."""
        if stage.in_blocks:
            return Layout(stage.ring.pitch, stage.bandwidth)
        narrowing = stage.narrowing
        if narrowing is not None:
            return Layout(narrowing.pitch, narrowing.top, narrowing.edge)
        others = [x for x in self.stages if not (x.in_blocks or x.narrowing)]
        top = rounded(max(x.bandwidth + x.reflector for x in others), 4)
        return Layout(top + rounded(max(x.reflector for x in others), 4), top)


def _require(holds: bool, what: str) -> None:
    """What the kernels take for granted of their plan."""
    if not holds:
        raise ValueError(f"a plan that no kernel of bands was made for: {what}")


def rounded(x: int, multiple: int) -> int:
    """The next multiple."""
    return -(-x // multiple) * multiple


def waves_of(n: int, stage: Stage) -> int:
    """How many waves a stage is made in.

    Parameters
    ----------
    n : int
        Columns of the matrix.
    stage : Stage
        What is made in waves.
    """
    if stage.residency == "panels":
        last = stage.pack_count(n) - 1
        begin = stage.narrow + last * stage.sweeps
        return 2 * (stage.lag * last + (n - 2 - begin) // stage.bandwidth + 1)
    return (stage.lag + 1) * (stage.sweep_count(n) - 1) + 1


def sweeps_of_wave(wave: int, n: int, stage: Stage) -> tuple[int, int]:
    """The first and last sweep r that have a hop ``wave - (lag + 1) r``.

    In panels half of one is a wave, and r has half ``wave - 2 lag r``.

    Parameters
    ----------
    wave : int
        The number of the wave.
    n : int
        Columns of the matrix.
    stage : Stage
        What is made in waves.
    """
    b, apart, further, hop, count = stage.bandwidth, stage.lag + 1, 1, wave, stage.sweep_count(n)
    if stage.residency == "panels":
        apart, further, hop, count = stage.lag, stage.sweeps, wave // 2, stage.pack_count(n)
    begin = stage.narrow
    first = -((n - 2 - begin - hop * b) // (apart * b - further))
    return max(0, first), min(hop // apart, count - 1)
