"""Kernels inside PyTorch's and JAX's differentiation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import lang as kl
from portable.errors import UnsupportedError
from portable.gradients import for_jax, for_torch

N = 12


@pt.kernel
def waves(w, x, y):
    i = kl.global_id(0)
    y[i] = kl.sin(w[i % w.shape[0]] * x[i]) * x[i]


def layer_of(torch: Any) -> Any:
    """The kernel as a function that PyTorch differentiates."""

    @for_torch
    def layer(w: Any, x: Any) -> Any:
        y = torch.empty_like(x)
        waves[x.numel()](w, x, y)
        return y

    return layer


def test_a_kernel_in_a_training_loop_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    layer = layer_of(torch)
    torch.manual_seed(0)
    w = torch.rand(3, dtype=torch.float64, requires_grad=True)
    x = torch.rand(N, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (w, x))
    target = layer(w.detach() + 0.3, x.detach())
    optimizer = torch.optim.Adam([w], lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((layer(w, x.detach()) - target) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.01 * losses[0]


def test_the_gradient_of_a_gradient_of_pytorch_is_refused() -> None:
    torch = pytest.importorskip("torch")
    layer = layer_of(torch)
    w = torch.rand(3, dtype=torch.float64, requires_grad=True)
    x = torch.rand(N, dtype=torch.float64, requires_grad=True)
    seed = torch.ones(N, dtype=torch.float64)
    slopes = [torch.autograd.grad(layer(w, x), x, grad_outputs=seed)[0] for _ in range(2)]
    assert torch.equal(*slopes)  # the seed is as it was: Warp's issue 1732
    (slope,) = torch.autograd.grad(layer(w, x), x, grad_outputs=seed, create_graph=True)
    with pytest.raises(UnsupportedError, match="gradient of a gradient"):
        torch.autograd.grad((slope * x).sum(), x)


def test_a_kernel_that_jax_differentiates() -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    @for_jax
    def layer(x: Any, w: Any) -> Any:
        y = np.empty_like(x)
        waves[x.size](w, x, y)
        return y

    rng = np.random.default_rng(0)
    x, w = rng.uniform(size=N), rng.uniform(size=3)

    def loss(x: Any, w: Any) -> Any:
        return (jax.jit(layer)(x, w) ** 2).sum()

    def same(x: Any, w: Any) -> Any:
        return ((jax.numpy.sin(jax.numpy.resize(w, N) * x) * x) ** 2).sum()

    found, wanted = (jax.grad(f, argnums=(0, 1))(x, w) for f in (loss, same))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)
