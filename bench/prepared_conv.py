"""Our convolution as the bench calls it: prepared, in the layout that suits the precision."""

from __future__ import annotations

from typing import Any

from portable.conv import prepare
from portable_bench.operation import Case, Run


def prepared_layer(
    case: Case, x: Any, w: Any, window: tuple[int, int, int, int], algorithm: Any = "auto"
) -> Run:
    """A layer, prepared for its arrays; half precision with channels last, as cuDNN gets it.

    Parameters
    ----------
    case : Case
    x : array, shape (N, C, H, W)
        The images.
    w : array, shape (K, C / groups, R, R)
        The filters.
    window : (int, int, int, int)
        Taps, stride, padding and groups.
    algorithm : str
        As of `portable.conv.prepare`.
    """
    _, stride, padding, groups = window
    given: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups}
    given["algorithm"] = algorithm
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
