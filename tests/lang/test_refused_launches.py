"""What is refused when functions are marked as kernels, and when kernels are launched."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from typing import Any

import numpy as np
import pytest

import portable as pt
from portable import errors, registry
from portable import lang as kl
from portable.backend import Capabilities, Device
from portable.lang.arguments.arguments import ArraySpec, Specialisation
from portable.lang.frontend.compile import translate
from portable.lang.ir.kernel import Options
from tests.support.capabilities import made_up

F32 = ArraySpec(pt.float32, ("unit",))


# -- kernels as such ----------------------------------------------------------------------------


def test_a_kernel_without_source() -> None:
    space: dict[str, Any] = {}
    exec("def made(x):\n    x[0] = 1\n", space)
    with pytest.raises(errors.KernelError, match=r"source of made cannot be read.*\n.*file"):
        pt.kernel(space["made"])


def test_a_lambda_is_no_kernel() -> None:
    with pytest.raises(errors.KernelError, match="'def'"):
        pt.kernel(lambda x: None)


def plain(x): ...


@functools.wraps(plain)
def wrapped(*args): ...


NO_PLAIN_FUNCTIONS = [
    (pt.kernel(plain), r"plain is marked @portable\.kernel already"),
    (pt.function(plain), r"plain is marked @portable\.function already"),
    (staticmethod(plain), "plain is a staticmethod; write that decorator above"),
    (wrapped, "plain is wrapped by another decorator"),
    (functools.partial(plain, 1), "no function but of type partial"),
    (len, "len is no function"),
    (True, "True is no function but of type bool"),
]


@pytest.mark.parametrize(("thing", "reason"), NO_PLAIN_FUNCTIONS)
@pytest.mark.parametrize("mark", [pt.kernel, pt.function])
def test_only_plain_functions_are_marked(mark: Any, thing: Any, reason: str) -> None:
    with pytest.raises(errors.KernelError, match=reason):
        mark(thing)


def test_kernels_and_helpers_are_pickled_and_copied_by_name() -> None:
    for marked in (simple, synchronised):
        assert pickle.loads(pickle.dumps(marked)) is marked
        assert copy.deepcopy(marked) is marked


def test_parameters_that_vary_in_number() -> None:
    with pytest.raises(errors.KernelError, match=r"\*\*sizes"):

        @pt.kernel
        def several(x, **sizes): ...

    with pytest.raises(errors.KernelError, match="default for the run-time argument n"):

        @pt.kernel
        def optional(x, n=3): ...


def test_calling_a_kernel_or_a_word_outside() -> None:
    with pytest.raises(errors.LaunchError, match=r"simple\[n, 256\]"):
        simple(1)
    with pytest.raises(errors.PortableError, match="inside a function"):
        kl.barrier()
    with pytest.raises(errors.PortableError, match="inside a function"):
        synchronised()
    with pytest.raises(errors.PortableError, match="inside a kernel"):
        _ = kl.target.name


@pt.function
def synchronised():
    kl.barrier()


# -- launches -----------------------------------------------------------------------------------


@pt.kernel
def simple(x, *, VALUE=1):
    if kl.global_id(0) < x.shape[0]:
        x[kl.global_id(0)] = VALUE


@pt.kernel
def greedy(x, *, SIZE):
    tile = kl.local(SIZE, kl.f32)
    tile[kl.local_id(0)] = x[0]
    kl.barrier()
    x[0] = tile[0]


@pt.kernel
def doubled(x, y):
    y[0] = 2 * x[0]


@pt.kernel
def scaled(a, x):
    x[0] = a * x[1]


@pytest.mark.parametrize("ndrange", [0, -1, (), (1, 2, 3, 4), 1.5, "n", (4, 0), None])
def test_bad_ndranges(ndrange: Any) -> None:
    with pytest.raises(errors.LaunchError, match="one to three positive integers"):
        simple[ndrange, 1]


def test_bad_workgroups(device: Device) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    most = device.capabilities.max_workgroup
    with pt.use(device):
        with pytest.raises(errors.LaunchError, match=f"at most {most}"):
            simple[2 * most, 2 * most](x)
        with pytest.raises(errors.LaunchError, match="positive integers"):
            simple[4, 0](x)
        with pytest.raises(errors.LaunchError, match=r"simple\[\(4, 4, 4\)\] is ambiguous"):
            simple[4, 4, 4]
        with pytest.raises(errors.LaunchError, match=r"simple\[\(4,\)\] is ambiguous: .*\[n\]"):
            simple[(4,)]
        with pytest.raises(errors.LaunchError, match="write tuples"):
            simple[[4, 4], 2]


@pt.kernel
def flat(x):
    x[kl.global_id(1), kl.global_id(0)] = 1


def test_a_workgroup_of_more_dimensions_than_the_ndrange() -> None:
    with pytest.raises(errors.LaunchError, match=r"simple\[\(n, m\), \(2, 2\)\]"):
        simple[4, (2, 2)]
    simple[4, (2, 1)], simple[pt.groups(4), (2, 2)]


@pytest.mark.parametrize("key", [4, (4, 4), (4, None), (4, (2, 1))], ids=str)
def test_one_number_for_a_kernel_of_two_dimensions(device: Device, key: Any) -> None:
    x = device.from_numpy(np.zeros((4, 4), np.float32))
    with pt.use(device):
        with pytest.raises(errors.LaunchError, match=r"ndrange is 4: .* takes \[\(n, m\)\] for"):
            flat[key](x)
        flat[(4, 1), (4, 1)](x)


def test_too_much_local_memory(device: Device) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    limits = device.capabilities
    most = limits.local_memory_most
    with pt.use(device), pytest.raises(errors.LaunchError, match=f"has {most}"):
        greedy[32, 32](x, SIZE=most // 4 + 32)


def test_wrong_arguments(device: Device) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    with pt.use(device):
        with pytest.raises(errors.LaunchError, match=r"takes 1 arguments \(x\), not 2"):
            simple[4, 4](x, x)
        with pytest.raises(errors.LaunchError, match="no compile-time constant SIZE; it has VALUE"):
            simple[4, 4](x, SIZE=2)
        with pytest.raises(errors.LaunchError, match="needs the constant SIZE"):
            greedy[4, 4](x)
        with pytest.raises(errors.LaunchError, match="given a list as VALUE; .*hashable"):
            simple[4, 4](x, VALUE=[1])
        with pytest.raises(errors.LaunchError, match="a ndarray as VALUE; as a constant it"):
            simple[4, 4](x, VALUE=np.zeros(3))
        with pytest.raises(errors.LaunchError, match="given a list as x; .*hashable"):
            doubled[1, 1]([1], x)
        with pytest.raises(errors.LaunchError, match=r"takes 2 arguments \(x, y\), not 1"):
            doubled[1, 1]([1])


@pytest.mark.parametrize("given", [3, [3]])
def test_a_run_time_argument_given_by_keyword(device: Device, given: Any) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    with pt.use(device), pytest.raises(errors.LaunchError, match=r"takes y by .*\(x, y\)"):
        doubled[1, 1](x, y=given)


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**63) - 1])
def test_integers_that_64_bits_do_not_hold(device: Device, number: int) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    with pt.use(device):
        for warm in [2**62] * 6:
            scaled[1, 1](warm, x)
        with pytest.raises(errors.LaunchError, match=rf"an argument is {number}, .*numpy\.uint64"):
            scaled[1, 1](number, x)


def test_writing_to_a_read_only_array(device: Device) -> None:
    x = np.zeros(4, np.float32)
    if not device.owns(x):
        pytest.skip("arrays of this device are always writable")
    x.flags.writeable = False
    with pt.use(device), pytest.raises(errors.LaunchError, match="argument x, but .* read-only"):
        simple[4, 4](x)


def test_arrays_that_are_no_whole_elements_apart(device: Device) -> None:
    if not device.owns(np.zeros(1)):
        pytest.skip("takes no NumPy arrays")
    x = np.zeros(4, [("a", "c8"), ("b", "i4")])["a"]
    with pt.use(device), pytest.raises(errors.LaunchError, match="no whole elements"):
        simple[4, 4](x)


def test_arrays_of_strange_dtypes(device: Device) -> None:
    if not device.owns(np.zeros(1)):
        pytest.skip("takes no NumPy arrays")
    with pt.use(device):
        for x in (np.zeros(4, "M8[s]"), np.zeros(4, object)):
            with pytest.raises(errors.DTypeError, match="supported"):
                simple[4, 4](x)
        with pytest.raises(errors.DTypeError, match=r"newbyteorder\('='\)\) has the bytes in this"):
            simple[4, 4](np.zeros(4, ">f4"))


@pytest.mark.needs_processor
def test_arrays_of_two_devices() -> None:
    others = [d for d in registry.devices() if d.backend in ("opencl", "sycl", "cuda")]
    if len(others) < 1:
        pytest.skip("needs a device with arrays of its own")
    x = others[0].from_numpy(np.zeros(4, np.float32))
    with pytest.raises(errors.DeviceMismatchError, match=r"portable\.asarray"):
        doubled[1, 1](x, np.zeros(4, np.float32))


def test_double_precision_where_there_is_none() -> None:
    specs = (ArraySpec(pt.float64, ("unit",)), F32)
    wanted = Specialisation(specs, (), (1, 1, 1), False, True, Options())
    where = r"test_refused_launches.py:\d+:\d+: .*a test device"
    with pytest.raises(errors.UnsupportedError, match=where):
        translate(doubled.python, wanted, made_up(float64=False))


def test_python_floats_stay_single_where_there_is_no_double_precision() -> None:
    wanted = Specialisation((F32,), (("VALUE", 0.1),), (1, 1, 1), False, True, Options())
    translate(simple.python, wanted, made_up(float64=False))


def test_native_halves_where_there_are_none() -> None:
    wanted = Specialisation((F32, F32), (), (1, 1, 1), False, True, Options(native_half=True))
    with pytest.raises(errors.UnsupportedError, match="native_half"):
        translate(doubled.python, wanted, made_up(native_half=False))


@pytest.mark.needs_compiler
def test_a_device_compiler_that_refuses(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    from portable.lang import kernel as module

    def spoiled(ir: Any, capabilities: Capabilities) -> Any:
        program = generate(ir, capabilities)
        return dataclasses.replace(program, source=f"{program.source}\niff [")

    generate = module.generate
    monkeypatch.setattr(module, "generate", spoiled)
    fresh = pt.kernel(simple.python)
    x = device.from_numpy(np.zeros(4, np.float32))
    with pt.use(device), pytest.raises(errors.CompileError) as caught:
        fresh[4, 4](x, VALUE=7)
    assert "iff [" in caught.value.source
    assert "error" in caught.value.log
    assert "simple" in str(caught.value)


def test_a_constant_given_by_position(device: Device) -> None:
    x = device.from_numpy(np.zeros(4, np.float32))
    with pt.use(device), pytest.raises(errors.LaunchError, match="VALUE: compile-time, by keyword"):
        simple[4, 4](x, 7)


@pt.kernel
def marks(out):
    out[kl.group_id(0)] = 1


def test_more_workgroups_than_a_device_launches() -> None:
    with (
        pt.use("simulator:h200"),
        pytest.raises(errors.LaunchError, match="dimension 0 be") as told,
    ):
        marks[(1, 65536), 1](np.zeros(1, np.int32))
    assert "(1, 65536, 1) workgroups" in str(told.value)


def test_a_refused_kernel_is_not_translated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans try choices in turn at each call, and the first ones may need too much local memory."""

    @pt.kernel
    def greedy(x, *, COUNT):  # type: ignore[no-untyped-def]
        held = kl.local(COUNT, kl.f32)
        held[0] = x[0]
        x[0] = held[0]

    device = pt.device("simulator")
    x = device.from_numpy(np.zeros(1, np.float32))
    with pytest.raises(errors.LaunchError, match="bytes of local memory"):
        greedy[1, 1](x, COUNT=1 << 28)
    monkeypatch.setattr(greedy, "_compile", None)
    with pytest.raises(errors.LaunchError, match="bytes of local memory"):
        greedy[1, 1](x, COUNT=1 << 28)
