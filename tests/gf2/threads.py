"""A team of threads, to try what several processes do without starting any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Any

import numpy as np

from portable.gf2.team import Team


class ThreadTeam(Team):
    """One of several threads, which leave things for each other on a board."""

    def __init__(self, rank: int, board: list[Any], barrier: Barrier) -> None:
        self.rank, self.size = rank, len(board)
        self._board, self._barrier = board, barrier

    def broadcast(self, data: np.ndarray, root: int) -> Callable[[], None]:
        def wait() -> None:
            data[:] = self.gather(data.copy())[root]

        return wait

    def exchange(self, parts: Sequence[Any]) -> list[Any]:
        return [sent[self.rank] for sent in self.gather(list(parts))]

    def gather(self, part: Any) -> list[Any]:
        self._board[self.rank] = part
        self._barrier.wait(60)
        found = list(self._board)
        self._barrier.wait(60)
        return found


def run_together(size: int, work: Callable[[Team], Any]) -> list[Any]:
    """What `work` gives in each of so many threads."""
    board, barrier, results = [None] * size, Barrier(size), [None] * size

    def one(rank: int) -> None:
        try:
            results[rank] = work(ThreadTeam(rank, board, barrier))
        except BaseException:
            barrier.abort()
            raise

    threads = [Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results
