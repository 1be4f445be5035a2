"""Some of the cases of `tests.support.ordinary`, and that it has all public functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import portable
from portable import array, conv, linalg, numerics, primitives, random
from portable.array import fft as array_fft
from portable.array import linalg as array_linalg
from portable.backend import Device
from tests.support import ordinary
from tests.support.ordinary.model import DTYPES, SHAPES
from tests.support.ordinary.run import cases, run

_EVERY: Final = 197
"""One case in so many."""

_WITHOUT_CASES: Final[dict[str, str]] = {
    # of no arrays' elements
    "Array __array_api_version__ __array_namespace_info__ can_cast finfo iinfo isdtype result_type "
    "newaxis e inf nan pi": "no function of elements",
    "bool complex64 complex128 int8 int16 uint8 uint16 uint32 uint64": "dtypes, not functions",
    "Convolution Generator Histogram LeastSquares PreparedConvolution SharedConvolution": "classes",
    "EighResult LUFactors PolarResult QRFactors SVDResult": "classes",
    "from_dlpack implements": "tests/array/test_interoperation.py",
    # asked for at sizes of their own
    "empty empty_like full ones ones_like zeros": "what is new holds no results; zeros_like does",
    "broadcast_arrays reshape squeeze": "tests/array/test_functions.py: views",
    "matrix_rank pinv det eigvalsh": "tests/array/test_functions.py: made of svd, eigh and qr",
    "unique_all": "made of what the other three are",
    "fftfreq rfftfreq ifftshift hfft ihfft ifftn irfftn": "tests/array/test_fft.py",
    "conv2d_input_gradient conv2d_weight_gradient prepare prepare_input_gradient prepare_shared "
    "prepare_weight_gradient": "tests/conv",
    "conv1d conv1d_input_gradient conv1d_weight_gradient conv3d conv3d_input_gradient "
    "conv3d_weight_gradient conv_transpose2d": "tests/conv/test_dimensions.py",
    "workspace_size": "a number; tests/conv",
    "polar": "tests/linalg/test_spectral.py",
    "prepare_gemm": "tests/doors: a way through this door",
    "choice jump": "tests/random_numbers",
    "Keyed TopK UniqueRows": "what functions give",
    "allclose logspace": "tests/numerics/test_further_numerics.py",
    "eig eigvals broadcast_shapes": "by LAPACK on the host, or of no arrays at all",
}
"""Public names, several in a key, that ordinary sizes leave out, and why."""


@pytest.mark.needs_compiler
def test_some_ordinary_sizes(device: Device) -> None:
    """The whole list is `python -m tests.support.ordinary`."""
    told: list[str] = []
    with portable.use(device):
        outcome = run(device, list(cases())[::_EVERY], told.append)
    assert not outcome.failed, "\n".join(told)
    assert outcome.passed


def test_each_public_function_has_a_case() -> None:
    folder = Path(str(ordinary.__file__)).parent
    text = "".join((folder / name).read_text() for name in ("arrays.py", "others.py"))
    named = set(re.findall(r"\w+", text))
    left_out = {name for names in _WITHOUT_CASES for name in names.split()}
    new = sorted(set(_public()) - named - left_out)
    assert not new, f"functions that tests/support/ordinary does not call: {new}"


def _public() -> Iterator[str]:
    for module in (array, array_linalg, array_fft, linalg, conv, numerics, primitives):
        yield from module.__all__
    yield from (name for name in vars(random.Generator) if not name.startswith("_"))


def test_each_dtype_and_shape_has_many_cases() -> None:
    """Shapes and dtypes take turns, none of them left out."""
    drawn = list(cases())
    assert all(sum(case.dtype == dtype for case in drawn) > 50 for dtype in DTYPES)
    assert all(sum(case.shape == shape for case in drawn) > 100 for shape in SHAPES)
