"""Masks as bits: how a mask is cut into sections, packed and counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType, bool_, int32, int64, uint8, uint32, uint64
from portable.primitives.base.borrowed import fetched
from portable.primitives.base.geometry import power_of_two
from portable.primitives.base.recipe import Recipe
from portable.primitives.masks.mask_kernels import Mask, pack, pack_by_workgroup
from portable.primitives.masks.tuning import sections_for
from portable.primitives.reductions.merging import Merge
from portable.primitives.scans.scanning import scanned

AT_ONCE: Final = 8192
"""So many elements are worth no second launch, and a result of them may lie in a larger buffer."""
_BYTE: Final = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A mask in sections, each one work-item's or that of a workgroup of `width`.

    `word` is the type that the bools are read in, several at a time.
    """

    section: int
    sections: int
    width: int
    word: DType

    @property
    def ndrange(self) -> int:
        """In work-items."""
        return self.sections * self.width


def cut_of(size: int, device: Device) -> Cut:
    """Sections such that all compute units have work."""
    capabilities = device.capabilities
    share = sections_for(capabilities)
    if share.group == 1:
        wanted = capabilities.compute_units * share.groups
        section = max(share.shortest, power_of_two(-(-size // wanted)))
        return Cut(section, -(-size // section), 1, uint64)
    section = share.group * 32
    return Cut(section, -(-size // section), share.group, uint32)


def packed(recipe: Recipe, mask: Any, cut: Cut) -> tuple[Any, Any]:
    """The mask's bits in words, and how many are true in each section or up to its end.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    mask : Storage
        In one dimension.
    cut : Cut
        Into which sections.
    """
    return packed_of(recipe, Mask(mask, in_words(mask, cut.word)), mask.size, cut)


def packed_of(recipe: Recipe, source: Any, size: int, cut: Cut) -> tuple[Any, Any]:
    """The bits of what is chosen of so many elements, and how many, as of `packed`.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    source : Mask or alike
        What chooses.
    size : int
        Of how many elements.
    cut : Cut
        Into which sections.
    """
    counts = recipe.empty((cut.sections,), int32 if size < 2**31 else int64)
    if cut.width == 1:
        bits = recipe.empty((-(-size // 64),), uint64)
        in_bytes = bits.viewed((bits.size * _BYTE,), (1,), dtype=uint8)
        recipe.launch(pack, cut.sections, 1, source, in_bytes, counts, SECTION=cut.section)
        return bits, counts
    bits = recipe.empty((cut.ndrange,), uint64)
    given = source, bits, counts
    recipe.launch(pack_by_workgroup, cut.ndrange, cut.width, *given, WIDTH=cut.width)
    return bits, _running_counts(recipe, counts)


def _running_counts(recipe: Recipe, counts: Any) -> Any:
    """How many are true up to the end of each section."""
    if counts.size == 1:
        return counts
    counts_upto = recipe.empty(counts.shape, counts.dtype)
    scanned(recipe, counts, counts_upto, Merge(kl.add, counts.dtype, 0), 0)
    return counts_upto


def how_many(counts: Any, cut: Cut) -> int:
    """How many are true in the whole mask; waits for the device."""
    host = fetched(counts if cut.width == 1 else counts.part(slice(-1, None)))
    return int(host[0] if host.size == 1 else host.sum())


def in_line(x: Any) -> Any:
    """A mask in one dimension."""
    return x if x.ndim == 1 else x.viewed((x.size,), (x.dtype.itemsize,))


def in_words(mask: Any, word: DType) -> Any:
    """The mask as integers that hold several of its bools, or None where they do not."""
    size = word.itemsize
    whole = mask.dtype is bool_ and mask.strides == (1,) and mask.offset % size == 0
    return mask.viewed((mask.size // size,), (size,), dtype=word) if whole else None
