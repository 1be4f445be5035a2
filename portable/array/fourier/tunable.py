"""What ``portable tune rfft`` runs: transforms of reals that take several passes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from portable.array.fourier.even_reals import transform_from_real
from portable.array.fourier.one_axis import COMPLEX_OF
from portable.array.fourier.pass_options import PassOptions
from portable.array.fourier.tuning import halves_for
from portable.primitives.base.recipe import Recipe
from portable.primitives.base.storage import Storage
from portable.primitives.tunables import recorded_task, tunable_of
from portable.tune.tunable import Tunable


def _write(recipe: Recipe, x: Storage) -> Any:
    kind, n = COMPLEX_OF[x.dtype], x.shape[-1]
    out = recipe.empty((*x.shape[:-1], n // 2 + 1), kind)
    transform_from_real(recipe, x, out, n, kind, PassOptions())
    return out


TUNABLE: Final[Tunable] = tunable_of(
    halves_for, recorded_task(_write, np.fft.rfft, mixes=True), (2, 1 << 21), (4, 1 << 24)
)
