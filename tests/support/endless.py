"""A process whose kernels end when they are told to, or never, while Ctrl-C is pressed.

It says how far it has come, and goes on when it is told to, so that nothing depends on time.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl
from portable_backends.common import gate
from tests.support.patience import PATIENCE

BEGUN, MAY_END, ENDED = 0, 1, 2


@pt.kernel
def waiting(state: Any) -> None:
    kl.atomic_store(state, BEGUN, 1)
    while kl.atomic_load(state, MAY_END) == 0:
        kl.atomic_add(state, BEGUN, 1)
    state[ENDED] = 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_unheard: list[str] = []
"""The kernel that runs, until Ctrl-C was heard."""


class _Noted(threading.Event):
    """Says when a kernel is waited for after Ctrl-C, the first time: what is left may be, too."""

    def wait(self, timeout: float | None = None) -> bool:
        if timeout == PATIENCE and _unheard:
            _unheard.clear()
            say("heard")
        return super().wait(timeout)


class _Waiter(gate._Waiter):  # type: ignore[misc]
    """Gives kernels as long as it takes after Ctrl-C."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._done = _Noted()


def watch(name: str, state: Any) -> None:
    """Says when the kernel runs, then ends it when told to."""
    while state[BEGUN] == 0:
        time.sleep(0.001)
    say(name)
    sys.stdin.readline()
    state[MAY_END] = 1


def launch(name: str, state: Any) -> None:
    """A kernel that runs until `watch` ends it."""
    _unheard.append(name)
    threading.Thread(target=watch, args=(name, state), daemon=True).start()
    waiting[1, 1](state)


def main(name: str) -> None:
    gate._SECONDS_TO_END, gate._Waiter = PATIENCE, _Waiter
    pt.use(name)
    state = np.zeros(3, np.int32)
    try:
        launch("long", state)
    except KeyboardInterrupt:
        say(f"ended {state[ENDED] == 1}")
    launch("endless", np.zeros(3, np.int32))


if __name__ == "__main__":
    main(sys.argv[1])
