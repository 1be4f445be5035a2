"""Transforms of an odd number of reals, or into them, two rows as one of complex numbers.

One row is the real part, the next one the imaginary part: W. H. Press, S. A. Teukolsky, W. T.
Vetterling and B. P. Flannery, "Numerical Recipes", 3rd ed., 2007, section 12.3.
"""

from __future__ import annotations

from typing import Any, Final

from portable.array.fourier.access import FITTING, HALVED, MIRRORED, Source, Target
from portable.array.fourier.chirp import transform_of_any_length
from portable.array.fourier.pass_options import PassOptions, in_words
from portable.array.fourier.passes import is_one_pass
from portable.array.fourier.plan import is_smooth
from portable.array.fourier.row_pair_kernels import join_row_pairs, split_row_pairs
from portable.dtypes import DType
from portable.lang.kernel import Kernel
from portable.primitives.base.recipe import Recipe

__all__ = ["pairs_from_real", "pairs_to_real", "rows_pair_up"]

_GROUP: Final = 256


def rows_pair_up(x: Any, n: int, kind: DType) -> bool:
    """Whether rows of reals are to be taken in pairs: they can be, and it saves a pass at least.

    Parameters
    ----------
    x : Storage
        Lines along its last axis.
    n : int
        Elements of a line.
    kind : DType
        Of the complex numbers, or of their parts.
    """
    size = x.dtype.itemsize
    together = x.ndim == 2 and x.shape[0] % 2 == 0 and x.shape[1] == n
    if not together or x.strides != (n * size, size):
        return False
    return not (is_smooth(n) and is_one_pass(x, x, n, kind))


def pairs_from_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `even_reals.transform_from_real`, of an odd number of reals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a transform.
    kind : DType
        Of the complex numbers, or of their parts.
    options : PassOptions
        Scale, conjugation and what else a pass does on the way.
    """
    held = recipe.empty((x.shape[0] // 2, n), kind)
    transform_of_any_length(recipe, _halved(x), held, n, kind, PassOptions(parts=HALVED))
    options = PassOptions(conjugate_after=options.conjugate_after, scale=options.scale / 2)
    source = options.source(in_words(held), kind, fitting=FITTING)
    _launch(
        recipe,
        split_row_pairs,
        source,
        options.target(in_words(out), kind, fitting=FITTING),
        n,
        out.size // 2,
    )


def pairs_to_real(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `even_reals.transform_to_real`, into an odd number of reals.

    Parameters
    ----------
    recipe : Recipe
        The steps.
    x : Storage
        Lines along its last axis.
    out : Storage
        Where they go.
    n : int
        Elements of a transform.
    kind : DType
        Of the complex numbers, or of their parts.
    options : PassOptions
        Scale, conjugation and what else a pass does on the way.
    """
    held = recipe.empty((out.shape[0] // 2, n), kind)
    first = PassOptions(options.conjugate, MIRRORED, n)
    target = first.target(in_words(held), kind, fitting=FITTING)
    _launch(recipe, join_row_pairs, first.source(in_words(x), kind), target, n, held.size)
    last = PassOptions(scale=options.scale, parts=HALVED)
    transform_of_any_length(recipe, held, _halved(out), n, kind, last)


def _halved(x: Any) -> Any:
    """Two rows as one."""
    rows, n = x.shape
    return x.viewed((rows // 2, 2 * n), (2 * x.strides[0], x.strides[1]))


def _launch(
    recipe: Recipe, kernel: Kernel, source: Source, target: Target, n: int, items: int
) -> None:
    """So many work-items."""
    group = min(_GROUP, source.array.device.capabilities.max_workgroup)
    recipe.launch(kernel, items, group, source, target, n)
