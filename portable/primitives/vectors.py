"""Whether operations of a user's work on vectors as they do on numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from portable import lang as kl
from portable.backend import Device
from portable.dtypes import DType
from portable.errors import KernelError
from portable.lang.kernel import kernel

__all__ = ["takes_vectors"]

_LANES: Final = 4


@kernel
def _combine(*, OP: Any, EACH: Any, GIVEN: Any, KIND: Any, LANES: int) -> None:
    """Combines two vectors and keeps the result, which has to be one of the same type."""
    value = kl.splat(kl.cast(1, GIVEN), LANES)
    total = kl.cast(value if EACH is None else EACH(value), KIND)
    kept = kl.private((1,), KIND, lanes=LANES)
    kept[0] = total
    if OP is not None:
        kept[0] = OP(kept[0], total)


@lru_cache(maxsize=1024)
def takes_vectors(device: Device, op: Any, each: Any, given: DType, kind: DType) -> bool:
    """Whether `op` combines vectors of `kind`, and `each` makes them of vectors of `given`.

    Found out by the language's rules alone; nothing is compiled or run.

    Parameters
    ----------
    device : Device
        Where kernels would run.
    op, each : Function or None
        The operations.
    given : DType
        Of elements.
    kind : DType
        Of totals, in registers.
    """
    if given.is_complex or kind.is_complex:
        return False
    constants = {"OP": op, "EACH": each, "GIVEN": given.register, "KIND": kind, "LANES": _LANES}
    launcher = _combine[1, 1]
    try:
        wanted = launcher.specialised(device, (), [], constants)
        _combine.translated(wanted, device.capabilities)
    except KernelError:
        return False
    return True
