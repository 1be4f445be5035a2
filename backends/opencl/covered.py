"""Programs with instructions of one generation of NVIDIA's GPUs alone, those of ``sm_90a``.

NVIDIA's OpenCL compiles for ``sm_90``, of which its assembler refuses them. But what it calls a
program's binary is text, and is assembled for what the text says that it is for. So they stand in
comments at first, where the compiler leaves them; in the binary they come out of these, which is
then loaded. No document promises any of this: see `opencl_warpgroups`.
"""

from __future__ import annotations

import re
from typing import Final

from portable.lang.emit.opencl import COVER

_TARGET: Final = re.compile(rb"(\.target\s+sm_90)\b")


def is_covered(source: str) -> bool:
    """Whether a program has such instructions, so that only its uncovered binary is of use."""
    return COVER in source


def uncovered(binary: bytes) -> bytes:
    """The binary with these instructions out of their comments, for the GPUs that have them."""
    return _TARGET.sub(rb"\1a", binary, count=1).replace(COVER.encode(), b"")
