"""Our convolution as the bench calls it: prepared, in the layout that suits the precision."""

from __future__ import annotations

from functools import partial
from typing import Any

from portable.conv import prepare
from portable_bench.operation import Case, Run


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


def prepared_layer(case: Case, x: Any, w: Any, window: tuple[int, int, int, int]) -> Run:
    """A layer, prepared for its arrays; half precision with channels last.

    Parameters
    ----------
    case : Case
    x : array, shape (N, C, H, W)
        The images.
    w : array, shape (K, C / groups, R, R)
        The filters.
    window : (int, int, int, int)
        Taps, stride, padding and groups.
    """
    _, stride, padding, groups = window
    given: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    space, last = case.device.namespace(), case.dtype.itemsize == 2
    images = x
    if last:
        n, c, height, width = x.shape
        images, given["layout"] = case.empty(n, height, width, c), "NHWC"
        images[...] = space.permute_dims(x, (0, 2, 3, 1))
    plan = prepare(tuple(images.shape), w, **given)
    out = case.empty(*plan.result_shape)
    again = plan.prepare(images, out=out)

    def run() -> Any:
        again()
        return space.permute_dims(out, (0, 3, 1, 2)) if last else out

    return run
