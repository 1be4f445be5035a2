"""Shapes of fused networks: what the kernels take for granted is asserted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portable.nn.fused_parts import Shape

GOOD = Shape(
    rows=32, lanes=4, units=4, vectors=1, tile=(4, 4), split=8, pad=4, size=64, copy=True, hold=True
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 30}, "whole vectors"),
        ({"vectors": 3}, "whole vectors"),
        ({"lanes": 6, "rows": 36}, "lanes is a power of two"),
        ({"lanes": 1}, "2 to 32 lanes"),
        ({"size": 96}, "size is a power of two"),
        ({"size": 2048}, "at most 1024"),
        ({"split": 3}, "split is a power of two"),
        ({"split": 128}, "a sub-group"),
        ({"size": 4}, "a sub-group"),
    ],
)
def test_shapes_that_no_kernel_holds_for_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **change)
