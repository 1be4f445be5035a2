"""What each process of MPI runs; the first prints what all found."""

import json
from typing import Any

import numpy as np
from mpi4py import MPI

from portable import parallel
from portable.errors import PortableError
from portable.nn import SGD, Conv2d, Flatten, Linear, ReLU, Sequential, fit

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((9, 1, 4, 4)).astype(np.float32)
Y = RANDOM.integers(0, 3, 9)
SETTINGS: Any = {"loss": "cross_entropy", "optimizer": SGD(0.1), "batch_size": 4}


def network(seed: int) -> Sequential:
    layers = Conv2d(1, 2, 2), ReLU(), Flatten(), Linear(18, 3)
    return Sequential(*layers, device="simulator", seed=seed)


def refusal(group: parallel.Group, **given: Any) -> str:
    try:
        fit(network(0), given.pop("x", X), given.pop("y", Y), **SETTINGS, group=group, **given)
    except (PortableError, ValueError) as error:
        return str(error)
    return ""


def main(world: MPI.Comm) -> None:
    rank = world.Get_rank()
    group = parallel.group(world, device="simulator")
    alone, together = network(0), network(rank)
    expected = fit(alone, X, Y, **SETTINGS, epochs=2)
    history = fit(together, X, Y, **SETTINGS, epochs=2, group=group)
    other = together.state_dict()
    apart = max(float(np.abs(v - other[k]).max()) for k, v in alone.state_dict().items())
    found = {
        "apart": max(world.allgather(apart)),
        "alone": expected.train,
        "train": history.train,
        "refused": world.allgather(refusal(group, epochs=1 + rank)),
        "failed": world.allgather(refusal(group, epochs=1, y=np.where(np.arange(9) == 3, 99, Y))),
    }
    if rank == 0:
        print(json.dumps(found))  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(MPI.COMM_WORLD)
