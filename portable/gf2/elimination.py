"""The engine: stripes of a matrix on their way to echelon form, panel by panel of 64 columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from portable import lang as kl
from portable import registry
from portable.backend import Device
from portable.gf2.blocks import multiply_blocks
from portable.gf2.election_kernels import NO_COLUMN, State, Transform
from portable.gf2.elimination_kernels import (
    advance_stripes,
    place_pivots,
    solve_pivots,
    take_step,
)
from portable.gf2.layout import WORD, Order, Turn, begin_marks, find_beyond, striped, unstriped
from portable.gf2.matrix import BitMatrix
from portable.gf2.tuning import Shape, shape_for
from portable.lang.function import function
from portable.lang.kernel import kernel
from portable.lang.launch.geometry import groups

# Kernels that find the leading columns of rows, and the rows that lead at places.


@kernel
def begin_owners(owners: kl.Array, columns: kl.Scalar, *, backward: bool) -> None:
    """-1 to the places of columns, `NO_COLUMN` to those beyond the last one, and 0 behind them."""
    i = kl.global_id(0)
    places = owners.shape[0] - 1
    if i < places:
        word, bit = i // WORD, i % WORD
        column = word * WORD + (WORD - 1 - bit)
        if backward:
            column = (places // WORD - 1 - word) * WORD + bit
        owners[i] = kl.where(column < columns, -1, NO_COLUMN)
    elif i == places:
        owners[i] = 0


@kernel
def find_owners(words: kl.Array, owners: kl.Array) -> None:
    """Each row to the place of its highest column, a workgroup to a row.

    Behind the places it counts rows that are empty, or that lead where another one does.
    """
    row, places = kl.group_id(0), owners.shape[0] - 1
    lead = lead_of(words, row)
    if kl.local_id(0) == 0:
        before = kl.cast(0, kl.i32)
        if lead >= 0:
            position = (places // WORD - 1 - lead // WORD) * WORD + lead % WORD
            before = kl.atomic_max(owners, position, row)
        if before >= 0:
            kl.atomic_add(owners, places, 1)


@kernel
def find_leads(words: kl.Array, leads: kl.Array) -> None:
    """The highest column of each row, -1 for an empty one; a workgroup looks at a row."""
    lead = lead_of(words, kl.group_id(0))
    if kl.local_id(0) == 0:
        leads[kl.group_id(0)] = lead


@function
def lead_of(words: kl.Array, row: kl.Scalar) -> Any:
    """The highest column of a row, -1 if it is empty, by the workgroup."""
    lead = kl.cast(-1, kl.i32)
    word = words.shape[1] - 1 - kl.local_id(0)
    while word >= 0:
        value = words[row, word]
        if value != 0:
            lead = word * WORD + 63 - kl.cast(kl.clz(value), kl.i32)
            word = 0
        word = word - kl.local_size(0)
    return kl.workgroup_reduce(kl.maximum, lead)


# Which eliminator leads at each place, as the kernels of an elimination have it.

_LINE: Final = 256
_LOOKERS: Final = 32


def owners_of(leads: NDArray[np.int64], order: Order) -> NDArray[np.int32]:
    """The eliminator that leads at each place, -1 where there is none, by the host."""
    owners = np.full(WORD * order.words, -1, np.int32)
    owners[order.columns :] = NO_COLUMN
    owners[leads] = np.arange(leads.size, dtype=np.int32)
    return order.by_place(owners)


def no_owners(order: Order, device: Device) -> Any:
    """The same where there are no eliminators, an array of the device."""
    return _begun(order, device)[:-1]


def found_owners(matrix: BitMatrix, order: Order) -> Any | None:
    """The same for the rows of a matrix, on its device; columns are eliminated from the last one.

    None if a row is empty, or two lead at one place.
    """
    device, rows = matrix.device, matrix.shape[0]
    owners = _begun(order, device)
    if rows:
        items = 1 if shape_for(device.capabilities).alone else _LOOKERS
        with registry.use(device):
            find_owners[groups(rows), items](matrix.words, owners)
    return None if device.to_numpy(owners[-1:])[0] else owners[:-1]


def _begun(order: Order, device: Device) -> Any:
    """Places without owners, and 0."""
    size = WORD * order.words + 1
    with registry.use(device):
        owners = device.empty((size,), kl.i32)
        begin_owners[size, _LINE](owners, order.columns, backward=order.backward)
    return owners


# -- elimination -----------------------------------------------------------------------------------

Progress = Callable[[float], None]
"""Called with the part of the work that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a device holds of an elimination, and how.

    Attributes
    ----------
    order : Order
        Of all columns.
    device : Device
        Where.
    shape : Shape
        How stripes are laid out and shared by work-items.
    held : range
        The numbers of the stripes that are held.
    """

    order: Order
    device: Device
    shape: Shape
    held: range

    @property
    def stripes(self) -> int:
        """Those of all columns."""
        return -(-self.order.words // self.shape.width)

    def panels(self, stripe: int) -> range:
        """Of a stripe."""
        width = self.shape.width
        return range(stripe * width, min((stripe + 1) * width, self.order.words))

    def between(self, first: int, last: int) -> slice:
        """Which of the held stripes are from number `first` on before `last`."""
        return slice(*(len(range(self.held.start, x, self.held.step)) for x in (first, last)))


class Part(NamedTuple):
    """What a member of a group holds of an elimination.

    Attributes
    ----------
    turn : Turn
        Which stripes.
    room : array of uint64, shape (stripes, rows, words), optional
        Where to hold them.
    told : array of uint64, optional
        As of `Elimination`.
    """

    turn: Turn = Turn()
    room: Any = None
    told: Any = None


class Elimination:
    """The state of an elimination, and the launches that bring it forward; none waits for another.

    Parameters
    ----------
    layout : Layout
        What is held.
    work, eliminators : array
        The held stripes of the rows, which are changed, and of the pivots there from the beginning.
    owners : array of int32, shape (64 panels,)
        The eliminator that leads at each place.
    told : array of uint64, shape (2 width, 64 + rows), optional
        Room for what two stripes broadcast, a new array if left out.
    reduced : bool
        Whether pivots' columns are eliminated from earlier pivots too.
    """

    def __init__(
        self,
        layout: Layout,
        work: Any,
        eliminators: Any,
        owners: Any,
        *,
        told: Any = None,
        reduced: bool = False,
    ) -> None:
        self.layout: Final = layout
        self._reduced: Final = reduced
        self.state: Final = self._begun(work, eliminators, owners, told)
        self._transform, self._words, self._solved = self._scratch()
        self._steps = 0

    @classmethod
    def of(
        cls,
        rows: BitMatrix,
        order: Order,
        *,
        eliminators: BitMatrix | None = None,
        owners: Any = None,
        beside: BitMatrix | None = None,
        reduced: bool = False,
        shape: Shape | None = None,
        part: Part = Part(),  # noqa: B008 - a tuple
    ) -> Elimination:
        """The elimination of a matrix, or of the stripes of it whose turn it is.

        Parameters
        ----------
        rows : BitMatrix
            The rows to be eliminated, not empty; they are copied.
        order : Order
            Of its columns.
        eliminators : BitMatrix, optional
            Pivots that are there from the beginning, on the same device.
        owners : array of int32, optional
            As of `Elimination`, if there are eliminators.
        beside : BitMatrix, optional
            What follows the columns of `rows`, in the same order, and is changed along with them.
        reduced : bool
            Whether pivots' columns are eliminated from earlier pivots too.
        shape : Shape, optional
            The layout; the tuned one if left out.
        part : Part, optional
            What a member of a group holds of it; all if left out.
        """
        device, turn = rows.device, part.turn
        form = shape or shape_for(device.capabilities)
        if owners is None:
            owners = no_owners(order, device)
        with registry.use(device):
            work = striped(rows, order, form, beside, turn, part.room)
            if eliminators is None or not eliminators.shape[0]:
                held = device.empty((1, 1, form.width), kl.u64)
            else:
                held = striped(eliminators, order, form, turn=turn)
        stripes = range(turn.first, turn.first + int(work.shape[0]) * turn.size, turn.size)
        layout = Layout(order, device, form, stripes)
        return cls(layout, work, held, owners, told=part.told, reduced=reduced)

    def _begun(self, work: Any, eliminators: Any, owners: Any, told: Any) -> State:
        """All that kernels take, with room for what two stripes broadcast."""
        device, rows = self.layout.device, int(work.shape[1])
        kept = rows if self.layout.shape.alone else 2 * rows
        marks = device.empty((kept + 3,), kl.i32)
        with registry.use(device):
            begin_marks[kept + 3, _LINE](marks, kept)
        if told is None:
            told = device.empty((2 * self.layout.shape.width, WORD + rows), kl.u64)
        return State(
            work=work,
            eliminators=eliminators,
            owners=owners,
            rests=marks[:rows],
            settled=marks[kept - rows : kept],
            cursor=marks[kept:],
            told=told,
        )

    def _scratch(self) -> tuple[Any, Any, Any]:
        """Room for what launches leave for the next ones, where workgroups share stripes."""
        shape, empty = self.layout.shape, self.layout.device.empty
        if shape.alone:
            return None, None, None
        transform = Transform(*(empty((2, n), kl.u64) for n in (WORD, WORD, 1)))
        count, rows, width = map(int, self.state.work.shape)
        words = empty((2, rows, width), kl.u64)
        return transform, words, empty((count, width * WORD, width), kl.u64)

    # -- launches -------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> None:
        """Eliminates all columns of a matrix that is held as a whole.

        `progress` is called with the part of the work that is done.
        """
        layout = self.layout
        with registry.use(layout.device):
            for stripe in range(-1 if layout.shape.alone else 0, layout.stripes):
                if layout.shape.alone:
                    self._run_ahead(stripe)
                else:
                    self.choose(stripe)
                    self.follow(stripe, stripe + 1, layout.held.stop)
                if progress is not None:
                    layout.device.synchronize()
                    progress(1 - (1 - (stripe + 1) / layout.stripes) ** 2)

    def _run_ahead(self, stripe: int) -> None:
        """Applies the pivots of a stripe, a work-item to each after it; one goes on to choose."""
        count = int(self.state.work.shape[0]) - stripe - 1 if stripe >= 0 else 1
        if count > 0:
            self._advance(stripe, slice(stripe + 1, stripe + 1 + count), int(stripe >= 0), 1)

    def _advance(self, stripe: int, stripes: slice, applies: int, chooses: int) -> None:
        advance_stripes[groups(stripes.stop - stripes.start), 1](
            self.state, stripe, stripes.start, applies, chooses,
            shape=self.layout.shape, reduced=self._reduced,
        )  # fmt: skip

    def choose(self, stripe: int) -> None:
        """Chooses the pivots of a held stripe, to which those of all before have been applied."""
        layout, shape = self.layout, self.layout.shape
        stripe_index = layout.held.index(stripe)
        with registry.use(layout.device):
            if shape.alone:
                self._advance(stripe - 1, slice(stripe_index, stripe_index + 1), 0, 1)
                return
            blocks = -(-int(self.state.work.shape[1]) // shape.batch)
            steps = [
                take_step[groups(1 + blocks), shape.workgroup].prepare(
                    self.state, self._transform, self._words, stripe, stripe_index, odd,
                    shape=shape, reduced=self._reduced,
                )
                for odd in range(2)
            ]  # fmt: skip
            for _ in range(len(layout.panels(stripe)) + 1):
                steps[self._steps % 2]()
                self._steps += 1

    def follow(self, stripe: int, first: int, last: int) -> None:
        """Applies the pivots of a stripe to those held from number `first` on before `last`."""
        self.solve(stripe, first, last)
        self.add(stripe, first, last)

    def solve(self, stripe: int, first: int, last: int) -> None:
        """Brings the rows of a stripe's pivots up to date in other stripes, which `add` adds."""
        layout, shape = self.layout, self.layout.shape
        held = self._held(first, last)
        if shape.alone or not held:
            return
        with registry.use(layout.device):
            solve_pivots[groups(shape.width // shape.lanes, len(held)), shape.batch](
                self.state, self._solved, stripe, held.start, shape=shape
            )

    def add(self, stripe: int, first: int, last: int) -> None:
        """Adds to all rows of other stripes what they take on of a stripe's pivots."""
        layout, shape = self.layout, self.layout.shape
        held = self._held(first, last)
        if not held:
            return
        stripes = slice(held.start, held.stop)
        with registry.use(layout.device):
            if shape.alone:
                self._advance(stripe, stripes, 1, 0)
                return
            panels = len(layout.panels(stripe))
            multiply_blocks(
                self.told(stripe)[:, WORD:],
                self._solved[stripes, : panels * WORD],
                self.state.work[stripes],
                shape=shape,
                capabilities=layout.device.capabilities,
                adds=True,
            )

    def _held(self, first: int, last: int) -> range:
        """Where the stripes are held that come from number `first` on before `last`."""
        held = self.layout.between(first, last)
        return range(held.start, min(held.stop, int(self.state.work.shape[0])))

    def told(self, stripe: int) -> Any:
        """What others have to know of a stripe's pivots: a contiguous array, kept for two stripes.

        Its rows are panels, with the pivots' sources and which of them each row takes on.
        """
        panels = self.layout.panels(stripe)
        slot = panels.start % int(self.state.told.shape[0])
        return self.state.told[slot : slot + len(panels)]

    def place(self, stripe: int) -> None:
        """Notes which rows are pivots of a stripe that another member chose, from its broadcast."""
        with registry.use(self.layout.device):
            place_pivots[groups(1), self.layout.shape.batch if not self.layout.shape.alone else 1](
                self.state, stripe, shape=self.layout.shape
            )

    # -- results --------------------------------------------------------------------------------

    def pivots(self) -> NDArray[np.int64]:
        """Of each row the column that it is the pivot of, -1 of others."""
        rests = self.layout.device.to_numpy(self.state.rests).astype(np.int64)
        return np.where(rests < 0, -1, self.layout.order.turned(np.maximum(rests, 0)))

    def promoted(self) -> NDArray[np.bool_]:
        """Of each row whether it is a pivot."""
        return self.layout.device.to_numpy(self.state.rests) >= 0

    def matrix(
        self, out: BitMatrix | None = None, rows: NDArray[np.int64] | None = None
    ) -> BitMatrix:
        """The rows as they are now, or those that `rows` names (-1: an empty one), in `out`."""
        return self._taken(0, self.layout.order, out, rows)

    def beside(self, columns: int, rows: NDArray[np.int64]) -> BitMatrix:
        """The same of what stands beside the rows, of so many columns."""
        order = self.layout.order
        return self._taken(order.words, Order(columns, order.backward), None, rows)

    def _taken(
        self, first: int, order: Order, out: BitMatrix | None, rows: NDArray[np.int64] | None
    ) -> BitMatrix:
        device, held = self.layout.device, None if out is None else out.words
        with registry.use(device):
            places = None if rows is None else device.from_numpy(rows.astype(np.int32))
            words = unstriped(
                self.state.work, order, device, self.layout.shape,
                rows=places, first=first, out=held,
            )  # fmt: skip
        return BitMatrix(words, order.columns, device=device) if out is None else out

    def unreduced(self) -> NDArray[np.int64]:
        """Rows that became no pivot and are not empty in what stands beside them."""
        device, rows = self.layout.device, int(self.state.work.shape[1])
        with registry.use(device):
            flags = device.empty((rows,), kl.i32)
            find_beyond[rows, _LINE](
                self.state.work, self.state.rests, flags, self.layout.order.words
            )
            return np.flatnonzero(device.to_numpy(flags))
