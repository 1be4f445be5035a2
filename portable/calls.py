"""Tells whether the result of a call is entered by a ``with`` statement.

A function that is both called plainly and used in ``with`` statements cannot tell which from its
arguments; the instruction after the call says it.
"""

from __future__ import annotations

import dis
from types import FrameType
from typing import Final

_CACHE: Final = dis.opmap["CACHE"]
_ENTER: Final = ("BEFORE_WITH", "BEFORE_ASYNC_WITH")
_ENTER_BY_PARTS: Final = ["COPY", "LOAD_SPECIAL"]  # from Python 3.14 on
_PASS_ON: Final = ("CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX")
_FIRST_HALF: Final = "PRECALL"
"""In Python 3.11 calls of built-in functions happen in the first of two instructions."""

_REACH: Final = 48
"""Bytes that hold a call's caches and two instructions with theirs."""

_RETURN: Final = "RETURN_VALUE"


def is_for_a_block(caller: FrameType | None) -> bool:
    """Whether the result of the call that `caller` is at goes to a ``with`` statement.

    So it does, too, where it is handed on as an argument, as to `contextlib.ExitStack`, or returned
    to a frame that does so.
    """
    while caller is not None:
        following = _following(caller)
        if not following or following[0] != _RETURN:
            return bool(following) and _takes_as_block(following)
        caller = caller.f_back
    return False


def _takes_as_block(following: list[str]) -> bool:
    return following[0] in (*_ENTER, *_PASS_ON) or following == _ENTER_BY_PARTS


def _following(frame: FrameType) -> list[str]:
    """The two instructions after the call that a frame is at."""
    code, at = frame.f_code.co_code, frame.f_lasti
    rest = [dis.opname[op] for op in code[at + 2 : at + _REACH : 2] if op != _CACHE]
    second_half = dis.opname[code[at]] == _FIRST_HALF and rest[:1] == ["CALL"]
    return rest[1:3] if second_half else rest[:2]
