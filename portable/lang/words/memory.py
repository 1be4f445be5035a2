"""Arrays of the workgroup and of the work-item, vectors, and their loads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.lang.words.word import word

__all__ = [
    "compress",
    "count",
    "local",
    "private",
    "shuffle2",
    "splat",
    "vector",
    "vload",
    "vstore",
]


@word
def local(shape: int | Sequence[int], dtype: Any) -> Any:
    """An array shared by the workgroup, of static shape; its contents start undefined."""


@word
def private(shape: int | Sequence[int], dtype: Any, lanes: int = 1, *, fill: Any = None) -> Any:
    """An array of this work-item alone, of static shape; elements may be vectors of `lanes`.

    Its contents start undefined, or all with the value `fill`: a number, also in every lane, or of
    an array of structs a struct.
    """


@word
def vload(array: Any, *index: Any, lanes: int, axis: int = -1, ahead: int = 0) -> Any:
    """A vector of `lanes` (2, 3, 4, 8, 16, 32) neighbours along `axis`, the first at `index`.

    A processor brings what lies `ahead` elements further in memory, a constant, to its caches.
    OpenCL has vectors of 32 lanes on processors alone.
    """


@word
def vstore(array: Any, *index_and_value: Any, axis: int = -1, streaming: bool = False) -> None:
    """Writes a vector, the last argument, to neighbours along `axis`, the first at the index.

    `streaming`, a constant, says that it will not be read soon: where it fills a line of the
    processor's caches, it passes them by, and the line is not read from memory first.
    """


@word
def vector(*elements: Any) -> Any:
    """A vector of 2, 3, 4, 8, 16 or 32 numbers.

    ``v[l]`` takes a lane (`l` a constant), ``v[a:b]`` some lanes as a shorter vector.
    """


@word
def splat(x: Any, lanes: int) -> Any:
    """A vector whose lanes all hold `x`."""


@word
def shuffle2(x: Any, y: Any, lanes: Sequence[int]) -> Any:
    """A vector of lanes of two alike, numbered through both; `lanes` are constants."""


@word
def compress(x: Any, mask: Any) -> Any:
    """The lanes of a vector for which `mask`, a vector of bool, holds, in order; then zeros.

    With `count` this moves what is wanted to where it belongs, vectors at a time: each is stored
    whole, and the next one is stored over what does not count of it. Where
    ``kl.target.compressed_bytes`` is 0 the lanes go one by one, at many times the cost.
    """


@word
def count(mask: Any) -> Any:
    """For how many lanes of a vector of bool it holds."""
