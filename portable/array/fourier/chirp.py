"""Transforms of any length as a convolution with a chirp, which takes lengths of small factors.

L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
IEEE Transactions on Audio and Electroacoustics 18 (1970): since ``2 j k = j^2 + k^2 - (k - j)^2``,
with ``w[k] = exp(-pi i k^2 / n)`` element k is ``w[k] sum(x[j] w[j] conj(w[k - j]))``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from portable.array.fourier.pass_options import TABLES, PassOptions, found_table
from portable.array.fourier.passes import transform
from portable.array.fourier.plan import is_smooth, next_smooth
from portable.array.fourier.tables import Table, roots
from portable.dtypes import DType
from portable.primitives.base.recipe import Recipe


def chirp_and_its_transform(n: int, m: int) -> tuple[Table, Table]:
    """The chirp, and the transform of its conjugate wrapped around `m` places, divided by m."""
    k = np.arange(n)
    chirp = roots(k * k % (2 * n), 2 * n)
    wrapped = np.zeros(m, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[m - n + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(wrapped) / m


def transform_of_any_length(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    """As `passes.transform`, for any `n`.

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
    way = transform if is_smooth(n) else _chirp_transform
    way(recipe, x, out, n, kind, options)


def _chirp_transform(
    recipe: Recipe, x: Any, out: Any, n: int, kind: DType, options: PassOptions
) -> None:
    m = next_smooth(2 * n - 1)
    find = partial(TABLES, x.device, kind, chirp_and_its_transform, n, m)
    chirp, transformed = found_table(recipe, find, 0), found_table(recipe, find, 1)
    held = recipe.empty((prod(x.shape[:-1]), m), kind)
    first = replace(options.first(), table=chirp, factors=transformed, conjugate_after=True)
    transform(recipe, x, held, m, kind, first)
    last = replace(options.last(), conjugate_before=True, factors=chirp)
    transform(recipe, held, out, m, kind, last)
