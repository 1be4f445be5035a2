"""What the matrix product refuses, and with which error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable.backend import Device
from portable.errors import DeviceMismatchError, DTypeError, LaunchError, ShapeError
from portable.linalg import gemm

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _in_use(device: Device) -> Iterator[None]:
    with portable.use(device):
        yield


def normal(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def refused(device: Device, error: type[Exception], match: str, **changes: Any) -> None:
    """A product of 4x4 matrices with some arguments replaced."""
    arguments: dict[str, Any] = {"a": normal((4, 4)), "b": normal((4, 4))} | changes
    given = {
        name: device.from_numpy(x) if isinstance(x, np.ndarray) and not device.owns(x) else x
        for name, x in arguments.items()
    }
    a, b = given.pop("a"), given.pop("b")
    with pytest.raises(error, match=match):
        gemm(a, b, **given)


@pytest.mark.parametrize("name", ["b", "c", "bias", "out"])
def test_mixed_dtypes(device: Device, name: str) -> None:
    refused(device, DTypeError, "one dtype", **{name: normal((4, 4), "float16")})


def test_other_dtypes(device: Device) -> None:
    ones = np.ones((4, 4), np.int32)
    refused(
        device,
        DTypeError,
        "takes float16, bfloat16, float32, float64, int8, .*not int32",
        a=ones,
        b=ones,
    )


def test_vectors(device: Device) -> None:
    refused(device, ShapeError, "extent of 1|dimension of extent 1", b=normal((4,)))


def test_extents_that_do_not_meet(device: Device) -> None:
    refused(device, ShapeError, "last extent of a, 4", b=normal((5, 4)))


def test_leading_dimensions_that_do_not_broadcast(device: Device) -> None:
    refused(device, ShapeError, "broadcast", a=normal((2, 4, 4)), b=normal((3, 4, 4)))


def test_beta_without_c(device: Device) -> None:
    refused(device, ShapeError, "needs c", beta=1)


@pytest.mark.parametrize("name", ["c", "bias"])
@pytest.mark.parametrize("shape", [(3,), (5, 4), (2, 4, 4)], ids=str)
def test_addends_that_do_not_fit(device: Device, name: str, shape: tuple[int, ...]) -> None:
    match = f"{name} of shape .* does not broadcast"
    refused(device, ShapeError, match, beta=float(name == "c"), **{name: normal(shape)})


def test_a_result_of_another_shape(device: Device) -> None:
    refused(device, ShapeError, "out has shape", out=normal((4, 5)))


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("factor", ["2", None, 1j])
def test_factors_that_are_no_real_numbers(device: Device, name: str, factor: Any) -> None:
    refused(device, TypeError, f"{name}=.*takes a real number", **{name: factor})


def test_a_result_that_is_read_only(device: Device) -> None:
    out = device.from_numpy(np.zeros((4, 4), np.float32))
    if not isinstance(out, np.ndarray):
        pytest.skip("arrays of this device are always writable")
    out.flags.writeable = False
    refused(device, LaunchError, "gemm: out is read-only", out=out)


@pytest.mark.parametrize("name", ["a", "b", "bias"])
def test_a_result_over_an_operand(device: Device, name: str) -> None:
    whole = device.from_numpy(normal((8, 4)))
    refused(device, ShapeError, f"overlaps {name}", **{name: whole[:4], "out": whole[3:7]})


def test_a_result_over_a_part_of_c(device: Device) -> None:
    whole = device.from_numpy(normal((8, 4)))
    match = "overlaps c without being the same"
    refused(device, ShapeError, match, beta=1, c=whole[:4], out=whole[1:5])


def test_unknown_options(device: Device) -> None:
    refused(device, TypeError, "knows no depth; its options are accumulate", depth=3)


def test_unknown_words(device: Device) -> None:
    refused(device, ValueError, "gemm has auto, naive", algorithm="fast")
    refused(device, TypeError, "gemm takes None", activation="gelu")
    refused(device, TypeError, "gemm takes None", activation=abs)


def test_accumulators_that_are_too_narrow(device: Device) -> None:
    refused(device, DTypeError, "sums in float32", accumulate=kl.f16)
    refused(device, DTypeError, "sums in float32", accumulate=kl.i32)
    if device.capabilities.float64:
        double = normal((4, 4), "float64")
        refused(device, DTypeError, "sums in float64", a=double, b=double, accumulate=kl.f32)


def test_operands_of_two_devices(device: Device) -> None:
    other = next((d for d in portable.devices() if d.name == "opencl:pocl"), None)
    if other is None or other is device:
        pytest.skip("needs another device with arrays of its own")
    with pytest.raises(DeviceMismatchError, match="in one call"):
        gemm(device.from_numpy(normal((4, 4))), other.from_numpy(normal((4, 4))))
