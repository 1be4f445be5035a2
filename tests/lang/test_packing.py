"""The arguments of programs, filled in by one text whoever launches."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import ArrayView
from portable.lang.launch.packing import ArgumentText, Packing

FILLING = Packing(
    [None, 7, None, None, None, None],
    pointers=[(0, 0)],
    offsets=[(2, 0, 4)],
    scalars=[(3, 1, None), (4, 1, str)],
    boxes=[(5, 0, lambda handle, offset: [handle, offset])],
)
FILLED = ["memory", 7, 2, 3, "3", ["memory", 8]]


def test_handles_offsets_numbers_and_boxes() -> None:
    view = ArrayView(np.dtype(np.float32), (2,), (4,), "memory", 0, offset=8)
    for _ in range(2):
        assert FILLING.pack(["memory", None], [8, 0], [None, 3]) == FILLED
        assert FILLING.pack_views([view, None], [None, 3]) == FILLED


def test_numbers_that_are_known_are_worked_out_once() -> None:
    names: dict[str, Any] = {"three": 3}

    def named(value: Any) -> str:
        names[f"v{len(names)}"] = value
        return f"v{len(names) - 1}"

    words = ArgumentText(
        "a{}".format, "o{}".format, lambda arg: "three", named, lambda text: (names[text],)
    )
    text = FILLING.text(words)
    assert "(three)" not in text
    assert eval(text, names, {"a0": "memory", "o0": 8}) == FILLED
