"""Elements where a mask is true, and where these are: how a mask is cut, and launched.

A small mask takes one launch, which writes to more memory than it turns out to need. A larger one
is packed into bits and counted by sections; then its result is allocated, and written from the
bits. Both wait once for the device to learn how many are true.

The floor is to read the mask and, where it is true, the array, and to write the result. Through
NVIDIA's OpenCL an H200 took 173 us for ``x[mask]`` of 2^26 `float32`, half of them true, 0.67 of a
copy's speed, and 147 us for ``nonzero``, 0.57: to pack and to count takes 30 us, where reading the
mask takes 17, to learn the count 21 more, and the rest is written at 0.74 to 0.85 of a copy's
speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, int64
from portable.lang.arguments.structs import items_of
from portable.primitives.base.recipe import Plans, Recipe, resizable
from portable.primitives.base.storage import fetched, new, stored
from portable.primitives.maps.elementwise_kernel import unravelled
from portable.primitives.masks import mask_kernels as masks
from portable.primitives.tuning import sections_for


@dataclass(frozen=True)
class Results(masks.Target):
    """What is kept: the elements of an array, or where they are.

    Attributes
    ----------
    x : array or None
        What to take from, in one dimension; None for indices.
    like : array or None
        What these are indices of.
    out : array
        The result, the parts of indices behind each other.
    step : int
        How far apart these are.
    """

    x: Any
    like: Any
    out: Any
    step: Any

    def has_word(self, first: kl.Scalar) -> Any:
        """Whether there are the 64 elements of a word from one on, or none are looked at."""
        return self.x is None or first + 64 <= self.x.shape[0]

    def put(self, k: kl.Scalar, at: kl.Scalar) -> None:
        """Writes the `k`-th of what is kept, which is at a place of the mask."""
        if self.x is not None:
            self.out[k] = self.x[at]
        else:
            self.put_index(k, unravelled(at, self.like.shape))

    def put_index(self, k: kl.Scalar, index: tuple[kl.Scalar, ...]) -> None:
        """Writes the `k`-th index."""
        for d in kl.static_range(len(index)):
            self.out[d * self.step + k] = kl.cast(index[d], kl.i64)

    def put_eight(self, k: Any, row: Any, column: Any, places: Any, byte: Any) -> None:
        """Writes the indices of those of eight elements whose bit in `byte` is set.

        Always stores eight, so that no branch depends on the bits: those behind the set ones are
        garbage, which the next call overwrites. `row` and `column` are those of the first element;
        ``places[byte]`` lists the positions of the byte's set bits.
        """
        last = self.like.ndim - 1
        ahead = kl.cast(kl.vload(places, byte, 0, lanes=8), kl.i64) + kl.cast(column, kl.i64)
        if last == 0:
            kl.vstore(self.out, k, ahead)
        else:
            lead, extent = self.like.shape[:last], kl.cast(self.like.shape[last], kl.i64)
            over = ahead >= extent
            kl.vstore(self.out, last * self.step + k, kl.where(over, ahead - extent, ahead))
            rows = zip(unravelled(row, lead), unravelled(row + 1, lead), strict=True)
            for d, (here, below) in enumerate(rows):
                first, second = (kl.splat(kl.cast(x, kl.i64), 8) for x in (here, below))
                kl.vstore(self.out, d * self.step + k, kl.where(over, second, first))

    def put_many(self, k: kl.Scalar, first: kl.Scalar, word: kl.Scalar, places: kl.Array) -> None:
        """Writes what is kept of 64 elements without a branch on the bits.

        Up to eight places behind the last one kept get garbage, which later calls overwrite.
        """
        if self.x is not None:
            for bit in kl.static_range(64):
                self.out[k] = self.x[first + bit]
                k = k + kl.cast((word >> bit) & 1, kl.i32)
        else:
            extent = self.like.shape[self.like.ndim - 1]
            row, column = kl.cast(0, first.dtype), first
            if self.like.ndim > 1:
                row, column = first // extent, first % extent
            for part in kl.static_range(8):
                byte = kl.cast((word >> (8 * part)) & 255, kl.i32)
                self.put_eight(k, row, column, places, byte)
                k = k + kl.cast(kl.popcount(byte), kl.i32)
                column = column + 8
                if self.like.ndim > 1 and column >= extent:
                    row, column = row + 1, column - extent

    def take(self, section: Any, few: masks.Few, WIDTH: int) -> None:
        """Writes those that are chosen, which are read before the first is written."""
        offset, chosen, before = few
        x, places = self.x, [section.begin + offset + u * WIDTH for u in range(len(chosen))]
        values = (
            ()
            if x is None
            else [masks.element_if(there, x, at) for there, at in zip(chosen, places, strict=True)]
        )
        for u in kl.static_range(len(chosen)):
            if chosen[u]:
                if x is None:
                    self.put(section.done + before[u], places[u])
                else:
                    self.out[section.done + before[u]] = values[u]


_BYTE: Final = 8


def compacted(mask: Any, x: Any) -> Any:
    """The elements of `x` where a mask is true, in C order; waits for the device.

    Both have one shape, and each is contiguous or has one dimension.
    """
    if not mask.size:
        return new(x.device, (0,), x.dtype)
    return _kept(mask, x)[0]


def true_indices(x: Any) -> tuple[Any, ...]:
    """The indices of what is true, or not zero, in C order; waits for the device.

    `x` is contiguous or has one dimension.
    """
    if not x.size:
        return tuple(new(x.device, (0,), int64) for _ in range(x.ndim))
    return _kept(x)


def _kept(*arrays: Any) -> tuple[Any, ...]:
    """What is written for a mask, or for a mask and an array."""
    out, count, step = _compaction.run(arrays)
    size = out.dtype.itemsize
    rows = 1 if len(arrays) > 1 else arrays[0].ndim
    return tuple(out.viewed((count,), (size,), out.offset + d * step * size) for d in range(rows))


def _write(arrays: tuple[Any, ...]) -> Callable[..., tuple[Any, int, int]]:
    """What is to be done for a mask, or for a mask and an array.

    It gives the result, flat, how many are true, and how far apart their indices in each dimension
    lie.
    """
    cut = masks.cut_of(arrays[0].size, arrays[0].device)
    if cut.sections == 1 and arrays[0].size <= masks.AT_ONCE:
        return _write_at_once(arrays, cut)
    return _write_counted_first(arrays, cut)


_compaction: Final = Plans(_write)


def planned(mask: Any, x: Any) -> Callable[[Any, Any], Any]:
    """`compacted` of arrays like these, as plans are made now; for those who search them."""
    run = _write((mask, x))

    def kept(mask: Any, x: Any) -> Any:
        out, count, _ = run(mask, x)
        return out.shaped((count,))

    return kept


def _write_at_once(arrays: tuple[Any, ...], cut: masks.Cut) -> Callable[..., tuple[Any, int, int]]:
    mask, device = masks.in_line(arrays[0]), arrays[0].device
    step = mask.size + _BYTE * cut.word.itemsize
    tables = _tables(device)
    recipe = Recipe(*arrays, *tables)
    rows, dtype = _result(arrays)
    out = recipe.empty((rows * step,), dtype)
    count = recipe.empty((1,), int64)
    read = masks.Mask(mask, masks.in_words(mask, cut.word), None, None)
    results = _results(arrays, out, step)
    kernel, constants = _kernel(cut, arrays, at_once=True)
    recipe.launch(kernel, cut.ndrange, cut.width, read, results, *tables, count, **constants)
    run = recipe.finish(out, count)

    def at_once(*arrays: Any) -> tuple[Any, int, int]:
        out, count = run(*arrays, *tables)
        return out, int(fetched(count)[0]), step

    return at_once


def _write_counted_first(
    arrays: tuple[Any, ...], cut: masks.Cut
) -> Callable[..., tuple[Any, int, int]]:
    mask, device = masks.in_line(arrays[0]), arrays[0].device
    tables = _tables(device)
    recipe = Recipe(arrays[0])
    bits, counts = masks.packed(recipe, mask, cut)
    rows, dtype = _result(arrays)
    out = mask.shaped((rows * mask.size,), dtype).at(None, 0)
    kernel, constants = _kernel(cut, arrays)
    args = (masks.Mask(mask, None, bits, counts), _results(arrays, out, mask.size), *tables, None)
    write = resizable(kernel[cut.ndrange, cut.width], args, constants)
    pack_and_count = recipe.finish(bits, counts)

    def counted_first(*arrays: Any) -> tuple[Any, int, int]:
        bits, counts = pack_and_count(arrays[0])
        count = masks.how_many(counts, cut)
        out = new(device, (rows * count,), dtype)
        if count:
            results = _results(arrays, out, count)
            write(masks.in_line(arrays[0]), None, bits, counts, *items_of(results), *tables, None)
        return out, count, count

    return counted_first


def _kernel(
    cut: masks.Cut, arrays: tuple[Any, ...], *, at_once: bool = False
) -> tuple[Any, dict[str, int]]:
    """The kernel that writes what is kept, and its constants."""
    share = sections_for(arrays[0].device.capabilities)
    if cut.width == 1:
        # Eight neighbours may then lie in three rows, for which there is no short way.
        narrow = len(arrays) == 1 and arrays[0].ndim > 1 and arrays[0].shape[-1] < _BYTE
        return masks.take, {"SECTION": cut.section, "FEW": 64 if narrow else 64 // share.few}
    few = 0 if at_once else cut.section // share.few
    return masks.take_by_workgroup, {"WIDTH": cut.width, "AHEAD": share.ahead, "FEW": few}


def _result(arrays: tuple[Any, ...]) -> tuple[int, DType]:
    """How many lines the result has, and its dtype."""
    return (arrays[0].ndim, int64) if len(arrays) == 1 else (1, arrays[1].dtype)


def _results(arrays: tuple[Any, ...], out: Any, step: int) -> Results:
    """What is written of a mask and an array, or of a mask alone."""
    if len(arrays) == 1:
        return Results(None, arrays[0], out, np.int64(step))
    return Results(masks.in_line(arrays[1]), None, out, np.int64(step))


def _tables(device: Device) -> tuple[Any, ...]:
    """What the kernel takes besides: for CPUs the places of the bits in each byte."""
    return (_places(device),) if device.capabilities.single_work_items else ()


@cache
def _places(device: Device) -> Any:
    table = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        places = [bit for bit in range(8) if byte >> bit & 1]
        table[byte, : len(places)] = places
    return stored(device, device.from_numpy(table))
