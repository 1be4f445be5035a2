"""Looks for garbage that are put off."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from portable.system.isolation import collected_later

FORKED = """
import gc, os
from portable.system.isolation import collected_later
with collected_later():
    child = os.fork()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    assert not gc.isenabled()
raise SystemExit(status)
"""


def test_looks_are_put_off_and_come_again() -> None:
    assert gc.isenabled()
    with collected_later(), collected_later():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), collected_later():
        raise KeyError
    assert gc.isenabled()


def test_what_the_user_chose_stays() -> None:
    gc.disable()
    try:
        with collected_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_forked_child_looks_for_garbage() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True)
