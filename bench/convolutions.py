"""Convolutions to measure: layers of networks, ours as prepared, and NumPy's to verify by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from portable.conv import prepare
from portable_bench.operation import Case, Run

# Layers of networks that many run, to convolve beside peers.

_FULL: Final = (
    # ResNet-50: channels x rows x columns x filters, taps x stride x groups
    "3x224x224x64,7x2x1 64x56x56x64,1x1x1 64x56x56x64,3x1x1 64x56x56x256,1x1x1 256x56x56x128,1x1x1 "
    "128x56x56x128,3x2x1 256x56x56x512,1x2x1 128x28x28x128,3x1x1 512x14x14x1024,1x1x1 "
    "512x7x7x512,3x1x1 "
    # MobileNetV3
    "16x112x112x16,3x1x16 64x112x112x64,3x2x64 72x56x56x24,1x1x1 120x28x28x120,5x1x120 "
    "480x14x14x480,3x1x480 960x7x7x960,5x1x960 160x7x7x960,1x1x1 "
    # EfficientNet-B0
    "32x112x112x32,3x1x32 144x56x56x144,5x2x144 240x14x14x80,1x1x1 672x14x14x672,5x1x672 "
    # ConvNeXt-T
    "3x224x224x96,4x4x1 96x56x56x96,7x1x96 384x14x14x384,7x1x384 96x56x56x192,2x2x1 "
    # a diffusion U-Net
    "4x64x64x320,3x1x1 320x64x64x320,3x1x1 320x64x64x320,3x2x1 640x32x32x640,3x1x1 "
    "1280x16x16x1280,3x1x1 2560x8x8x1280,3x1x1 1280x8x8x1280,1x1x1"
)


def _sizes(text: str, images: tuple[int, ...]) -> str:
    """Sizes of the operation's axes: C x H x W x K x N x taps x stride x groups."""
    layers = [layer.split(",") for layer in text.split()]
    return ",".join(f"{a}x{n}x{b}" for n in images for a, b in layers)


LAYERS: Final = _sizes(_FULL, (1, 8, 32))
"""Of ResNet-50, MobileNetV3, EfficientNet-B0, ConvNeXt-T, a diffusion U-Net; 1, 8 and 32 images."""


def window_of(size: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Taps, stride, padding and groups; as many zeros as leave odd filters their middle."""
    taps, stride, groups = size[5:]
    return taps, stride, (taps - 1) // 2 if taps % 2 else 0, groups


# Convolutions by NumPy as a peer.


def by_products(x: Any, w: Any) -> Callable[[], Any]:
    """All results by BLAS, from a view of the patches."""
    patches = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return lambda: np.moveaxis(np.tensordot(patches, w, axes=([1, 4, 5], [1, 2, 3])), -1, 1)


# Our convolution as the bench calls it: prepared, in the layout that suits the precision.


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
