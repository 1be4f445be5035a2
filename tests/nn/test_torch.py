"""PyTorch agrees on values, on gradients, and on steps of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable.backend import Device
from portable.conv import conv2d, conv2d_input_gradient, conv2d_weight_gradient
from portable.nn import (
    Adam,
    AvgPool2d,
    Conv2d,
    CrossEntropyLoss,
    Flatten,
    Flow,
    Layer,
    Linear,
    MaxPool2d,
    Sequential,
    fit,
)

from .test_sequential import MIXED, SHAPE, batch

torch = pytest.importorskip("torch", reason="PyTorch is missing, with which values are compared")


def in_torch(layer: Layer) -> Any:
    nn = torch.nn
    if isinstance(layer, Linear):
        return nn.Linear(layer.in_features, layer.out_features, layer.bias)
    if isinstance(layer, Conv2d):
        channels = layer.in_channels, layer.out_channels
        return nn.Conv2d(*channels, layer.kernel_size, *layer.window(), layer.groups, layer.bias)
    if isinstance(layer, MaxPool2d | AvgPool2d):
        return getattr(nn, type(layer).__name__)(*layer.window())
    return nn.Flatten() if isinstance(layer, Flatten) else getattr(nn, type(layer).__name__)()


def precision(device: Device) -> tuple[str, float]:
    return ("float64", 1e-12) if device.capabilities.float64 else ("float32", 1e-5)


def test_training_goes_the_same_way(device: Device) -> None:
    dtype, tolerance = precision(device)
    torch.manual_seed(1)
    theirs = torch.nn.Sequential(*map(in_torch, MIXED)).to(getattr(torch, dtype))
    with pt.use(device):
        ours = Sequential(*MIXED, dtype=dtype, device=device)
        ours.load_state_dict(theirs.state_dict())
        x, y = batch(9, 5, dtype)
        loss = CrossEntropyLoss(label_smoothing=0.2)
        adam = Adam(0.01, weight_decay=0.1)
        history = fit(ours, x, y, loss=loss, optimizer=adam, epochs=2, batch_size=9)
        outputs = pt.to_numpy(ours(device.from_numpy(x)))
    optimizer = torch.optim.Adam(theirs.parameters(), 0.01, weight_decay=0.1)
    lost = []
    for _ in range(2):
        optimizer.zero_grad()
        measure = torch.nn.CrossEntropyLoss(label_smoothing=0.2)
        value = measure(theirs(torch.from_numpy(x)), torch.from_numpy(y))
        value.backward()
        optimizer.step()
        lost.append(value.item())
    assert history.train == pytest.approx(lost, rel=tolerance)
    for name, value in theirs.state_dict().items():
        found = ours.state_dict()[name]
        np.testing.assert_allclose(found, value.numpy(), rtol=0, atol=300 * tolerance)
    theirs.load_state_dict({k: torch.from_numpy(v) for k, v in ours.state_dict().items()})
    exact = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(outputs, exact, rtol=0, atol=10 * tolerance)


@pytest.mark.needs_processor
@pytest.mark.parametrize("algorithm", ["direct", "winograd2", "winograd4", "winograd6"])
def test_convolutions_and_their_gradients(algorithm: Any) -> None:
    random = np.random.default_rng(2)
    x, w = random.standard_normal((2, 4, *SHAPE[1:])), random.standard_normal((6, 2, 3, 3))
    dy = random.standard_normal((2, 6, *SHAPE[1:]))
    images, filters = (torch.from_numpy(a).requires_grad_() for a in (x, w))
    exact = torch.nn.functional.conv2d(images, filters, padding=1, groups=2)
    exact.backward(torch.from_numpy(dy))
    settings: Any = {"padding": 1, "groups": 2}
    with pt.use("cpu"):
        found = conv2d(x, w, algorithm=algorithm, **settings)
        by_images = conv2d_input_gradient(dy, w, x.shape, algorithm=algorithm, **settings)
        by_filters = conv2d_weight_gradient(x, dy, w.shape, **settings)
    for a, b in ((found, exact.detach()), (by_images, images.grad), (by_filters, filters.grad)):
        np.testing.assert_allclose(a, b.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [MaxPool2d, AvgPool2d])
def test_pools_of_ties_and_infinities(device: Device, kind: type[MaxPool2d]) -> None:
    """Their slopes go where PyTorch's go: to the first of the greatest."""
    random = np.random.default_rng(3)
    x = random.integers(0, 3, (2, 3, 7, 8)).astype(np.float32)
    x[0, 0, 2, 2:4] = np.nan, np.inf
    x[1, 1] = -np.inf
    layer = kind(3, stride=(1, 2), padding=1)
    model = Sequential(Conv2d(3, 3, 1, bias=False), layer, device=device)
    model.load_state_dict({"0.weight": np.eye(3)[:, :, None, None]})
    (_, stage) = model.stages((3, 7, 8), training=True)
    images = torch.from_numpy(x).requires_grad_()
    exact = in_torch(layer)(images)
    dy = random.standard_normal(tuple(exact.shape)).astype(np.float32)
    exact.backward(torch.from_numpy(dy))
    with pt.use(device):
        there, y = device.from_numpy(x), device.empty(tuple(exact.shape), model.dtype)
        dx = device.empty(x.shape, model.dtype)
        stage.train(there, y, None)
        stage.backward(Flow(there, y, device.from_numpy(dy), dx), (), None)
    np.testing.assert_allclose(device.to_numpy(y), exact.detach().numpy(), atol=1e-6)
    np.testing.assert_allclose(device.to_numpy(dx), images.grad.numpy(), atol=1e-6)
