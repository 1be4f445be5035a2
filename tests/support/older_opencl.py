"""The smoke test on PoCL told to be an OpenCL 1.2 device, as Apple's GPUs are.

Run as ``python -m tests.support.older_opencl``: programs are compiled for OpenCL C 1.2, and the
device has neither 64-bit atomics nor any order of memory between workgroups.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from portable.backend.capabilities import Capabilities
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
        memory_orders="relaxed",
        forward_progress=False,
        compressed_bytes=0,
    )


def main() -> int:
    """Makes PoCL older for this process, then runs the smoke test there."""
    opencl_runtime.options_for = _older_options
    opencl_capabilities.capabilities_of = _older_capabilities
    sys.argv = ["smoke", "--device", "opencl:pocl"]
    return smoke.main()


if __name__ == "__main__":
    sys.exit(main())
