"""What one pass of a transform is to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from portable.array.fourier.access import BESIDE, Source, Target
from portable.array.fourier.tables import TableCache, between_passes
from portable.backend import Device
from portable.dtypes import DType, complex64, uint64
from portable.primitives.base.geometry import collapsed
from portable.primitives.base.numbers import number_for
from portable.primitives.base.recipe import Recipe

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


def in_parts(x: Any, form: str) -> Any:
    """A view of complex numbers as twice as many real ones; None of None."""
    if x is None:
        return None
    axis = x.ndim - (2 if form == BESIDE else 1)
    shape, strides = list(x.shape), list(x.strides)
    shape[axis] *= 2
    strides[axis] //= 2
    return x.viewed(tuple(shape), tuple(strides), dtype=x.dtype.real)
