"""What a namespace lacks says where it is, or what the standard calls it."""

from __future__ import annotations

import re

import pytest

import portable
import portable.array as xp
from portable import numerics, primitives
from portable.absent_names import (
    _OF_MATRICES,
    KERNELS_AND_GRADIENTS,
    LAYERS,
    MATRICES,
    NUMERICS,
    PARALLEL,
    SPARSE,
    STANDARD,
)
from portable.backend import Device


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("array", "use xp.asarray"),
        ("concatenate", "use xp.concat"),
        ("median", "use portable.numerics.median"),
        ("einsum", "use portable.numerics.einsum"),
        ("cumsum", "use xp.cumulative_sum"),
        ("aranges", "did you mean xp.arange"),
        ("no_such_function_anywhere", "portable.to_numpy(x) gives NumPy's array"),
        ("rint", "use xp.round"),
        ("array_equal", "xp.all(a == b)"),
    ],
)
def test_what_is_called_otherwise(ours: Device, name: str, said: str) -> None:
    for namespace in (portable.xp(ours), xp):
        with pytest.raises(AttributeError, match=re.escape(said)):
            getattr(namespace, name)
        assert not hasattr(namespace, name)


def test_what_extensions_lack(ours: Device) -> None:
    bound = portable.xp(ours)
    with pytest.raises(AttributeError, match=r"xp\.linalg\.norm is not.*vector_norm"):
        _ = bound.linalg.norm
    with pytest.raises(AttributeError, match=r"use portable\.numerics\.lstsq"):
        _ = bound.linalg.lstsq
    with pytest.raises(AttributeError, match=r"did you mean xp\.fft\.rfft"):
        _ = bound.fft.rffft


def test_modules_are_no_functions(ours: Device) -> None:
    bound = portable.xp(ours)
    for name in ("base", "creation", "sets"):
        assert not hasattr(bound, name)
        assert name not in dir(bound)


def test_numerics_are_all_named() -> None:
    assert {name for name in numerics.__all__ if name.islower()} == NUMERICS


def test_the_standards_words_are_there() -> None:
    tables = STANDARD, _OF_MATRICES, KERNELS_AND_GRADIENTS, PARALLEL, MATRICES, LAYERS, SPARSE
    said = [words for table in tables for words in table.values()]
    for word in re.findall(r"(xp|portable)((?:\.\w+)+)", " ".join(said)):
        found = xp if word[0] == "xp" else portable
        for part in word[1].split(".")[1:]:
            found = getattr(found, part)


def test_versions(ours: Device) -> None:
    assert portable.xp(ours).__array_api_version__ == "2025.12"
    earlier = portable.xp(ours, api_version="2024.12")
    assert earlier.__array_api_version__ == "2024.12"
    vectors = earlier.arange(2), earlier.arange(3)
    assert isinstance(earlier.meshgrid(*vectors), list)
    assert isinstance(earlier.broadcast_arrays(vectors[0]), list)
    assert isinstance(earlier.__array_namespace_info__().devices(), list)
    assert isinstance(portable.xp(ours).__array_namespace_info__().devices(), tuple)
    with pytest.raises(ValueError, match=r"2031.*not known here; these are"):
        portable.xp(ours, api_version="2031.12")


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (portable, "jit", "portable.kernel"),
        (portable, "vmap", "leading dimensions"),
        (portable, "zeros", r"portable.xp\(\).zeros"),
        (portable, "from_numpy", "use portable.asarray"),
        (portable, "no_grad", "nothing else records"),
        (portable.linalg, "matmul", "use portable.linalg.gemm"),
        (portable.linalg, "tensordot", r"portable.xp\(\).linalg.tensordot"),
        (portable.nn, "relu", "portable.nn.ReLU"),
        (portable.nn, "Linaer", "did you mean portable.nn.Linear"),
        (portable.sparse, "csr_matrix", "use portable.sparse.CSR.from_scipy"),
        (portable.random, "randn", r"portable.random.Generator\(seed\).normal"),
        (portable.random, "poisson", r"portable.random.Generator\(seed\)$"),
        (portable, "synchronise", "did you mean portable.synchronize"),
        (portable, "no_such_thing", "portable has no no_such_thing$"),
        (numerics, "nanmean", r"xp.mean\(x"),
        (numerics, "medain", "did you mean portable.numerics.median"),
        (primitives, "top_k", "did you mean portable.primitives.topk"),
        (primitives, "cumsum", "portable.primitives.scan"),
        (portable.random.Generator(), "random", "use uniform"),
        (portable.random.Generator(), "intergers", "did you mean Generator.integers"),
        (portable.random.Generator(), "_word", r"^Generator has no attribute"),
    ],
)
def test_what_packages_lack(owner: object, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        getattr(owner, name)


def test_a_module_is_no_function() -> None:
    with pytest.raises(TypeError, match=r"portable\.asarray"):
        portable.array([1, 2])
    with pytest.raises(TypeError, match="subscripts are text"):
        numerics.einsum([0, 1], portable.xp().ones((2, 2)))
