"""Sizes of problems as they are typed: numbers, products and ranges."""

from __future__ import annotations

import re
from itertools import product

Size = tuple[int, ...]
"""The extents of a problem; what they mean is the operation's business."""

_EXTENT = re.compile(r"(?P<first>[1-9]\d*)(\.\.(?P<last>[1-9]\d*)(\+(?P<step>[1-9]\d*))?)?")


def parse_sizes(text: str) -> list[Size]:
    """The sizes that a text names.

    Parameters
    ----------
    text : str
        Sizes separated by commas; a size is extents separated by ``x``; an extent is a number, a
        range that doubles (``256..4096``) or one with a step (``256..1024+256``).

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> parse_sizes("512, 1024..4096x32")
    [(512,), (1024, 32), (2048, 32), (4096, 32)]
    """
    return [size for part in text.split(",") for size in _product(part.strip())]


def _product(text: str) -> list[Size]:
    return list(product(*(_extents(part) for part in text.split("x"))))


def _extents(text: str) -> list[int]:
    match = _EXTENT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no positive number, nor a range such as 256..4096 or 256..1024+256"
        )
    first = int(match["first"])
    last = int(match["last"] or first)
    if last < first:
        raise ValueError(f"the range {text} is empty")
    if match["step"]:
        return list(range(first, last + 1, int(match["step"])))
    return [first << i for i in range((last // first).bit_length())]
