"""What can be seen of the GPU backends without a GPU."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from portable import dtypes
from portable.backend import Argument, Box, Program
from portable.errors import (
    BackendUnavailableError,
    CompileError,
    DeviceFaultError,
    LaunchError,
    OutOfMemoryError,
)
from portable.system import cache
from portable_backends.cuda import rtc
from portable_backends.cuda.backend import CUDABackend, ROCmBackend
from portable_backends.cuda.capabilities import cuda_capabilities, rocm_capabilities
from portable_backends.cuda.executable import CuPyExecutable
from portable_backends.cuda.parameter_blocks import ParameterBlock
from portable_backends.cuda.rtc import nvrtc

H200 = {
    "name": b"NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multiProcessorCount": 132,
    "totalGlobalMem": 150_000_000_000,
    "sharedMemPerBlock": 49152,
    "sharedMemPerBlockOptin": 232448,
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 64),
    "maxGridSize": (2**31 - 1, 65535, 65535),
    "warpSize": 32,
}
MI250 = {
    "name": b"AMD Instinct MI250X",
    "gcnArchName": b"gfx90a:sramecc+:xnack-",
    "multiProcessorCount": 110,
    "totalGlobalMem": 64_000_000_000,
    "sharedMemPerBlock": 65536,
    "maxThreadsPerBlock": 1024,
    "maxThreadsDim": (1024, 1024, 1024),
    "maxGridSize": (2**31 - 1, 65536, 65536),
    "warpSize": 64,
}


def test_capabilities_of_hopper() -> None:
    can = cuda_capabilities(H200, "13.0")
    assert (can.dialect, can.architecture, can.name) == ("cuda", "sm_90", "NVIDIA H200")
    assert can.matrix_units == {
        "mma.bf16",
        "mma.f16",
        "mma.tf32",
        "mma.f64",
        "wgmma.bf16",
        "wgmma.f16",
        "wgmma.f8e4m3",
        "wgmma.f8e5m2",
        "wgmma.i8",
        "wgmma.tf32",
    }
    assert can.async_copy == {"vector", "bulk", "tensor"}
    assert (can.local_memory, can.local_memory_opt_in) == (49152, 232448)
    assert can.forward_progress
    assert can.sub_group_size == 32


@pytest.mark.parametrize(
    ("level", "units", "copies"),
    [
        ((7, 5), set(), set()),
        ((8, 0), {"mma.bf16", "mma.f16", "mma.tf32", "mma.f64"}, {"vector"}),
        ((8, 9), {"mma.bf16", "mma.f16", "mma.tf32", "mma.f64"}, {"vector"}),
        ((12, 0), {"mma.bf16", "mma.f16", "mma.tf32", "mma.f64"}, {"vector", "bulk", "tensor"}),
    ],
)
def test_capabilities_of_other_generations(
    level: tuple[int, int], units: set[str], copies: set[str]
) -> None:
    can = cuda_capabilities({**H200, "major": level[0], "minor": level[1]}, "13.0")
    assert set(can.matrix_units) == units
    assert set(can.async_copy) == copies


def test_capabilities_of_amd() -> None:
    can = rocm_capabilities(MI250, "70000")
    assert (can.dialect, can.architecture, can.sub_group_size) == ("hip", "gfx90a", 64)
    assert not can.matrix_units
    assert not can.async_copy


def test_targets_ask_for_hoppers_own_instructions() -> None:
    targets = [rtc.cuda_target(*level) for level in [(8, 0), (9, 0), (10, 0)]]
    assert targets == ["sm_80", "sm_90a", "sm_100"]


ARGUMENTS = (
    Argument("pointer", 0, 0, dtypes.float32),
    Argument("extent", 0, 0, dtypes.int32),
    Argument("scalar", 1, 0, dtypes.float32),
    Argument("scalar", 2, 0, dtypes.bool_),
    Argument("scalar", 3, 0, dtypes.float16),
    Argument("stride", 0, 0, dtypes.int64),
    Argument("scalar", 4, 0, dtypes.float64),
)
VALUES = (0x7F00_1234_5678, -3, 1.5, True, 0.25, -(2**40), 2)


def test_arguments_are_packed_as_their_types() -> None:
    block = ParameterBlock(ARGUMENTS)
    block.fill(VALUES)
    table = (ctypes.c_void_p * len(ARGUMENTS)).from_address(block.pointers)
    formats = ("Q", "i", "f", "?", "e", "q", "d")
    read = [
        struct.unpack(f, ctypes.string_at(place or 0, struct.calcsize(f)))[0]
        for f, place in zip(formats, table, strict=True)
    ]
    assert read == list(VALUES)
    assert all((place or 0) % 8 == table[0] % 8 for place in table)  # type: ignore[operator]


def test_descriptions_of_boxes_are_packed_whole() -> None:
    box = Argument("box", 0, 0, dtypes.float16, Box((1, 0), (64, 128), (1, 1), 8))
    block = ParameterBlock((ARGUMENTS[0], box, ARGUMENTS[1]))
    content = bytes(range(128))
    block.fill((1, content, 2))
    first, second, third = (ctypes.c_void_p * 3).from_address(block.pointers)
    assert ctypes.string_at(second or 0, 128) == content
    assert ((second or 0) - (first or 0), (third or 0) - (second or 0)) == (8, 128)
    assert ctypes.c_int32.from_address(third or 0).value == 2


def test_numpy_scalars_are_packed_too() -> None:
    block = ParameterBlock(ARGUMENTS[1:3])
    block.fill((np.int64(7), np.float64(0.5)))
    assert struct.unpack_from("=i4xf", block.content()) == (7, 0.5)


class _Driver:
    """CuPy's binding of the driver, recording launches."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.first_words: list[int] = []
        self.failure: Exception | None = None

    def launch(self, *arguments: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.calls.append(arguments)
        place = ctypes.c_void_p.from_address(arguments[9]).value
        self.first_words.append(ctypes.c_uint64.from_address(place or 0).value)


@pytest.fixture
def driver() -> _Driver:
    return _Driver()


@pytest.fixture
def executable(driver: _Driver) -> CuPyExecutable:
    """An executable whose device 0 is current, with no CuPy beneath it."""
    made = CuPyExecutable.__new__(CuPyExecutable)
    program = Program("", "f", "cuda", ARGUMENTS, (32, 2, 1), 60_000, True, ())
    parts: dict[str, Any] = {
        "_device": SimpleNamespace(index=0),
        "_program": program,
        "_function": 99,
        "_workgroup": program.workgroup,
        "_shared": program.local_bytes,
        "_block": ParameterBlock(ARGUMENTS),
        "_lock": threading.Lock(),
        "_threads": SimpleNamespace(ready=True),
        "_driver_launch": driver.launch,
        "_current_stream": lambda: SimpleNamespace(ptr=7),
        "_current_device": lambda: 0,
    }
    for name, value in parts.items():
        setattr(made, name, value)
    return made


def test_a_launch_reaches_the_driver(executable: CuPyExecutable, driver: _Driver) -> None:
    executable.launch((3, 4, 5), VALUES)
    assert driver.calls[0][:9] == (99, 3, 4, 5, 32, 2, 1, 60_000, 7)
    assert driver.first_words == [VALUES[0]]


def test_prepared_launches_have_arguments_of_their_own(
    executable: CuPyExecutable, driver: _Driver
) -> None:
    prepared = executable.prepare((1, 1, 1), (1, *VALUES[1:]))
    executable.launch((1, 1, 1), (2, *VALUES[1:]))
    prepared()
    assert driver.first_words == [2, 1]


def test_an_argument_out_of_range_is_refused(executable: CuPyExecutable) -> None:
    with pytest.raises(LaunchError, match="launching f"):
        executable.launch((1, 1, 1), (VALUES[0], 2**31, *VALUES[2:]))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access", DeviceFaultError),
        ("CUDA_ERROR_OUT_OF_MEMORY: out of memory", OutOfMemoryError),
        ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources", LaunchError),
        ("CUDA_ERROR_INVALID_VALUE: invalid argument", LaunchError),
    ],
)
def test_driver_errors_are_ours(
    executable: CuPyExecutable, driver: _Driver, text: str, error: type[Exception]
) -> None:
    driver.failure = RuntimeError(text)
    with pytest.raises(error, match="launching f"):
        executable.launch((1, 1, 1), VALUES)


@pytest.mark.parametrize("kind", [CUDABackend, ROCmBackend])
def test_without_a_driver_it_says_what_to_install(
    kind: type[CUDABackend | ROCmBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "_has_driver", lambda _self: False)
    backend = kind()
    assert backend.devices() == ()
    assert backend.unavailable().remedy.endswith(f"pip install 'portable-arrays[{kind.name}]'")


@pytest.fixture
def with_nvrtc(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path))
    try:
        nvrtc()
    except BackendUnavailableError as error:
        pytest.skip(str(error))


def _program(body: str, flags: tuple[str, ...] = ()) -> Program:
    source = f'#include <cuda_fp16.h>\nextern "C" __global__ void f(float *x) {{ {body} }}'
    return Program(source, "f", "cuda", ARGUMENTS[:1], (32, 1, 1), 0, False, flags)


@pytest.mark.usefixtures("with_nvrtc")
def test_cuda_is_compiled_without_a_gpu_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program('asm volatile("wgmma.fence.sync.aligned;"); x[0] = __half(1.0f);')
    code = rtc.compile_cuda(program, "sm_90a")
    assert code.startswith(b"\x7fELF")
    monkeypatch.setattr(cache, "store", lambda *_: pytest.fail("was compiled again"))
    assert rtc.compile_cuda(program, "sm_90a") == code


@pytest.mark.usefixtures("with_nvrtc")
def test_threads_of_two_gpus_compile_a_program_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = []

    def slow(_compiler: Any, source: str, *_rest: Any) -> bytes:
        sources.append(source)
        sleep(0.05)
        return b"machine code"

    monkeypatch.setattr(rtc, "_made", slow)
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda text: rtc.compile_cuda(_program(text), "sm_90a"), "aba")
    assert list(found) == [b"machine code"] * 3
    assert len(sources) == 2


@pytest.mark.usefixtures("with_nvrtc")
def test_programs_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["x[0] = 1;", "x[0] = nothing;"]
    alone = rtc.compile_cuda(_program(texts[0]), "sm_80")
    monkeypatch.setattr(cache, "load", lambda _name: None)
    monkeypatch.setattr(nvrtc(), "compile", lambda *_: pytest.fail("waits for the other thread"))
    with ThreadPoolExecutor(1) as pool, rtc._inside:
        assert pool.submit(rtc.compile_cuda, _program(texts[0]), "sm_80").result() == alone
        with pytest.raises(CompileError, match='identifier "nothing" is undefined'):
            pool.submit(rtc.compile_cuda, _program(texts[1]), "sm_80").result()


@pytest.mark.usefixtures("with_nvrtc")
def test_where_no_process_can_be_started_one_compiles_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "a-program-that-python-is-part-of")
    compiler = nvrtc()
    assert compiler.compile_apart("", "f.cu", ()) is None
    monkeypatch.setattr(compiler, "compile_apart", lambda *_: None)
    monkeypatch.setattr(cache, "load", lambda _name: None)
    with ThreadPoolExecutor(1) as pool:
        with rtc._inside:
            waits = pool.submit(rtc.compile_cuda, _program("x[0] = 1;"), "sm_80")
            sleep(0.05)
            assert not waits.done()
        assert waits.result().startswith(b"\x7fELF")


@pytest.mark.usefixtures("with_nvrtc")
def test_nvrtcs_errors_carry_source_and_log() -> None:
    with pytest.raises(CompileError, match='identifier "nothing" is undefined') as caught:
        rtc.compile_cuda(_program("x[0] = nothing;"), "sm_90")
    assert "nothing;" in caught.value.source


@pytest.mark.usefixtures("with_nvrtc")
def test_flags_reach_nvrtc() -> None:
    program = _program("x[0] = VALUE;", ("-DVALUE=3",))
    assert rtc.compile_cuda(program, "sm_80")
