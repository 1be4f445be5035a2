"""Ctrl-C among processes is noted once, and raised the second time or, if late, at the end."""

from __future__ import annotations

import os
import signal

import pytest

from portable.parallel.meeting import Interrupts

pytestmark = [
    pytest.mark.usefixtures("hears_ctrl_c"),
    pytest.mark.skipif(os.name != "posix", reason="other systems send no signals so"),
]


def test_the_second_one_is_raised() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(1, 2) as heard:
        assert not heard.came
        signal.raise_signal(signal.SIGINT)
        assert heard.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        heard.answered = True
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_nobody_was_told_of_is_raised_at_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Interrupts(1, 2):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
