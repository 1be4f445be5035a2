"""The tree in which workgroups turn a panel into a triangle, and how they hand results up it.

The reflectors of a panel that is `P` columns wide come from a reduction tree: a node takes ``FAN``
chunks of `P` rows and leaves a triangle in the first of them; the triangles of ``FAN`` neighbours
are the chunks of the node above. The chunks of a node at level l are ``FAN^l`` chunks apart in the
matrix, so that nothing is moved. (J. Demmel, L. Grigori, M. Hoemmen, J. Langou,
"Communication-optimal parallel and sequential QR and LU factorizations", SIAM J. Sci. Comput. 34
(2012).)

The workgroup that finishes last among the children of a node goes on with it: nobody waits, so one
launch does a whole tree wherever workgroups can order memory between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from portable import lang as kl
from portable.lang.library.collectives import arrived_last
from portable.linalg.dense.shapes import DenseShape

Side = Literal["plain", "turned", "back"]
"""What the Q of a tree makes of A: ``Q^T A``, ``A Q`` or, of trees from the root down, ``Q A``."""


class Reflectors(NamedTuple):
    """The reflectors of a tree, ``Q = I - V T V^T`` per node.

    Attributes
    ----------
    v : array, shape (nodes * FAN * P, P)
        The rows of each V below each other.
    t : array, shape (nodes, P, P)
        Each T, transposed.
    counts : array of i32
        A counter for the children of each node, all 0.
    """

    v: Any
    t: Any
    counts: Any


class Panel(NamedTuple):
    """Where a panel begins, and how many columns (rows, if it is seen turned) it has."""

    row: Any
    column: Any
    width: Any


class Level(NamedTuple):
    """A level of the tree: nodes in the levels below, nodes of its own, and distance of chunks."""

    base: Any
    nodes: Any
    stride: Any


@dataclass(frozen=True)
class Node:
    """A node of the tree: its number in its level, and the level."""

    number: Any
    level: Any

    @property
    def index(self) -> Any:
        """Its number in the tree."""
        return self.level.base + self.number

    def line(self, chunk: kl.Scalar, SHAPE: DenseShape) -> Any:
        """The first row of one of its chunks, counted from the first row of the tree."""
        return (self.number * SHAPE.fan + chunk) * (self.level.stride * SHAPE.panel)

    def chunks(self, rows: kl.Scalar, SHAPE: DenseShape) -> Any:
        """How many chunks it has where the tree has so many rows."""
        left = rows - self.line(0, SHAPE)
        return kl.minimum(kl.cdiv(left, self.level.stride * SHAPE.panel), SHAPE.fan)

    def above(self, SHAPE: DenseShape) -> Any:
        """The node that its triangle goes to."""
        below = self.level
        level = Level(
            below.base + below.nodes, kl.cdiv(below.nodes, SHAPE.fan), below.stride * SHAPE.fan
        )
        return Node(self.number // SHAPE.fan, level)

    def climbed(
        self, counts: kl.Array, strip: kl.Scalar, strips: kl.Scalar, SHAPE: DenseShape
    ) -> Any:
        """The node above, and whether to go on with it: who comes last of its children does."""
        if SHAPE.climb and self.level.nodes > 1:
            first = self.number // SHAPE.fan * SHAPE.fan
            siblings, above = kl.minimum(self.level.nodes - first, SHAPE.fan), self.above(SHAPE)
            return above, arrived_last(counts, above.index * strips + strip, siblings)
        return self, False


def level_sizes(rows: int, height: int, fan: int) -> list[int]:
    """How many nodes each level of the tree has, from the leaves up.

    Parameters
    ----------
    rows : int
        Rows of the panel.
    height : int
        Rows of a leaf.
    fan : int
        Nodes below each.
    """
    counts = [max(1, -(-rows // height))]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // fan))
    return counts
