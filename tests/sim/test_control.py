"""Branches and loops under masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portable import sim
from portable.dtypes import int32
from portable.errors import LaunchError, UnsupportedError
from portable.lang.ir import statements as s
from sim.build import K, binary, compare, global_array

OUT = global_array("out", int32)


def run(k: K, n: int = 8, groups: int = 1) -> Any:
    out = np.full(n, -1, np.int32)
    sim.run(k.build(), (groups, 1, 1), [out])
    return out.tolist()


def test_branches() -> None:
    k = K(OUT, workgroup=8)
    v = k.variable("v")
    k.assign(v, 10)
    with k.when(compare("lt", k.lid, 3)):
        k.assign(v, binary("add", v, k.lid))
    with k.otherwise():
        with k.when(compare("eq", k.lid, 5)):
            k.assign(v, 99)
        with k.otherwise():
            k.assign(v, 0)
    k.store(OUT, k.lid, v)
    assert run(k) == [10, 11, 12, 0, 0, 99, 0, 0]


@given(st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-3, -2, -1, 0, 1, 2, 3]))
@settings(max_examples=60, deadline=None)
def test_ranges_are_pythons(start: int, stop: int, step: int) -> None:
    k = K(OUT, workgroup=4)
    total = k.variable("total")
    k.assign(total, 0)
    with k.range(binary("add", k.lid, start), stop, step) as i:
        k.assign(total, binary("add", binary("mul", total, 3), i))
    k.store(OUT, k.lid, total)

    def exact(item: int) -> int:
        total = 0
        for i in range(start + item, stop, step) if step else ():
            total = total * 3 + i
        return (total + 2**31) % 2**32 - 2**31

    assert run(k, 4) == [exact(i) for i in range(4)]


def test_break_continue_and_return() -> None:
    k = K(OUT, workgroup=6)
    total = k.variable("total")
    k.assign(total, 0)
    with k.range(0, 10) as i:
        with k.when(compare("eq", binary("mod", i, 2), 1)):
            k.skip()
        with k.when(compare("gt", i, k.lid)):
            k.stop()
        with k.when(compare("eq", k.lid, 5)), k.when(compare("eq", i, 2)):
            k.store(OUT, k.lid, 500)
            k.end()
        k.assign(total, binary("add", total, binary("add", i, 1)))
    k.store(OUT, k.lid, total)

    def exact(item: int) -> int:
        total = 0
        for i in range(10):
            if i % 2 == 1:
                continue
            if i > item:
                break
            if item == 5 and i == 2:
                return 500
            total += i + 1
        return total

    assert run(k, 6) == [exact(i) for i in range(6)]


def test_while_with_different_trip_counts() -> None:
    k = K(OUT, workgroup=8)
    n, rounds = k.variable("n"), k.variable("rounds")
    k.assign(n, binary("add", k.lid, 1))
    k.assign(rounds, 0)
    with k.loop():
        with k.when(compare("eq", n, 1)):
            k.stop()
        with k.when(compare("eq", binary("mod", n, 2), 0)):
            k.assign(n, binary("floordiv", n, 2))
        with k.otherwise():
            k.assign(n, binary("add", binary("mul", n, 3), 1))
        k.assign(rounds, binary("add", rounds, 1))
    k.store(OUT, k.lid, rounds)
    assert run(k) == [0, 1, 7, 2, 5, 8, 16, 3]


def test_nested_loops_break_only_the_inner() -> None:
    k = K(OUT, workgroup=4)
    total = k.variable("total")
    k.assign(total, 0)
    with k.range(0, 3), k.range(0, 5) as j:
        with k.when(compare("gt", j, k.lid)):
            k.stop()
        k.assign(total, binary("add", total, 1))
    k.store(OUT, k.lid, total)
    assert run(k, 4) == [3, 6, 9, 12]


def test_work_item_words() -> None:
    names = ["global_id", "local_id", "group_id", "global_size", "num_groups"]
    for dim in range(3):
        k = K(OUT, workgroup=(2, 3, 1))
        linear = binary("add", binary("mul", k.word("global_id", 1), 4), k.word("global_id", 0))
        linear = binary("add", linear, binary("mul", k.word("global_id", 2), 12))
        digits = k.let(k.word("global_id", dim))
        for name in names[1:]:
            digits = k.let(binary("add", binary("mul", digits, 10), k.word(name, dim)))
        k.store(OUT, linear, digits)
        out = np.zeros(24, np.int32)
        sim.run(k.build(), (2, 1, 2), [out])
        size, groups = (2, 3, 1)[dim], (2, 1, 2)[dim]
        at = np.indices((2, 3, 4))[2 - dim].reshape(-1)
        for g, found in zip(at.tolist(), out.tolist(), strict=True):
            digits_ = (g, g % size, g // size, size * groups, groups)
            assert found == int("".join(map(str, digits_)))


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    k = K(OUT, workgroup=4)
    with k.when(compare("gt", k.lid, 1)):
        k.add(s.Print(("item ", k.lid, " twice ", binary("mul", k.lid, 2)), k.loc))
    run(k)
    assert capsys.readouterr().out == "item 2 twice 4\nitem 3 twice 6\n"


def test_instructions_are_refused() -> None:
    k = K(OUT)
    k.add(s.Instruction("mma", k.loc))
    with pytest.raises(UnsupportedError, match=r"kernel.py:1.*mma is not simulated"):
        run(k)


def test_bad_launches_are_refused() -> None:
    k = K(OUT)
    k.store(OUT, k.lid, 1)
    kernel = k.build()
    frozen = np.zeros(4, np.int32)
    frozen.flags.writeable = False
    with pytest.raises(LaunchError, match="read-only"):
        sim.run(kernel, (1, 1, 1), [frozen])
    with pytest.raises(LaunchError, match="takes 1 arguments, not 2"):
        sim.run(kernel, (1, 1, 1), [frozen, frozen])
    with pytest.raises(TypeError, match="int32, not float64"):
        sim.run(kernel, (1, 1, 1), [np.zeros(4)])
    with pytest.raises(ValueError, match="1 dimensions, not 2"):
        sim.run(kernel, (1, 1, 1), [np.zeros((4, 4), np.int32)])
    with pytest.raises(LaunchError, match="workgroups"):
        sim.run(kernel, (0, 1, 1), [np.zeros(4, np.int32)])
