"""Tests on an OpenCL device told to be one of OpenCL 1.2, as Apple's GPUs are.

Programs are compiled for OpenCL C 1.2, and the device has neither 64-bit atomics, nor sub-groups,
nor halves to compute with, nor any order of memory between workgroups. Tests that such a device
refuses for its lack of 64-bit atomics are skipped by that name. The smoke test, or what pytest is
given::

    python -m tests.support.older_opencl opencl:intel
    python -m tests.support.older_opencl opencl:intel -q tests/primitives
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from portable.backend.capabilities import Capabilities
from portable.errors import UnsupportedError
from portable_backends.opencl import capabilities as opencl_capabilities
from portable_backends.opencl import runtime as opencl_runtime
from tests.support import smoke

_options_for = opencl_runtime.options_for
_capabilities_of = opencl_capabilities.capabilities_of


def _older_options(device: Any, capabilities: Capabilities, flags: Sequence[str]) -> list[str]:
    options = _options_for(device, capabilities, flags)
    return ["-cl-std=CL1.2" if x.startswith("-cl-std") else x for x in options]


def _older_capabilities(device: Any) -> Capabilities:
    return replace(
        _capabilities_of(device),
        atomics64=False,
        float_atomics=False,
        native_half=False,
        sub_group_size=1,
        memory_orders="relaxed",
        forward_progress=False,
        compressed_bytes=0,
    )


class Refusals:
    """A plugin of pytest: what the device refuses for want of 64-bit atomics is skipped."""

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, object, object]:
        """Runs a test."""
        try:
            return (yield)
        except UnsupportedError as refusal:
            if "has no 64-bit atomics" not in str(refusal):
                raise
            pytest.skip("64-bit atomics are lacking")


def main() -> int:
    """Makes the drivers older for this process, then runs tests on the device that is named."""
    opencl_runtime.options_for = _older_options
    opencl_capabilities.capabilities_of = _older_capabilities
    device, *chosen = sys.argv[1:]
    if chosen:
        os.environ["PORTABLE_TEST_DEVICES"] = device
        return pytest.main(chosen, [Refusals()])
    sys.argv = ["smoke", "--device", device]
    return smoke.main()


if __name__ == "__main__":
    sys.exit(main())
