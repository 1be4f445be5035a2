"""A layer of one's own, trained inside `portable.nn` and by PyTorch.

The activation ``x + sin(a x)^2 / a`` with a learned ``a`` for each feature, which suits what
repeats (L. Ziyin and others, "Neural networks fail to learn periodic functions and how to fix it",
2020).
One kernel says it; neither needs its derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl
from portable.gradients import for_torch
from portable.nn import Adam, Layer, Linear, Sequential, fit


@pt.kernel
def snake(x: Any, a: Any, y: Any) -> None:
    """A work-item an element."""
    row, feature = kl.global_id(1), kl.global_id(0)
    v, slope = x[row, feature], a[feature]
    y[row, feature] = v + kl.sin(slope * v) ** 2 / slope


class Snake(Layer):
    """The activation as a layer."""

    def __init__(self, features: int) -> None:
        self.features = features

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """A number for each feature."""
        return {"a": (self.features,)}

    def starts(self) -> dict[str, float]:
        """What they begin with."""
        return {"a": 1.5}

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """That of what goes in."""
        return shape

    def forward(self, x: Any, y: Any, parameters: Mapping[str, Any]) -> None:
        """The kernel; the way back is a tape's."""
        snake[y.shape[::-1], None](x, parameters["a"], y)


def samples(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A wave with a slope."""
    x = np.linspace(-3, 3, count, dtype=np.float32)[:, None]
    return x, 0.3 * x + np.sin(2 * x)


def with_nn(count: int, epochs: int, features: int = 16) -> list[float]:
    """The losses of epochs of a network with the layer."""
    x, y = samples(count)
    layers = Linear(1, features), Snake(features), Linear(features, 1)
    model = Sequential(*layers, device=pt.device(), seed=0)
    history = fit(model, x, y, epochs=epochs, batch_size=count // 4, optimizer=Adam(0.02))
    return [float(loss) for loss in history.train]


def with_torch(count: int, epochs: int, features: int = 16) -> list[float]:
    """The same by PyTorch's layers, loss and optimiser, where its tensors are: on the processor."""
    import torch

    @for_torch
    def activation(x: Any, a: Any) -> Any:
        y = torch.empty_like(x)
        snake[tuple(y.shape[::-1]), None](x, a, y)
        return y

    torch.manual_seed(0)
    x, y = map(torch.from_numpy, samples(count))
    before, after = torch.nn.Linear(1, features), torch.nn.Linear(features, 1)
    a = torch.nn.Parameter(torch.full((features,), 1.5))
    optimizer = torch.optim.Adam([*before.parameters(), a, *after.parameters()], 0.02)
    losses = []
    with pt.use("cpu"):
        for _ in range(epochs):
            optimizer.zero_grad()
            loss = ((after(activation(before(x), a)) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main(count: int = 256, epochs: int = 150) -> list[float]:
    """Trains both ways."""
    losses = with_nn(count, epochs)
    print(f"portable.nn: loss {losses[0]:.3g} -> {losses[-1]:.3g}")
    try:
        losses_there = with_torch(count, epochs)
    except ModuleNotFoundError:
        print("PyTorch is not installed")
    else:
        print(f"PyTorch: loss {losses_there[0]:.3g} -> {losses_there[-1]:.3g}")
    return losses


if __name__ == "__main__":
    main()
