"""The game of life on a torus: each cell looks at its eight neighbours.

A work-item is a cell. The board is read from one array and written to another, so that all cells
change at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import portable as pt
from portable import lang as kl


@pt.kernel
def step(board: Any, after: Any) -> None:
    """One generation."""
    x, y = kl.global_id(0), kl.global_id(1)
    rows, columns = board.shape
    if x < columns and y < rows:
        neighbours = 0
        for dy in kl.static_range(-1, 2):
            for dx in kl.static_range(-1, 2):
                neighbours += kl.i32(board[(y + dy) % rows, (x + dx) % columns])
        alive = board[y, x] != 0
        neighbours -= kl.where(alive, 1, 0)
        after[y, x] = kl.where((neighbours == 3) | (alive & (neighbours == 2)), 1, 0)


def run(start: np.ndarray[Any, Any], generations: int) -> np.ndarray[Any, Any]:
    """The board after some generations of `start`, of 0 and 1 in uint8."""
    # The processor's arrays are NumPy's own, and the caller's board is not to be played on.
    board = pt.xp().asarray(start, copy=True)
    after = pt.xp().empty_like(board)
    rows, columns = start.shape
    for _ in range(generations):
        step[(columns, rows), None](board, after)
        board, after = after, board
    return np.asarray(pt.to_numpy(board))


def main() -> None:
    """Plays 200 generations of a random board and draws the last."""
    start = (np.random.default_rng(0).random((512, 512)) < 0.3).astype(np.uint8)
    board = run(start, 200)
    print(f"{pt.device().name}: {start.sum()} cells live at first, {board.sum()} after 200 steps")
    import matplotlib.pyplot as plt

    picture = Path("life.png")
    plt.imsave(picture, board, cmap="binary")
    print(f"drawn in {picture}")


if __name__ == "__main__":
    main()
