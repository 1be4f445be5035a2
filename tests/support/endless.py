"""A process whose kernel does not end, until Ctrl-C."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def endless(x: Any) -> None:
    while x[0] == 0.0:
        x[1] = x[1] + 1.0


@pt.kernel
def long(x: Any, rounds: int) -> None:
    i = kl.global_id(0)
    value = x[i]
    for _ in range(rounds):
        value = value * 0.5 + 1.0
    x[i] = value


def rounds_of(seconds: float) -> int:
    """How many rounds of `long` take about so long."""
    rounds = 1_000_000
    x = np.zeros(1, np.float32)
    long[1, 1](x, rounds)
    start = time.perf_counter()
    long[1, 1](x, rounds)
    return int(rounds * seconds / (time.perf_counter() - start))


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(name: str) -> None:
    pt.use(name)
    rounds = rounds_of(0.8)
    x = np.zeros(1, np.float32)
    threading.Timer(0.1, say, ("long",)).start()
    try:
        long[1, 1](x, rounds)
    except KeyboardInterrupt:
        say(f"ended {x[0] == 2.0}")
    y = np.zeros(2, np.float32)
    endless[1, 1].lower(y)  # compiled
    threading.Timer(0.1, say, ("endless",)).start()
    endless[1, 1](y)


if __name__ == "__main__":
    main(sys.argv[1])
