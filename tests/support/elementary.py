"""Runs kernels by the elementary functions of the language where devices have their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from portable.backend import Capabilities
from portable.lang import emit
from portable.lang.emit.dialect import Dialect, language
from portable.lang.ir.facts import Facts
from portable.lang.ir.kernel import Kernel
from portable.lang.passes.bindings import Bindings
from portable.lang.passes.functions import INSTRUCTIONS, lower_functions
from portable.lang.passes.semantics import Semantics
from portable.sim.run import Simulation
from tests.support.capabilities import made_up

OWN = Semantics(signed_wraps=True, functions=INSTRUCTIONS)
"""Of a language that has no functions but instructions."""


@contextmanager
def own_functions() -> Iterator[None]:
    """Within it, kernels not yet compiled are made of the language's own functions everywhere."""

    def without(name: str) -> Any:
        found = language(name)
        semantics = replace(found.semantics, functions=INSTRUCTIONS)
        return replace(found, semantics=semantics) if isinstance(found, Dialect) else found

    begin = Simulation.__init__

    def simulated(self: Simulation, kernel: Kernel, target: Capabilities | None = None) -> None:
        begin(self, _lowered(kernel, target or made_up()), target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(emit, "language", without)
        patched.setattr(Simulation, "__init__", simulated)
        yield


def _lowered(kernel: Kernel, capabilities: Capabilities) -> Kernel:
    return lower_functions(kernel, capabilities, OWN, Bindings(Facts(kernel)))
