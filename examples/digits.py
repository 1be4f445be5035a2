"""A LeNet that reads scikit-learn's handwritten digits, images of 8 x 8 pixels.

After Y. LeCun et al., "Gradient-based learning applied to document recognition" (1998), at a size
that suits these images: two convolutions, each followed by the greatest of 2 x 2 pixels, and two
linear layers. `pip install scikit-learn` brings the images.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from portable import parallel
from portable.nn import (
    Adam,
    Conv2d,
    Flatten,
    History,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    fit,
    schedules,
)

Digits = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
"""Images (n, 1, 8, 8) from 0 to 1, float32, and what they show, (n,)."""


def digits() -> tuple[Digits, Digits]:
    """1437 images to train on and 360 to test, by all writers."""
    from sklearn.datasets import load_digits

    found = load_digits()
    images = (found.images[:, None] / 16).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1437], order[1437:]
    return (images[train], found.target[train]), (images[test], found.target[test])


def lenet() -> Sequential:
    """The network, on the device in use."""
    return Sequential(
        Conv2d(1, 16, 3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(16, 32, 3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Flatten(),
        Linear(32 * 2 * 2, 64),
        ReLU(),
        Linear(64, 10),
        seed=1,
    )


def train(
    model: Sequential, train: Digits, test: Digits, epochs: int, group: parallel.Group | None = None
) -> History:
    """Trains the network, on all devices of a group if there is one."""
    return fit(
        model,
        *train,
        loss="cross_entropy",
        optimizer=Adam(2e-3),
        schedule=schedules.Cosine(),
        epochs=epochs,
        batch_size=32,
        validation=test,
        group=group,
    )


def main() -> None:
    """Trains it on the device in use, or on all that are named: ``digits.py cuda:0 cuda:1``."""
    group = parallel.group(sys.argv[1:]) if len(sys.argv) > 1 else None
    model = lenet()
    history = train(model, *digits(), epochs=20, group=group)
    right = history.validation_accuracy[-1]
    print(
        f"{group or model.device.name}: {right:.1%} of the test images in {history.seconds:.1f} s"
    )
    model.save("digits.safetensors")
    print("The network is kept in digits.safetensors; Sequential.load reads it.")


if __name__ == "__main__":
    main()
