"""Steps of training a network of two layers, beside NumPy and PyTorch."""

from functools import partial
from typing import Any

from portable_bench import networks
from portable_bench.networks import trained
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier, Work
from portable_bench.peers import Peers, on_host
from portable_bench.torch_peers import torch_training


class Train(Operation):
    """Steps of Adam on the mean squared error, one after another through the samples."""

    name = "train"
    axes = ("STEPS", "BATCH", "IN", "HIDDEN", "OUT")
    sizes = {
        "cpu": Sizes("16x256x10x64x1", full="16x256x10x64x1,4x1024x64x256x64"),
        "gpu": Sizes(
            "16x256x10x64x1", full="16x256x10x64x1,4x1024x64x256x64,4x8192x1024x4096x1024"
        ),
        "simulator": Sizes("2x8x3x5x2"),
    }

    def work(self, case: Case) -> Work:
        """Three products per weight and sample, but for the slopes of the samples themselves."""
        steps, batch, inputs, hidden, outputs = case.size
        products = hidden * (2 * inputs + 3 * outputs)
        moved = steps * batch * (inputs + outputs)
        return Work(2.0 * steps * batch * products, case.bytes(moved))

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """Samples and targets of normal distribution, and the parameters."""
        steps, batch, *widths = case.size
        samples = [(steps * batch, widths[0]), (steps * batch, widths[-1])]
        return networks.problem(samples, widths, case.dtype)

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """By the same steps in double precision."""
        return networks.parameters_verifier(*inputs, steps=case.size[0])

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return trained(case, *inputs)

    def peers(self, case: Case) -> Peers:
        steps = case.size[0]
        by_numpy = on_host(case, "NumPy", lambda *x: partial(networks.adam_steps, *x, steps=steps))
        return [*by_numpy, *torch_training(case, steps)]
