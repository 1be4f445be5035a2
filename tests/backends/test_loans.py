"""Memory of other libraries is kept until work that was enqueued on it is done."""

from __future__ import annotations

import weakref
from typing import Any

from portable.backend.queues import Mark
from portable_backends.common.loans import Loans


class Array:
    """An array of another library, which uses its memory again as soon as it is gone."""


class Point(Mark):
    """A point that a device has yet to reach."""

    reached = False

    def wait(self) -> None:
        self.reached = True

    def seconds_after(self, earlier: Any) -> float:
        return 0.0


def lent(loans: Loans) -> tuple[Any, weakref.ref[Array]]:
    array = Array()
    return loans.loan(array), weakref.ref(array)


def test_an_array_that_was_let_go_is_kept_until_launches_on_it_are_done() -> None:
    marks: list[Point] = []

    def mark() -> Point:
        marks.append(Point())
        return marks[-1]

    loans = Loans(mark)
    held, array = lent(loans)
    loans.settle()
    assert not marks
    del held
    loans.settle()
    assert array() is not None
    later, other = lent(loans)
    marks[0].wait()
    del later
    assert array() is not None  # nobody has looked yet
    loans.settle()
    assert array() is None
    assert other() is not None
    marks[1].wait()
    loans.loan(Array())
    assert other() is None


def test_no_mark_is_made_while_a_queue_is_captured() -> None:
    marks: list[Point | None] = [None, None, Point()]
    loans = Loans(lambda: marks.pop(0))
    held, array = lent(loans)
    reached = marks[-1]
    assert reached is not None
    del held
    for _ in range(2):
        loans.settle()
        assert array() is not None
    assert not marks
    reached.wait()
    loans.settle()
    assert array() is None
