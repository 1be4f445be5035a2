"""The body of one step of a pipeline: a slot of the ring is filled, another is multiplied."""

from __future__ import annotations

from typing import Any

from portable import lang as kl
from portable.lang.function import function


@function
def read_slot(tiles: Any, read: Any, step: Any, AHEAD: int, STAGES: int) -> None:
    """Asks for the tiles of a later step."""
    ahead = step + AHEAD
    slot = ahead % STAGES
    read(tiles[0][slot], tiles[1][slot], ahead)


@function
def multiply_slot(
    acc: Any, tiles: Any, valid: Any, step: Any, STAGES: int, TRANSPOSED: bool
) -> None:
    """Multiplies a step's tiles."""
    now = step % STAGES
    left = tiles[0][now].T if TRANSPOSED else tiles[0][now]
    kl.mma(acc, left, tiles[1][now], valid=None if valid is None else valid(step))


@function
def follow(after: Any, step: Any) -> None:
    """Does what is to be done with a step's sums."""
    after(step)
