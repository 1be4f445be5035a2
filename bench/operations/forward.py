"""A forward pass through a network of two layers, beside the array libraries and PyTorch."""

from functools import partial
from typing import Any

from portable_bench import networks
from portable_bench.networks import called_forward, prepared_forward
from portable_bench.operation import Array, Case, Operation, Run, Sizes, Verifier, Ways, Work
from portable_bench.peers import PRODUCTS, Peers, in_libraries
from portable_bench.torch_peers import torch_forward


class Forward(Operation):
    """Outputs of a network for a batch of inputs, into an array that exists."""

    name = "mlp"
    axes = ("ROWS", "IN", "HIDDEN", "OUT")
    sizes = {
        "cpu": Sizes("1024x10x20x5", full="1024x10x20x5,1024x10x64x1,2048x256x512x256"),
        "gpu": Sizes("1024x10x20x5", full="1024x10x20x5,1024x10x64x1,8192x1024x4096x1024"),
        "simulator": Sizes("8x3x5x2"),
    }

    def work(self, case: Case) -> Work:
        """A multiplication and an addition per weight and row; samples and weights once."""
        rows, inputs, hidden, outputs = case.size
        weights = hidden * (inputs + outputs)
        moved = weights + hidden + outputs + rows * (inputs + outputs)
        return Work(2.0 * rows * weights, case.bytes(moved))

    def inputs(self, case: Case) -> tuple[Array, ...]:
        """Samples of normal distribution, and the parameters."""
        return networks.problem([case.size[:2]], case.size[1:], case.dtype)

    def verifier(self, case: Case, *inputs: Any) -> Verifier:
        """By the same network in double precision; some rows where there are many."""
        return lambda found: networks.error_of_outputs(found, *inputs)

    def prepare(self, case: Case, *inputs: Any) -> Run:
        return prepared_forward(case, *inputs)

    def ways(self, case: Case) -> Ways:
        called = partial(called_forward, case)
        return {"portable, prepared": partial(self.prepare, case), "portable, called": called}

    def peers(self, case: Case) -> Peers:
        return [*in_libraries(case, networks.outputs, PRODUCTS), *torch_forward(case)]
