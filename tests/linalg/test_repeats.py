"""Work that is recorded and repeated, parts of it at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portable import float32
from portable.backend import Device
from portable.linalg import qr
from portable.linalg.base.operands import views_overlap
from portable.linalg.products.repeats import at_once, repeated, room_for
from tests.linalg.systems import on, random, ratio


def test_work_at_the_same_time_has_rooms_of_its_own(device: Device) -> None:
    rooms: list[Any] = []

    def take() -> None:
        rooms.append(room_for(device, "left", (1, 8, 8), float32))

    repeated(device, lambda: at_once(device, take, take))()
    first, second = (device.view(x) for x in rooms[-2:])
    assert not views_overlap(first, second)


@pytest.mark.needs_compiler
def test_either_of_two_pieces_may_be_done_first(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded of each is repeated as one piece."""
    calls = []

    def turned(first: Callable[[], object], second: Callable[[], object]) -> None:
        calls.append(first)
        second()
        first()

    monkeypatch.setattr(device, "at_once", turned)
    for seed in range(4):
        a = random((300, 300), "float32", seed)
        q, r = on(device, qr, a)
        assert ratio(q @ r - a, a) < 30
    # Of each matrix but the one whose launches are recorded; graphs take in all that come later.
    assert len(calls) > (4 if type(device).replay is Device.replay else 1)
