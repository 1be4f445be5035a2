"""Our convolution as the bench calls it: prepared, in the layout that suits the precision."""

from __future__ import annotations

from functools import partial
from typing import Any

from portable.conv import prepare
from portable_bench.operation import Case, Run

__all__ = ["prepared"]


def prepared(case: Case, x: Any, w: Any, algorithm: Any) -> Run:
    """Half precision with channels last, as matrix units want it, and as cuDNN gets it.

    Parameters
    ----------
    case : Case
    x : array, shape (N, C, H, W)
        The images.
    w : array, shape (K, C, R, S)
        The filters.
    algorithm : str
        As of `portable.conv.prepare`.
    """
    n, k, height, width = x.shape[0], w.shape[0], x.shape[2] - 2, x.shape[3] - 2
    if case.dtype.itemsize != 2:
        plan = prepare(x.shape, w, algorithm=algorithm)
        return partial(plan, x, out=case.empty(n, k, height, width))
    space, images = case.device.namespace(), case.empty(n, *x.shape[2:], x.shape[1])
    images[...] = space.permute_dims(x, (0, 2, 3, 1))
    last = prepare(images.shape, w, layout="NHWC", algorithm=algorithm)
    out = case.empty(n, height, width, k)
    return lambda: space.permute_dims(last(images, out=out), (0, 3, 1, 2))
