"""The array object: attributes, conversions, indexing, and what the namespace says of itself."""

from __future__ import annotations

import math
from typing import Any

import array_api_compat
import numpy as np
import pytest

import portable
import portable.array as xp
from portable.backend import Device

CUBE = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
ROWS = np.array([0, -1, 2])
PLACES = np.array([[1], [2]])
INDICES = {
    "one": (ROWS,),
    "pair": (ROWS, ROWS),
    "broadcast": (PLACES, ROWS),
    "apart": (ROWS, slice(None), ROWS),
    "middle": (slice(None), ROWS, PLACES),
    "mask": (CUBE > 0,),
    "mask of rows": (np.array([True, False, True, True, False]),),
    "mask of two": (CUBE[:, :, 0] > 0,),
    "mask in the middle": (slice(None), CUBE[0, :, 0] > 0),
    "with an integer": (1, slice(1, 4), ROWS),
    "ellipsis": (..., ROWS),
    "new axis": (None, ROWS),
    "scalar array": (np.array(2),),
}


def on(device: Device, index: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(device.from_numpy(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.parametrize("name", INDICES)
def test_arrays_as_indices(ours: Device, name: str) -> None:
    index = INDICES[name]
    x = ours.from_numpy(CUBE)
    np.testing.assert_array_equal(portable.to_numpy(x[on(ours, index)]), CUBE[index])
    expected = CUBE.copy()
    values = np.random.default_rng(1).standard_normal(CUBE[index].shape).astype(np.float32)
    expected[index] = values
    x[on(ours, index)] = ours.from_numpy(values)
    np.testing.assert_array_equal(portable.to_numpy(x), expected)
    expected[index] = 2
    x[on(ours, index)] = 2
    np.testing.assert_array_equal(portable.to_numpy(x), expected)


def test_assignment_to_parts(ours: Device) -> None:
    a, x = CUBE.copy(), ours.from_numpy(CUBE)
    a[1:3, ::2] = 5
    x[1:3, ::2] = 5
    a[...] = a[::-1].copy()
    x[...] = x[::-1]
    a[2] += 1
    x[2] += 1
    a[0] = np.arange(7)
    x[0] = xp.arange(7, device=ours)
    np.testing.assert_array_equal(portable.to_numpy(x), a)
    with pytest.raises(ValueError, match="shape"):
        x[0] = xp.ones((3, 6, 7), device=ours)
    with pytest.raises(TypeError, match="astype"):
        xp.ones((3,), dtype=xp.int32, device=ours)[0] = 1.5


@pytest.mark.parametrize("index", [7, (0, 0, 0, 0), 1.5, (..., ...)], ids=str)
def test_wrong_indices(ours: Device, index: Any) -> None:
    with pytest.raises(IndexError):
        ours.from_numpy(CUBE)[index]


def test_attributes(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    assert (x.shape, x.ndim, x.size, x.dtype) == ((5, 6, 7), 3, 210, xp.float32)
    assert x.device is ours
    assert x.mT.shape == (5, 7, 6)
    assert x[0].T.shape == (7, 6)
    assert len(x) == 5
    with pytest.raises(ValueError, match="T takes a matrix"):
        _ = x.T


@pytest.mark.parametrize("name", ["shape", "strides", "dtype", "device", "colour"])
def test_attributes_are_not_set(ours: Device, name: str) -> None:
    x = xp.ones((3, 4), dtype=xp.float32, device=ours)
    for array in (x, x[1:], x.T, x + 1):
        with pytest.raises(AttributeError, match=f"{name} of an array cannot be set; reshape"):
            setattr(array, name, (4, 3))
    assert (x.shape, x.strides) == ((3, 4), (16, 4))
    assert float(xp.sum(x)) == 12


def test_python_numbers(ours: Device) -> None:
    assert int(xp.asarray(3, device=ours)) == 3
    assert float(xp.asarray(1.5, device=ours)) == 1.5
    assert complex(xp.asarray(1 + 2j, device=ours)) == 1 + 2j
    assert bool(xp.asarray(True, device=ours)) is True
    assert range(4)[xp.asarray(2, device=ours)] == 2
    with pytest.raises(TypeError, match="without dimensions"):
        bool(xp.ones((2,), device=ours))
    with pytest.raises(TypeError, match="complex"):
        float(xp.asarray(1j, device=ours))
    with pytest.raises(TypeError, match="integer"):
        range(4)[xp.asarray(2.0, device=ours)]


def test_nothing_is_copied_to_the_host_unasked(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    with pytest.raises(TypeError, match=r"portable\.to_numpy"):
        np.asarray(x)
    if ours.shared(x) is None:
        with pytest.raises((BufferError, TypeError, RuntimeError)):
            np.from_dlpack(x)
        with pytest.raises(BufferError, match="copy"):
            x.__dlpack__(copy=False, dl_device=(1, 0))
    else:
        np.from_dlpack(x[:, ::2])[...] = 0
        np.testing.assert_array_equal(portable.to_numpy(x)[:, ::2], 0)
        x = ours.from_numpy(CUBE)
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu", copy=True), CUBE)
    np.testing.assert_array_equal(portable.to_numpy(xp.from_dlpack(CUBE, device=ours)), CUBE)


def test_memory_shared_with_the_host(ours: Device) -> None:
    """In both directions, in odd views, and for longer than the array that it was taken from."""
    x = ours.from_numpy(CUBE)
    part = x[::-1, :, 1::2]
    if ours.shared(part) is None:
        pytest.skip(f"{ours.name} has memory of its own")
    assert part.__dlpack_device__() == (1, 0)
    host = np.from_dlpack(part)
    host[0, 0, 0] = -7
    x += 1
    ours.synchronize()
    expected = CUBE + 1
    expected[-1, 0, 1] = -6
    np.testing.assert_array_equal(host, expected[::-1, :, 1::2])
    np.testing.assert_array_equal(portable.to_numpy(x), expected)
    del x, part
    others = [xp.zeros_like(ours.from_numpy(CUBE)) for _ in range(3)]
    ours.synchronize()
    np.testing.assert_array_equal(host, expected[::-1, :, 1::2])
    assert len(others) == 3


def test_memory_that_there_is_not(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    for kind in {2, 4} - {x.__dlpack_device__()[0]}:
        with pytest.raises(BufferError, match=f"kind {kind}"):
            x.__dlpack__(dl_device=(kind, 0), copy=True)
    for refused in (x.__dlpack__, lambda stream: x.to_device(ours, stream=stream)):
        with pytest.raises(ValueError, match="stream"):
            refused(stream=1)


def test_asarray_and_copies(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    assert xp.asarray(x, dtype=xp.float64).dtype is xp.float64
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    assert x.to_device(ours) is x


@pytest.mark.needs_processor
def test_to_the_processor(ours: Device) -> None:
    x = ours.from_numpy(CUBE).to_device("cpu")
    assert isinstance(x, np.ndarray)
    np.testing.assert_array_equal(x, CUBE)


def test_text(ours: Device) -> None:
    x = xp.arange(3, device=ours)
    assert repr(x) == f"Array([0, 1, 2], dtype=int64, device={ours.name})"
    assert "shape=(2000,)" in repr(xp.ones((2000,), device=ours))
    assert (str(x), f"{x}", f"{x[1]} {x[2]:03d}") == ("[0 1 2]", "[0 1 2]", "1 002")
    assert str(xp.ones((2000,), device=ours)) == "[1. 1. 1. ... 1. 1. 1.]"
    with pytest.raises(AttributeError, match="to_numpy"):
        x.numpy()
    for shape in ((1001,), (7, 200), (3, 400, 5), (30, 40)):
        host = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)[..., ::-1]
        shown = np.array2string(host, separator=", ", prefix="Array(")
        expected = f"Array({shown}, shape={shape}, dtype=int32, device={ours.name})"
        assert repr(ours.from_numpy(host)) == expected


def test_mixing_devices(ours: Device) -> None:
    others = [d for d in xp.__array_namespace_info__().devices() if d is not ours]
    if not others:
        pytest.skip("there is one device of this kind only")
    with pytest.raises(ValueError, match="move one of them"):
        xp.ones((2,), device=ours) + xp.ones((2,), device=others[0])
    moved = xp.ones((2,), device=ours).to_device(others[0])
    assert moved.device is others[0]


def test_namespace(ours: Device) -> None:
    x = ours.from_numpy(CUBE)
    assert array_api_compat.array_namespace(x) is xp
    assert array_api_compat.device(x) is ours
    for version in ("2021.12", "2024.12", "2025.12"):
        assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"2099.*not known here; these are"):
        x.__array_namespace__(api_version="2099.12")
    assert xp.__array_api_version__ == "2025.12"


def test_a_namespace_bound_to_a_device(ours: Device) -> None:
    bound = portable.xp(ours)
    assert bound.zeros(3).device is ours
    assert bound.zeros(3, device=None).device is ours
    assert bound.fft.fftfreq(3).device is ours
    assert bound.fft.rfftfreq(3, dtype=xp.float32).device is ours
    info = bound.__array_namespace_info__()
    assert info.default_device() is ours
    assert ours in info.devices()
    assert info.capabilities() == xp.__array_namespace_info__().capabilities()
    assert info.default_dtypes()["real floating"] is bound.ones(1).dtype
    assert set(info.dtypes(kind="bool")) == {"bool"}


def test_information(ours: Device) -> None:
    info = xp.__array_namespace_info__()
    assert ours in info.devices()
    assert info.default_dtypes(device=ours)["integral"] is xp.int64
    assert info.dtypes(device=ours, kind="bool") == {"bool": xp.bool}
    assert info.capabilities()["boolean indexing"]


def test_dtypes() -> None:
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    assert xp.can_cast(xp.int8, xp.int16)
    assert xp.can_cast(xp.int8, xp.float32)
    assert not xp.can_cast(xp.float32, xp.int8)
    assert xp.isdtype(xp.float32, ("integral", "real floating"))
    assert xp.finfo(xp.complex64).bits == 32
    assert xp.iinfo(xp.uint8).max == 255


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [("int32", "int64"), ("float32", "float64"), ("float16", "float32"), ("float32", "int64")],
)
def test_results_of_the_same_kind_are_held_in_place(ours: Device, mine: str, theirs: str) -> None:
    a, b = np.array([[1, 2], [3, 4]], mine), np.array([5, 6], theirs)
    x, y = ours.from_numpy(a.copy()), ours.from_numpy(b)
    before = x
    x += y
    a += b
    assert x is before
    np.testing.assert_array_equal(portable.to_numpy(x), a)
    with pytest.raises(ValueError, match=r"broadcast|cannot hold"):
        x += xp.ones((3, 2, 2), dtype=y.dtype, device=ours)


@pytest.mark.parametrize(("mine", "theirs"), [("int32", "float32"), ("uint8", "int32")])
def test_results_of_another_kind_are_refused_in_place(ours: Device, mine: str, theirs: str) -> None:
    x = ours.from_numpy(np.ones(2, mine))
    with pytest.raises(TypeError, match="cannot hold"):
        x += ours.from_numpy(np.ones(2, theirs))


def test_the_truth_of_one_element(ours: Device) -> None:
    assert bool(ours.from_numpy(np.ones((1, 1), np.int32)))
    assert not ours.from_numpy(np.zeros(1, np.float32))
    for size in (0, 2):
        with pytest.raises(TypeError, match="without dimensions"):
            bool(ours.from_numpy(np.ones(size, np.float32)))
