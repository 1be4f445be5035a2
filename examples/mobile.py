"""A small network of inverted residual blocks, whose weights come from a PyTorch state dict.

After M. Sandler et al., "MobileNetV2" (2018): channels become more by a 1 x 1 convolution, each is
filtered by itself (`groups`), and become fewer again. Where PyTorch is installed, its network of
the same layers gives its weights, and what both make of an image is compared; elsewhere a state
dict with its names is made up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from portable.nn import (
    BatchNorm2d,
    Chain,
    Conv2d,
    Flatten,
    GlobalAvgPool2d,
    Layer,
    Linear,
    ReLU6,
    Residual,
    Sequential,
    Softmax,
)

BLOCKS = ((8, 12, 2), (12, 12, 1), (12, 16, 2), (16, 16, 1))
"""Channels, filters and stride of each block."""
EXPANSION = 4
CLASSES = 10


def block(channels: int, filters: int, stride: int) -> Layer:
    """An inverted residual block; a shortcut where images keep their shape."""
    wide = EXPANSION * channels
    layers = (
        Conv2d(channels, wide, 1, bias=False),
        BatchNorm2d(wide),
        ReLU6(),
        Conv2d(wide, wide, 3, stride=stride, padding=1, groups=wide, bias=False),
        BatchNorm2d(wide),
        ReLU6(),
        Conv2d(wide, filters, 1, bias=False),
        BatchNorm2d(filters),
    )
    return Residual(*layers) if stride == 1 and channels == filters else Chain(*layers)


def network() -> Sequential:
    """The network, on the device in use."""
    return Sequential(
        Conv2d(3, BLOCKS[0][0], 3, stride=2, padding=1, bias=False),
        BatchNorm2d(BLOCKS[0][0]),
        ReLU6(),
        *(block(*sizes) for sizes in BLOCKS),
        GlobalAvgPool2d(),
        Flatten(),
        Linear(BLOCKS[-1][1], CLASSES),
        Softmax(),
    )


def made_up(model: Sequential) -> dict[str, np.ndarray[Any, Any]]:
    """A state dict as PyTorch's network of the same layers has it, with its counts of batches."""
    random = np.random.default_rng(0)
    state: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in model.state_dict().items():
        drawn = random.standard_normal(value.shape)
        positive = name.endswith(("running_var", "weight")) and value.ndim == 1
        scale = np.sqrt(max(1, int(np.prod(value.shape[1:]))))
        state[name] = (1 + drawn**2 / 4 if positive else drawn / scale).astype(np.float32)
        if name.endswith("running_var"):
            state[name.replace("running_var", "num_batches_tracked")] = np.array(100)
    return state


def torch_network() -> Any:
    """PyTorch's network of the same layers; a `Residual` is a `Sequential` that adds its input."""
    import torch
    from torch import nn

    class Added(nn.Sequential):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + x

    def inverted(channels: int, filters: int, stride: int) -> Any:
        wide = EXPANSION * channels
        kind = Added if stride == 1 and channels == filters else nn.Sequential
        return kind(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, wide, 3, stride=stride, padding=1, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU6(),
            nn.Conv2d(wide, filters, 1, bias=False),
            nn.BatchNorm2d(filters),
        )

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, BLOCKS[0][0], 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(BLOCKS[0][0]),
        nn.ReLU6(),
        *(inverted(*sizes) for sizes in BLOCKS),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(BLOCKS[-1][1], CLASSES),
        nn.Softmax(dim=1),
    ).eval()


def predicted(
    state: Mapping[str, Any], images: np.ndarray[Any, Any]
) -> tuple[Sequential, np.ndarray[Any, Any]]:
    """The network with these weights, and the shares that it gives to each class, on the host."""
    model = network()
    model.load_state_dict(state)
    return model, model.device.to_numpy(model(model.device.from_numpy(images)))


def main() -> None:
    """Runs it on the device in use, beside PyTorch where that is installed."""
    images = np.random.default_rng(1).standard_normal((4, 3, 64, 64)).astype(np.float32)
    try:
        theirs = torch_network()
    except ImportError:
        model, shares = predicted(made_up(network()), images)
        print(f"{model.device.name}: classes {shares.argmax(1)}, of weights that were made up")
        return
    import torch

    model, shares = predicted(theirs.state_dict(), images)
    with torch.no_grad():
        apart = np.abs(shares - theirs(torch.from_numpy(images)).numpy()).max()
    print(f"{model.device.name}: classes {shares.argmax(1)}, at most {apart:.1e} from PyTorch's")


if __name__ == "__main__":
    main()
