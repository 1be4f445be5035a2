"""The convolutions of networks that many run, beside PyTorch's by cuDNN or oneDNN."""

from typing import Any, ClassVar

from portable.conv.conv_tunable import Planes
from portable_bench.convolutions import LAYERS, prepared_layer, window_of
from portable_bench.operation import Case, Operation, Run, Shapes, Size, Sizes, Verifier, Work
from portable_bench.peers import Peers
from portable_bench.torch_peers import torch_conv


class ConvLayers(Operation):
    """`portable.conv` of N images of C x H x W with K filters of any taps, strides and groups."""

    name = "conv_layers"
    axes: ClassVar[tuple[str, ...]] = ("C", "H", "W", "K", "N", "taps", "stride", "groups")
    brief = False
    sizes = {
        "cpu": Sizes("64x28x28x64x1x3x1x64,64x28x28x128x1x1x1x1", full=LAYERS),
        "gpu": Sizes("144x56x56x144x32x3x1x144,256x56x56x512x32x1x2x1", full=LAYERS),
        "simulator": Sizes("4x6x6x4x1x3x2x4"),
    }

    def window(self, size: Size) -> tuple[int, int, int, int]:
        """Taps, stride, padding and groups."""
        return window_of(size)

    def shapes(self, size: Size) -> Shapes:
        (c, h, w, k, n), (taps, _, _, groups) = size[:5], self.window(size)
        return (n, c, h, w), (k, c // groups, taps, taps)

    def work(self, case: Case) -> Work:
        """Operations as of direct convolution, which Winograd's does with fewer."""
        c, h, w, k, n = case.size[:5]
        taps, stride, padding, groups = self.window(case.size)
        down, across = ((extent + 2 * padding - taps) // stride + 1 for extent in (h, w))
        results = n * k * down * across
        sums = c // groups * taps * taps
        return Work(2.0 * sums * results, case.bytes(n * c * h * w + sums * k + results))

    def verifier(self, case: Case, x: Any, w: Any) -> Verifier:
        allowed = 2e-5 if case.dtype.itemsize >= 4 else 2e-3
        _, stride, padding, _ = self.window(case.size)
        return Planes(x, w, allowed, stride, padding).error

    def prepare(self, case: Case, x: Any, w: Any, algorithm: Any = "auto") -> Run:
        return prepared_layer(case, x, w, self.window(case.size), algorithm)

    def peers(self, case: Case) -> Peers:
        return torch_conv(case, self.window(case.size))
