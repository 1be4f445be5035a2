"""How long vectors may be whose chosen lanes a processor's compiler brings to the front by itself.

The functions that kernels call for it (`portable.lang.emit.avx512`) rest on what no document of a
driver promises. A kernel with them is compiled in a process of its own, since compilers were seen
to end the process on intrinsics that they do not know; then it is run and what it gives is checked,
once for each driver: the answer is kept in the cache of compiled programs.
"""

from __future__ import annotations

from functools import cache as kept_in_process
from typing import Any, Final

import numpy as np
import pyopencl as cl

from portable.dtypes import float32, float64, int32
from portable.lang.emit.avx512 import compress_definition, count_definition
from portable.lang.ir.types import Vector
from portable_backends.common.compiled_apart import Apart
from portable_backends.opencl.probes import output_of, remembered

_WIDEST: Final = 64
_OPTIONS: Final = ["-cl-std=CL3.0", "-w"]
_BODY: Final = """
__kernel void probe(__global const uint *x, __global uint *out)
{
    const int16 number = convert_int16(vload16(0, x)), m = number * 5 % 7 < 3;
    const float16 v = convert_float16(number + 1);
    vstore16(convert_uint16(choose_singles(v, m)), 0, out);
    vstore8(convert_uint8(choose_doubles(convert_double8(v.lo), m.lo)), 2, out);
    vstore8(convert_uint8(choose_integers(convert_int8(v.lo), m.lo)), 3, out);
    out[32] = how_many(m);
}
"""


def source() -> str:
    """A kernel that compresses long and short vectors, of floats and integers, and counts."""
    return "\n".join(
        [
            compress_definition("choose_singles", "float16", Vector(float32, 16)),
            compress_definition("choose_doubles", "double8", Vector(float64, 8)),
            compress_definition("choose_integers", "int8", Vector(int32, 8)),
            count_definition("how_many", 16),
            _BODY,
        ]
    )


@kept_in_process
def compressed_bytes(device: cl.Device) -> int:
    """As `Capabilities` has it, of a processor.

    Parameters
    ----------
    device : pyopencl.Device
        Its driver.
    """
    if 4 * int(device.native_vector_width_float) < _WIDEST:
        return 0
    text = source()
    return remembered(device, text, lambda: _WIDEST if compresses(device, text) else 0, 0)


def compresses(device: cl.Device, source: str) -> bool:
    """Whether a kernel like this one is compiled, and chooses the lanes that it should.

    Raises
    ------
    pyopencl.Error
        If there is no room for a context, or a kernel that was compiled cannot be run.
    """
    if not Apart(device).takes(source, _OPTIONS):
        return False
    out = output_of(cl.Context([device]), source, 1, _OPTIONS)
    x, chosen = np.arange(1, 17, dtype=np.uint32), np.arange(16) * 5 % 7 < 3
    short = _in_front(x[:8], chosen[:8])
    expected = np.concatenate([_in_front(x, chosen), short, short, [chosen.sum()]])
    return out is not None and bool((out[: expected.size] == expected).all())


def _in_front(x: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What `kl.compress` makes of it."""
    return np.concatenate([x[chosen], x[~chosen] * 0])
