"""Languages of other people, found by their entry points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from portable import dtypes as dt
from portable import errors, registry
from portable.lang import emit
from portable.lang.emit import dialect
from portable.lang.ir import expressions as e
from portable.lang.ir import statements as s
from portable.lang.ir.kernel import Kernel
from tests.support import irbuilder as ir
from tests.support.compilers import OpenCLDevice, opencl_devices

MODULE = """
    from dataclasses import replace

    from portable.backend import Program
    from portable.lang.emit.opencl import OPENCL
    from portable.lang.ir.kernel import all_statements
    from portable.lang.passes.semantics import Semantics


    def preludes(kernel, capabilities, features):
        return ["#define KERNEL __kernel", "#define ROOT(x) sqrt(x)"]


    SHOUTING = replace(
        OPENCL,
        name="shouting",
        kernel="KERNEL",
        preludes=preludes,
        functions={**OPENCL.functions, "sqrt": "ROOT({0})"},
    )


    class Telegraph:
        semantics = Semantics(signed_wraps=True)

        def program(self, kernel, capabilities):
            text = " STOP ".join(type(x).__name__ for x in all_statements(kernel.body))
            return Program(text, kernel.name, "telegraph", (), kernel.workgroup, 0, False, ())


    TELEGRAPH = Telegraph()
    NONSENSE = 7
"""
ENTRIES = """
    [portable.dialects]
    shouting = made_up_languages:SHOUTING
    telegraph = made_up_languages:TELEGRAPH
    nonsense = made_up_languages:NONSENSE
    missing = made_up_languages_that_are_missing:LANGUAGE
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution with languages of its own, beside this one."""
    (tmp_path / "made_up_languages.py").write_text(dedent(MODULE))
    info = tmp_path / "made_up-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
    (info / "entry_points.txt").write_text(dedent(ENTRIES))
    monkeypatch.syspath_prepend(tmp_path)
    for known in (dialect._installed, dialect.language):
        known.cache_clear()
    yield
    for known in (dialect._installed, dialect.language):
        known.cache_clear()


def roots() -> Kernel:
    x, out = ir.array("x"), ir.array("out")
    value = ir.load("value", x, ir.gid())
    root = e.Call("sqrt", (value.var,), dt.float32)
    return ir.kernel([x, out], [value, s.Store(out, (ir.gid(),), root, ir.LOC)], name="roots")


@pytest.mark.parametrize("runtime", opencl_devices(), ids=lambda d: d.name)
@pytest.mark.usefixtures("installed")
def test_a_language_like_c(runtime: OpenCLDevice) -> None:
    assert {"cuda", "hip", "opencl", "shouting"} <= set(dialect._installed())
    program = emit.generate(roots(), replace(runtime.capabilities, dialect="shouting"))
    assert program.dialect == "shouting"
    assert "KERNEL __attribute__" in program.source
    assert "ROOT(value)" in program.source
    found = runtime.run(program, (4,), [np.float32([0, 1, 4, 9]), np.zeros(4, np.float32)])[1]
    assert found.tolist() == [0, 1, 2, 3]


@pytest.mark.usefixtures("installed")
def test_a_language_unlike_c() -> None:
    capabilities = registry.device("simulator").capabilities
    program = emit.generate(roots(), replace(capabilities, dialect="telegraph"))
    assert program.source == "Load STOP Store"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("morse", "'morse' devices; the languages that are installed are cuda, hip, "),
        ("nonsense", "made_up_languages:NONSENSE, which is a int; it must be a Dialect"),
        ("missing", "cannot be imported: No module named"),
    ],
)
@pytest.mark.usefixtures("installed")
def test_what_is_no_language_is_refused(name: str, said: str) -> None:
    for _ in range(2):
        with pytest.raises(errors.UnsupportedError, match=said):
            dialect.language(name)
