"""Transforms of an odd number of reals, or into them, two rows as one of complex numbers.

One row is the real part, the next one the imaginary part: W. H. Press, S. A. Teukolsky, W. T.
Vetterling and B. P. Flannery, "Numerical Recipes", 3rd ed., 2007, section 12.3.
"""

from __future__ import annotations

from typing import Any, Final

from portable.array.fourier.access import HALVED
from portable.array.fourier.chirp import transform_of_any_length
from portable.array.fourier.ends import Ends, in_words
from portable.array.fourier.passes import is_one_pass
from portable.array.fourier.plan import is_smooth
from portable.array.fourier.twin_kernels import join_twins, part_twins
from portable.dtypes import DType
from portable.lang.kernel import Kernel
from portable.primitives.base.recipe import Recipe

__all__ = ["are_twins", "twins_from_real", "twins_to_real"]

_GROUP: Final = 256


def are_twins(x: Any, n: int, kind: DType) -> bool:
    """Whether rows of reals are to be taken in pairs: they can be, and it saves a pass at least."""
    size = x.dtype.itemsize
    together = x.ndim == 2 and x.shape[0] % 2 == 0 and x.shape[1] == n
    if not together or x.strides != (n * size, size):
        return False
    return not (is_smooth(n) and is_one_pass(x, x, n, kind))


def twins_from_real(recipe: Recipe, x: Any, out: Any, n: int, kind: DType, ends: Ends) -> None:
    """As `halves.transform_from_real`, of an odd number of reals."""
    held = recipe.empty((x.shape[0] // 2, n), kind)
    transform_of_any_length(recipe, _halved(x), held, n, kind, Ends(parts=HALVED))
    ends = Ends(conjugate_after=ends.conjugate_after, scale=ends.scale / 2)
    _launch(recipe, part_twins, held, out, n, kind, ends, out.size // 2)


def twins_to_real(recipe: Recipe, x: Any, out: Any, n: int, kind: DType, ends: Ends) -> None:
    """As `halves.transform_to_real`, into an odd number of reals."""
    held = recipe.empty((out.shape[0] // 2, n), kind)
    _launch(recipe, join_twins, x, held, n, kind, Ends(ends.conjugate), held.size)
    last = Ends(scale=ends.scale, parts=HALVED)
    transform_of_any_length(recipe, held, _halved(out), n, kind, last)


def _halved(x: Any) -> Any:
    """Two rows as one."""
    rows, n = x.shape
    return x.viewed((rows // 2, 2 * n), (2 * x.strides[0], x.strides[1]))


def _launch(
    recipe: Recipe, kernel: Kernel, x: Any, out: Any, n: int, kind: DType, ends: Ends, items: int
) -> None:
    """So many work-items."""
    group = min(_GROUP, x.device.capabilities.max_workgroup)
    given = in_words(x), in_words(out), *ends.numbers(kind)[:4], n
    recipe.launch(kernel, items, group, *given)
