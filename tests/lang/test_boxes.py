"""Arrays of which copy engines take boxes, and how launches pass them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from portable.backend import Argument, ArrayView, Box, Executable
from portable.dtypes import float16
from portable.lang.arguments.arguments import array_spec
from portable.lang.launch.packing import packing_of

HALF = np.dtype(np.float16)


def view(shape: tuple[int, ...], strides: tuple[int, ...], address: int = 4096) -> ArrayView:
    return ArrayView(HALF, shape, strides, address, address)


@pytest.mark.parametrize(
    ("shape", "strides", "boxed"),
    [
        ((40, 24), (48, 2), True),
        ((40, 24), (2, 80), True),
        ((3, 40, 24), (2048, 48, 2), True),
        ((24,), (2,), True),
        ((40, 1), (48, 32), True),
        ((40, 24), (50, 2), False),
        ((40, 24), (-48, 2), False),
        ((40, 24), (0, 2), False),
        ((40, 24), (48, -2), False),
        ((40, 24), (48, 16), False),
        ((0, 24), (48, 2), False),
        ((2, 2, 2, 2, 2, 8), (256, 128, 64, 32, 16, 2), False),
        ((2, 24), (2**40, 2), False),
    ],
)
def test_boxes_are_taken_of_arrays_in_plain_layouts(
    shape: tuple[int, ...], strides: tuple[int, ...], boxed: bool
) -> None:
    assert array_spec(view(shape, strides)).boxed == boxed
    assert not array_spec(view(shape, strides, 4104)).boxed


class _Described(Executable):
    """An executable that describes boxes in words."""

    def launch(self, groups: tuple[int, int, int], arguments: Sequence[Any]) -> None:
        raise NotImplementedError

    def boxes(
        self, argument: Argument, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Callable[[Any, int], Any]:
        return lambda handle, offset: (handle, offset, argument.box, shape, strides)


def test_a_box_is_described_for_each_handle() -> None:
    box = Box((1, 0), (64, 32), (1, 1), 8)
    arguments = [Argument("pointer", 0, 0, float16), Argument("box", 0, 0, float16, box)]
    array = view((40, 24), (48, 2))
    packing = packing_of(arguments, (array_spec(array),), [array], _Described())
    for handle in (4096, 8192):
        filled = packing.pack([handle], [32], [None])
        assert filled == [handle, (handle, 32, box, (40, 24), (48, 2))]
