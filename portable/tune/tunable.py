"""What an operation supplies so that its kernel can be tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from portable.backend import Capabilities, Device
from portable.dtypes import DType
from portable.tune.space import Parameters, Space

Size = tuple[int, ...]


class Problem(Protocol):
    """One problem on one device, its arrays made and its reference known."""

    def run(self, choice: Parameters) -> None:
        """Enqueues the kernel with one choice."""

    def error(self) -> float:
        """The worst error of the last result over what is allowed; clears the result."""


def parse_extents(text: str, *, axes: str, example: str) -> Size:
    """``n`` for all of `axes`, such as ``"MxN"``, or one number for each.

    Parameters
    ----------
    text : str
        What was typed.
    axes : str
        Names of the extents with an ``x`` between.
    example : str
        What the complaint shows.

    Raises
    ------
    ValueError
        For anything else.
    """
    expected = f"expected n or {axes}, such as {example}"
    count = len(axes.split("x"))
    try:
        extents = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(expected) from None
    if len(extents) not in (1, count) or min(extents) < 1:
        raise ValueError(expected)
    return extents * count if len(extents) == 1 else extents


@dataclass(frozen=True, slots=True)
class Tunable:
    """A kernel with parameters to choose; found through the entry points ``portable.tunables``.

    Attributes
    ----------
    space : Space
        The choices.
    dtypes : tuple of DType
        Each is tuned by itself.
    sizes : callable
        The problems to tune for on such a device, the largest first.
    parse_size : callable
        A size from the command line; ValueError says what is expected.
    flops : callable
        What a problem of a size costs, in operations of floats.
    problem : callable
        Makes a problem.
    entry : callable
        What the table lists, of a size and the best choice for it: the choice, if left out.
    """

    space: Space
    dtypes: tuple[DType, ...]
    sizes: Callable[[Capabilities], Sequence[Size]]
    parse_size: Callable[[str], Size]
    flops: Callable[[Size], float]
    problem: Callable[[Device, DType, Size], Problem]
    entry: Callable[[Size, Parameters], Parameters] = lambda size, choice: choice
