"""What kernels are refused for, and the types of arguments that they are refused with."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import portable as pt
from portable import errors
from portable.lang.arguments.arguments import ArraySpec, ParameterSpec, ScalarSpec, Specialisation
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from tests.support.capabilities import made_up

F32: Final = ArraySpec(pt.float32, ("unit",))
I32: Final = ArraySpec(pt.int32, ("unit",))
U8: Final = ArraySpec(pt.uint8, ("unit",))
I64: Final = ArraySpec(pt.int64, ("unit",))
U64: Final = ArraySpec(pt.uint64, ("unit",))
C64: Final = ArraySpec(pt.complex64, ("unit",))
BOOL: Final = ArraySpec(pt.bool_, ("unit",))
MATRIX: Final = ArraySpec(pt.float32, ("any", "unit"))
FLOAT: Final = ScalarSpec("float")
INT: Final = ScalarSpec("int")
DEVICE: Final = made_up(sub_group_size=8)


def refused(
    function: Callable[..., Any],
    *specs: ParameterSpec,
    workgroup: tuple[int, int, int] = (64, 1, 1),
    **constants: Any,
) -> errors.KernelError:
    """The refusal of a kernel, once its place is checked: the line that is marked ``# here``."""
    options = Options()
    items = tuple(constants.items())
    wanted = Specialisation(specs, items, workgroup, False, True, options)
    with pytest.raises(errors.KernelError) as caught:
        translate(function, wanted, DEVICE)
    error = caught.value
    assert error.location is not None
    assert error.location.file == function.__code__.co_filename
    text = Path(error.location.file).read_text().splitlines()[error.location.line - 1]
    assert "# here" in text, f"refused at another place: {error}"
    marked = re.search(r"# here (.+?)(?:  #|$)", text)
    if marked:
        start = text.index(marked[1])
        assert error.location.column == start + 1, str(error)
    assert text.rstrip() in str(error)
    return error
