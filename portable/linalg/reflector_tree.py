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

from typing import Any

from portable.lang.function import function

__all__ = ["level_sizes", "line"]


def level_sizes(rows: int, height: int, fan: int) -> list[int]:
    """How many nodes each level of the tree over so many rows has, `height` of them a leaf."""
    counts = [max(1, -(-rows // height))]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // fan))
    return counts


@function
def line(node: Any, chunk: Any, stride: Any, P: int, FAN: int) -> Any:
    """The first row of a chunk of a node, counted from the first row of the tree."""
    return (node * FAN + chunk) * (stride * P)
