"""Puts arrays in the place of others, wherever a kernel names them."""

from __future__ import annotations

from collections.abc import Mapping

from portable.lang.ir import statements as s
from portable.lang.ir.kernel import map_block, map_memory
from portable.lang.ir.types import Array


def substitute(body: s.Block, new: Mapping[Array, Array]) -> s.Block:
    """The block with every array that is a key of `new` replaced; the indices stay."""
    if not new:
        return body
    return map_block(body, lambda x: (map_memory(x, lambda array: new.get(array, array)),))
