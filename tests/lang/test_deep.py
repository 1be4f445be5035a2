"""Deep calls take no memory from the system again and again."""

from __future__ import annotations

import sys

import pytest

from portable.system.isolation import with_room


def _depth(levels: int) -> int:
    return 0 if levels == 0 else 1 + _depth(levels - 1)


def test_arguments_results_and_exceptions_pass() -> None:
    assert with_room(divmod, 17, 5) == (3, 2)
    assert with_room(sorted, [1, 3, 2], reverse=True) == [3, 2, 1]
    with pytest.raises(ZeroDivisionError):
        with_room(divmod, 1, 0)


def test_calls_inside_are_as_deep_as_others() -> None:
    assert with_room(_depth, 300) == 300
    with pytest.raises(RecursionError):
        with_room(_depth, 2 * sys.getrecursionlimit())
