"""The kernels of networks, compiled for GPUs that are not here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portable
from portable import dtypes
from portable.backend import Capabilities, Program
from portable.lang.arguments.arguments import Specialisation
from portable.lang.arguments.structs import flattened
from portable.lang.emit import generate
from portable.lang.kernel import Kernel
from portable.nn import MLP, Adam, layered_kernels, loss_passes, mse
from portable.nn.activations import ACTIVATIONS
from portable.nn.fused import forward_rows, train_epochs
from portable.nn.fused_parts import FusedLoss, FusedNet, Samples, forward_shape, training_shape
from portable.nn.layout import layout_of
from portable.nn.loss_passes import Batch, Sums
from portable.nn.optimizers import Trained, rule_of
from portable.nn.sequential import perceptron
from portable.nn.stages import linear
from tests.support.compilers import (
    CUDA,
    HIP,
    compile_cuda_together,
    compile_hip,
    cuda_missing,
    hip_missing,
)

SIZES = (10, 64, 1)


def program(
    kernel: Kernel, can: Capabilities, workgroup: int, *args: Any, **constants: Any
) -> Program:
    host = portable.device("simulator")
    views = [host.view(x) if isinstance(x, np.ndarray) else None for x in flattened(args)]
    wanted = Specialisation(
        kernel.specs(args, views),
        kernel.constants(constants),
        (workgroup, 1, 1),
        False,
        True,
        kernel.options,
    )
    return generate(kernel.translated(wanted, can), can)


def programs(can: Capabilities, dtype: str) -> Iterator[Program]:
    """Every kernel as training would launch it."""
    kind, register = dtypes.dtype(dtype), dtypes.dtype(dtype).register
    layout, relu = layout_of(perceptron(SIZES, "relu")), ACTIVATIONS["relu"]
    x, y = np.empty((500, 10), kind.numpy), np.empty((500, 1), kind.numpy)
    half = np.empty(layout.length, kind.numpy) if kind is dtypes.float16 else None
    vector, state = np.empty(layout.length, register.numpy), np.empty((2, 9), register.numpy)
    images = x.reshape(50, 10, 10)
    order, line = np.empty((2, 500), np.int32), np.empty(9, register.numpy)
    model = MLP(SIZES, dtype=dtype, device="simulator")
    rule = rule_of(Adam())
    shape = forward_shape(can, layout, SIZES, kind, 500)
    assert shape is not None
    yield program(
        forward_rows, can, shape.size, x, y[:, 0], y, NET=FusedNet.forward(model), SHAPE=shape
    )
    shape = training_shape(can, layout, SIZES, kind, batch=256, slots=2, targets=1)
    assert shape is not None
    samples, trained = Samples(x, y, order), Trained(vector, half, state, state)
    yield program(
        train_epochs, can, shape.size, samples, trained, line, line, 256, 1.0,
        NET=FusedNet.training(model), LOSS=FusedLoss.of(mse, 1), RULE=rule, SHAPE=shape,
    )  # fmt: skip
    own = layered_kernels
    yield program(own.take_rows, can, 64, x, order[0], 0, x, LANES=2)
    yield program(
        loss_passes.loss_and_slopes, can, 64, Batch(y, y, y, line, 500), line, line,
        TERM=mse.term, LEVELS=1,
    )  # fmt: skip
    classes, sums = Batch(x, order.T, x, line, 500), Sums(line, line)
    yield program(loss_passes.cross_entropy, can, 64, classes, 0.1, sums)
    yield program(linear.slopes_back, can, 64, x, x, state, 64, SLOPE=relu.slope)
    yield program(
        linear.channel_slopes_back, can, 64, images, images, state,
        SLOPE=relu.slope, SECTION=2,
    )  # fmt: skip
    yield program(linear.slopes_back, can, 64, state, None, state, 64)
    yield program(own.squares, can, 64, line, line, line, LANES=4)
    yield program(own.finish_step, can, 64, sums, line, line, line, 1.0, HALF=True)
    yield program(own.update, can, 64, trained, vector, 0, line, RULE=rule, LANES=4)


@pytest.mark.skipif(bool(cuda_missing()), reason=cuda_missing())
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_compiles_for_cuda(dtype: str) -> None:
    compile_cuda_together(programs(CUDA, dtype))


@pytest.mark.skipif(bool(hip_missing()), reason=hip_missing())
def test_compiles_for_hip() -> None:
    _, training, *_ = programs(HIP, "float16")
    compile_hip(training)
