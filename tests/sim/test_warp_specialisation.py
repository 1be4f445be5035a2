"""Products whose copies a warpgroup of its own makes: as they are lowered, and with faults planted.

What is emitted is what runs here: strands that wait for each other at mbarriers, copies and
multiplications beside them, and the asynchronous proxy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from portable import dtypes as dt
from portable import sim
from portable.backend import Capabilities
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from portable.lang.ir.nodes import constant
from portable.lang.tiles import lower
from portable.sim.errors import FaultError
from tests.support.faults import Change, given, one_slot_on, planted, renamed, without
from tests.support.matrices import ENGINE, HOPPER, in_turn, operands, sizes_of, translated

_TILE = (64, 64, 64)
_ON = {"items": HOPPER, "engine": ENGINE}


@cache
def lowered(who: str) -> Kernel:
    """One warpgroup multiplies, another copies or asks a copy engine."""
    on: Capabilities = _ON[who]
    made = translated(in_turn, dt.float16, dt.float32, 256, on, "RR", **sizes_of(_TILE, 3))
    return lower(made, on)


def product(kernel: Kernel, rounds: int = 5) -> bool:
    """Whether the product is right."""
    m, n, k = 64, 64, rounds * 64
    a, b = operands(m, n, k, dt.float16, "rr")
    c = np.full((m, n), np.nan, np.float32)
    sim.run(kernel, (1, 1, 1), (a, b, c))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    return bool((c == expected * (1 + np.eye(m))).all())


@pytest.mark.parametrize("turns", ["first", "last", "random"])
@pytest.mark.parametrize("completion", ["early", "late", "random"])
@pytest.mark.parametrize("who", _ON)
def test_products_are_right_whatever_comes_first(who: str, completion: str, turns: str) -> None:
    with sim.checks(completion=completion, turns=turns, seed=3):
        assert product(lowered(who), 4)


# -- faults ---------------------------------------------------------------------------------------

_BUSY, _EMPTY, _NOBODY = "still working on", "nothing has written", "completes the phase"


def without_barriers(x: s.Statement) -> s.Block:
    return () if isinstance(x, s.Barrier) else (x,)


def other_phase(x: e.Expression) -> e.Expression:
    return e.Binary("sub", constant(1, x.type), x)


def scaled(by: float) -> Callable[[e.Expression], e.Expression]:
    """A constant made larger or smaller."""

    def change(x: e.Expression) -> e.Expression:
        assert isinstance(x, e.Const)
        return constant(int(x.value * by), x.type)

    return change


_PLANTED: dict[str, tuple[str, Change, str]] = {
    "no proxy fence": ("items", without("proxy.fence"), "asynchronous proxy"),
    "no barrier after making mbarriers": ("engine", without_barriers, "race on (filled|freed)"),
    "tiles not waited for": (
        "engine", without("mbarrier.wait", "filled"), f"{_BUSY}|{_EMPTY}"
    ),
    "tiles of work-items not waited for": (
        "items", without("mbarrier.wait", "filled"), f"{_BUSY}|{_EMPTY}"
    ),
    "free slots not waited for": (
        "engine", without("mbarrier.wait", "freed"), f"write of tile.*{_BUSY}|race on tile"
    ),
    "free slots of work-items not waited for": (
        "items", without("mbarrier.wait", "freed"), f"write of tile.*{_BUSY}|race on tile"
    ),
    "the other phase waited for": (
        "engine", given("mbarrier.wait", "filled", other_phase), f"{_BUSY}|{_EMPTY}|{_NOBODY}"
    ),
    "the next slot waited for": (
        "engine", one_slot_on("mbarrier.wait", "filled"), f"{_BUSY}|{_EMPTY}|{_NOBODY}"
    ),
    "the next slot freed": ("engine", one_slot_on("mbarrier.arrive", "freed"), _NOBODY),
    "a slot never freed": ("engine", without("mbarrier.arrive", "freed"), _NOBODY),
    "products not waited for": ("engine", without("wgmma.wait.1"), f"multiplication is {_BUSY}"),
    "a slot freed one product early": (
        "engine",
        renamed("wgmma.wait.1", "wgmma.wait.2"),
        f"multiplication is {_BUSY}|race on tile",
    ),
    "the last product not waited for": ("engine", without("wgmma.wait"), "nothing has waited for"),
    "products in no group": ("engine", without("wgmma.commit"), f"multiplication is {_BUSY}"),
    "no fence for registers": ("engine", without("wgmma.fence"), "fence for registers"),
    "fewer bytes expected": (
        "engine",
        given("mbarrier.arrive.expecting", "filled", scaled(0.5)),
        f"{_BUSY}|{_NOBODY}",
    ),
    "more bytes expected": (
        "engine", given("mbarrier.arrive.expecting", "filled", scaled(2)), _NOBODY
    ),
    "too few arrivals": (
        "items",
        given("mbarrier.init.many", "filled", scaled(0.5)),
        f"{_BUSY}|{_NOBODY}",
    ),
    "too many arrivals": (
        "engine", given("mbarrier.init.many", "freed", scaled(2)), _NOBODY
    ),
    "an arrival that does not follow the copies": (
        "items", renamed("mbarrier.arrive.copied", "mbarrier.arrive"), f"copy is {_BUSY}"
    ),
}  # fmt: skip


@pytest.mark.parametrize("completion", ["early", "late"])
@pytest.mark.parametrize("fault", _PLANTED)
def test_planted_faults_are_reported(fault: str, completion: str) -> None:
    who, change, text = _PLANTED[fault]
    with sim.checks(completion=completion):
        found = fault_of(planted(lowered(who), change))
    assert re.search(text, found)


def fault_of(kernel: Kernel) -> str:
    """What the simulator says of a product, with a line of the kernel."""
    try:
        return "right" if product(kernel) else "wrong"
    except FaultError as error:
        mine = error.location.file == in_turn.python.__code__.co_filename
        return str(error) if mine else f"elsewhere: {error.location}"
