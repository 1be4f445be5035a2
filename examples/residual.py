"""A small residual network that reads scikit-learn's handwritten digits, images of 8 x 8 pixels.

After K. He et al., "Deep residual learning for image recognition" (2016): a convolution, three
residual blocks, the second and third of which halve the images, and the mean of each channel.
`pip install scikit-learn` brings the images.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from portable.nn import (
    AdamW,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Flatten,
    GlobalAvgPool2d,
    History,
    Layer,
    Linear,
    ReLU,
    Residual,
    Sequential,
    fit,
    schedules,
)


def block(channels: int, filters: int) -> list[Layer]:
    """A residual block, which halves images where it has more filters than channels."""
    stride = 1 if channels == filters else 2
    shortcut = (
        []
        if stride == 1
        else [
            Conv2d(channels, filters, 1, stride=stride, bias=False),
            BatchNorm2d(filters),
        ]
    )
    body = [
        Conv2d(channels, filters, 3, stride=stride, padding=1, bias=False),
        BatchNorm2d(filters),
        ReLU(),
        Conv2d(filters, filters, 3, padding=1, bias=False),
        BatchNorm2d(filters),
    ]
    return [Residual(*body, shortcut=shortcut), ReLU()]


def network(width: int = 16) -> Sequential:
    """The network, on the device in use."""
    return Sequential(
        Conv2d(1, width, 3, padding=1, bias=False),
        BatchNorm2d(width),
        ReLU(),
        *block(width, width),
        *block(width, 2 * width),
        *block(2 * width, 4 * width),
        GlobalAvgPool2d(),
        Flatten(),
        Dropout(0.2),
        Linear(4 * width, 10),
        seed=1,
    )


def train(model: Sequential, images: ModuleType, epochs: int) -> History:
    """Trains the network on the digits of `examples/digits.py`."""
    train, test = images.digits()
    return fit(
        model,
        *train,
        loss="cross_entropy",
        optimizer=AdamW(5e-3, weight_decay=1e-2),
        schedule=schedules.Cosine(),
        epochs=epochs,
        batch_size=64,
        validation=test,
    )


def digits_example() -> ModuleType:
    """The example beside this one, which has the images."""
    spec = importlib.util.spec_from_file_location("digits", Path(__file__).with_name("digits.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Trains it on the device in use."""
    model = network()
    history = train(model, digits_example(), epochs=12)
    right = history.validation_accuracy[-1]
    print(f"{model.device.name}: {right:.1%} of the test images in {history.seconds:.1f} s")


if __name__ == "__main__":
    main()
