"""Trains in processes of MPI, of which some interrupt themselves; each says how it went."""

import os
import signal
import sys
import time

import numpy as np
from mpi4py import MPI

from portable import parallel
from portable.nn import MLP, fit

WHO, TIMES, EPOCHS = sys.argv[1], int(sys.argv[2]), 10**7
RANK = MPI.COMM_WORLD.Get_rank()
interrupted: list[float] = []


def schedule(step: int, steps: int) -> float:
    """Interrupts this process in its third epoch, when it is somewhere within its steps."""
    if step > 20 and len(interrupted) < TIMES and (WHO == "all" or str(RANK) == WHO):
        interrupted.append(time.monotonic())
        signal.setitimer(signal.ITIMER_REAL, 0.3 + 0.05 * RANK)
    return 1.0


def main() -> None:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
    model = MLP([3, 7, 2], device="cpu")
    group = parallel.group(MPI.COMM_WORLD, device="cpu")
    history = fit(model, x, x[:, :2], epochs=EPOCHS, batch_size=8, group=group, schedule=schedule)
    signal.setitimer(signal.ITIMER_REAL, 0)
    told = MPI.COMM_WORLD.allgather((history.stopped, model.vector.tobytes()))
    same = len(set(told)) == 1 and np.isfinite(model.vector).all()
    if RANK == 0:
        print(f"{told[0][0]} and {'the same' if same else 'apart'}")  # noqa: T201


main()
