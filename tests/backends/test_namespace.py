from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import portable
from portable import lang as kl
from portable import namespace, registry
from portable.backend import Device
from portable.errors import (
    BackendUnavailableError,
    DeviceError,
    DeviceFaultError,
    DeviceMismatchError,
    DTypeError,
)
from portable.lang.kernel import kernel
from portable.linalg import gemm
from portable_backends.simulator.backend import SimulatorDevice


@pytest.mark.needs_processor
def test_numpy_arrays_belong_to_the_device_in_use_where_it_takes_them(device: Device) -> None:
    array = np.zeros(3)
    with registry.use(device):
        owner = namespace.device_of(array)
    assert owner is (device if device.owns(array) else registry.device("cpu"))


def test_arrays_belong_to_their_device(device: Device) -> None:
    made = device.from_numpy(np.zeros(3, np.float32))
    with registry.use(device):
        assert namespace.device_of(1.0, made, np.float32(2), made) is device


def test_without_arrays_the_device_in_use_is_meant(device: Device) -> None:
    with registry.use(device):
        assert namespace.device_of() is device
        assert namespace.device_of(1, 2.0, 3j, True, np.int32(4)) is device


def test_a_devices_namespace_binds_its_functions_once(device: Device) -> None:
    assert portable.xp(device) is portable.xp(device)
    assert portable.xp(device).zeros is portable.xp(device).zeros
    assert portable.xp(device, api_version="2024.12") is not portable.xp(device)


@pytest.mark.needs_processor
def test_arrays_of_two_devices_are_refused(device: Device) -> None:
    made = device.from_numpy(np.zeros(3, np.float32))
    if isinstance(made, np.ndarray):
        pytest.skip("NumPy arrays belong to any device that takes them")
    with pytest.raises(DeviceMismatchError, match=device.name):
        namespace.device_of(made, np.zeros(3))


@pytest.mark.parametrize("thing", [[1, 2], "text", None, object()])
def test_what_is_no_array_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="is no array"):
        namespace.device_of(thing)


@pytest.mark.needs_processor
def test_asarray_moves_between_devices(device: Device) -> None:
    array = np.arange(5, dtype=np.float32)
    moved = namespace.asarray(array, device=device)
    assert device.owns(moved)
    back = namespace.asarray(moved, device="cpu")
    assert isinstance(back, np.ndarray)
    np.testing.assert_array_equal(back, array)
    np.testing.assert_array_equal(namespace.to_numpy(moved), array)


def test_a_device_and_its_name_mean_the_same_arrays(device: Device) -> None:
    host = np.ones((2, 2), np.float32)
    for given in (host, [1.0, 2.0]):
        by_name, by_device = (namespace.asarray(given, device=d) for d in (device.name, device))
        assert type(by_name) is type(by_device)
        assert (portable.to_numpy(by_name + by_device) == 2 * np.asarray(given)).all()


def test_asarray_leaves_an_array_where_it_is(device: Device) -> None:
    made = namespace.asarray(np.zeros(3, np.float32), device=device)
    assert namespace.asarray(made) is made
    assert namespace.asarray(made, device=device) is made


def test_arrays_moved_to_a_device_are_those_of_its_namespace(device: Device) -> None:
    """They mix with what `xp` makes, and with NumPy's where the device takes those."""
    xp = namespace.xp(device)
    host = np.arange(4, dtype=np.float32).reshape(2, 2)
    moved, made = namespace.asarray(host, device=device.name), xp.ones((2, 2), dtype=xp.float32)
    assert type(moved) is type(made)
    assert namespace.to_numpy(moved + made).tolist() == [[1, 2], [3, 4]]
    with registry.use(device):
        others = [moved, made] + ([host] if device.owns(host) else [])
        for other in others:
            assert type(gemm(moved, other)) is type(made)


def test_asarray_takes_python_values(device: Device) -> None:
    made = namespace.asarray([[1, 2], [3, 4]], device=device)
    assert device.owns(made)
    assert device.to_numpy(made).tolist() == [[1, 2], [3, 4]]


def test_to_numpy_copies() -> None:
    array = np.zeros(3)
    assert not np.shares_memory(namespace.to_numpy(array), array)


def test_numpy_arrays_move_without_a_runtime_for_the_processor(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = registry.device

    def without_cpu(name: Any = None) -> Device:
        if name == "cpu":
            raise BackendUnavailableError("'cpu' is not available")
        return found(name)

    monkeypatch.setattr(registry, "device", without_cpu)
    array = np.arange(5, dtype=np.float32)
    assert namespace.asarray(array) is array
    moved = namespace.asarray(array, device=device)
    np.testing.assert_array_equal(namespace.to_numpy(device.to_numpy(moved)), array)
    with registry.use(device):
        if device.owns(array):
            assert namespace.device_of(array) is device
        else:
            with pytest.raises(BackendUnavailableError, match=r"moved.*'cpu' is not available"):
                namespace.device_of(array)


class Foreign:
    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self._array = array
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


@pytest.mark.needs_processor
def test_foreign_host_memory_is_shared_not_copied() -> None:
    array = np.zeros(3)
    foreign = Foreign(array)
    owner = namespace.device_of(foreign)
    shared = namespace.on_device(owner, foreign)
    assert np.shares_memory(shared, array)
    assert np.shares_memory(namespace.asarray(foreign), array)


def test_memory_that_no_backend_takes_is_refused() -> None:
    with pytest.raises(DeviceError, match="DLPack's kind 15"):
        namespace.device_of(Foreign(np.zeros(3), (15, 0)))


@pytest.mark.needs_namespace
def test_bound_creation(device: Device) -> None:
    xp = namespace.xp(device)
    made = [
        xp.zeros((2, 2)),
        xp.arange(3),
        xp.linspace(0, 1, 3),
        xp.asarray([1.0, 2.0]),
        xp.eye(2),
        xp.full((2,), 7),
        xp.empty((1,)),
    ]
    assert all(device.for_arrays().owns(x) for x in made)
    assert "matmul" in dir(xp)
    assert device.for_arrays().name in repr(xp)


@pytest.mark.needs_namespace
def test_functions_other_than_creation_are_the_namespaces_own(device: Device) -> None:
    own = device.for_arrays().namespace().matmul
    assert inspect.unwrap(namespace.xp(device).matmul) is inspect.unwrap(own)


def test_synchronize(device: Device) -> None:
    namespace.synchronize(device)
    namespace.synchronize(device.name)


@pytest.mark.needs_namespace
def test_synchronize_waits_for_every_device_that_was_given_work(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of them tells of a fault."""
    monkeypatch.setattr(registry.registry, "_at_work", {})
    waited: list[Device] = []

    def wait(self: Device) -> None:
        waited.append(self)
        raise DeviceFaultError(f"{self.name} failed")

    for kind in {type(device), type(device.for_arrays()), type(registry.device("simulator"))}:
        monkeypatch.setattr(kind, "synchronize", wait)
    namespace.xp(device)
    with registry.use("simulator"), pytest.raises(DeviceFaultError):
        namespace.synchronize()
    assert set(waited) == {device.for_arrays(), registry.device("simulator")}


def test_launches_give_work(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.registry, "_at_work", {})
    x = device.from_numpy(np.zeros(3, np.float32))
    with registry.use(device):
        _add_one[3](x)
    assert registry.at_work() == (device,)


@kernel
def _add_one(x: kl.Array) -> None:
    if kl.global_id(0) < x.shape[0]:
        x[kl.global_id(0)] += 1.0


@pytest.mark.parametrize("number", [3, 2.5, True, 1j, np.float32(2), np.int8(1)], ids=repr)
def test_numbers_become_arrays_without_dimensions(number: Any) -> None:
    made = namespace.to_numpy(number)
    assert isinstance(made, np.ndarray)
    assert made.shape == ()
    assert made == number


@pytest.mark.needs_namespace
def test_reductions_can_be_taken_to_the_host(device: Device) -> None:
    xp = namespace.xp(device)
    mean = xp.mean(xp.asarray([1.0, 2.0, 6.0], dtype=xp.float32))
    assert namespace.to_numpy(mean).tolist() == 3.0


def test_what_no_array_is_made_of() -> None:
    with pytest.raises(DTypeError, match="no supported dtype"):
        namespace.asarray("text", device="simulator")


def test_what_jax_traces_is_told_from_arrays() -> None:
    kind = type("DynamicJaxprTracer", (), {"__module__": "jax._src.interpreters.partial_eval"})
    with pytest.raises(TypeError, match=r"DynamicJaxprTracer of JAX is no array: .*pure_callback"):
        namespace.device_of(kind())


class _OneOfTwo(SimulatorDevice):
    """A device of a library that makes arrays on its current device, as CuPy does."""

    current = 0

    @contextmanager
    def stream_scope(self) -> Iterator[None]:
        before, _OneOfTwo.current = _OneOfTwo.current, 1
        yield
        _OneOfTwo.current = before

    def namespace(self) -> Any:
        def negative(x: object) -> int:
            return self.current

        def several(*x: object) -> tuple[int, ...]:
            return (self.current,) * len(x)

        negative.reduce, negative.nin = negative, 1  # type: ignore[attr-defined]
        return SimpleNamespace(
            __array_api_version__="2024.12",
            negative=negative,
            linalg=SimpleNamespace(inv=negative),
            meshgrid=several,
            broadcast_arrays=several,
        )


def test_functions_of_arrays_make_their_results_on_the_namespaces_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = _OneOfTwo()
    monkeypatch.setattr(registry, "devices_of_backend", lambda name: (device, device))
    xp = namespace.BoundNamespace(device)
    assert xp.negative(2) == xp.linalg.inv(2) == xp.negative.reduce(2) == xp.negative.nin == 1
    assert xp.negative.__name__ == "negative"
    earlier = namespace.BoundNamespace(device, "2024.12")
    assert earlier.meshgrid(2, 3) == earlier.broadcast_arrays(2, 3) == [1, 1]
    assert _OneOfTwo.current == 0


def test_results_lie_beside_operands_of_each_device_of_a_backend(device: Device) -> None:
    for other in registry.devices_of_backend(device.backend):
        xp = portable.xp(other)
        x = xp.ones(3, dtype=xp.float32)
        made = (xp.zeros_like(x), xp.sum(x), xp.linalg.outer(x, x), xp.concat([x, x]))
        assert {namespace.device_of(array) for array in made} == {namespace.device_of(x)}
