"""Packages of compiled kernels: written where there is a compiler, launched without one."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

import portable as pt
from portable import compiled, registry
from portable import lang as kl
from portable.backend import Argument, Box, Device
from portable.cli import main
from portable.compiled.compilation import facts_of
from portable.compiled.descriptions import constant_of, program_from
from portable.errors import DataError, DeviceError, LaunchError, UnsupportedError

SAXPY = "float, f32[:], f32[:]"


@pt.kernel
def saxpy(a, x, y, *, TIMES=1):
    i = kl.global_id(0)
    if i < y.shape[0]:
        y[i] += TIMES * a * x[i]


@pt.kernel
def by_rows(a, sums):
    row, other = kl.global_id(0), kl.global_id(1)
    if row < a.shape[0] and other == 0:
        total = 0.0
        for column in range(a.shape[1]):
            total += a[row, column]
        sums[row] = total


class Span(NamedTuple):
    first: Any
    stop: Any


@dataclass(frozen=True)
class Weighted:
    x: Any
    span: Span


@pt.kernel
def weigh(what, into):
    i = kl.global_id(0)
    out, factor = into
    if i < out.shape[0] and what.span.first <= i and i < what.span.stop:
        out[i] = factor * what.x[i]


@pytest.fixture
def keeping(device: Device) -> Device:
    """Each device that keeps compiled programs."""
    if not device.program_facts():
        pytest.skip(f"{device.name} keeps no compiled programs")
    return device


def forbid_compilers(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a compiler was asked")

    monkeypatch.setattr(type(device), "compile", refuse)
    monkeypatch.setattr(type(device), "export", refuse)
    monkeypatch.setattr("portable.lang.emit.generate", refuse)


def on(device: Device, x: Any) -> Any:
    return pt.asarray(np.asarray(x, np.float32), device=device)


def test_a_package_runs_without_a_compiler(
    keeping: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, path = keeping, tmp_path / "kernels.zip"
    compiled.save_compiled(
        path,
        [
            compiled.compile_kernel(saxpy, SAXPY, devices=[device], workgroup=64),
            compiled.compile_kernel(saxpy, SAXPY, devices=[device], workgroup=64, TIMES=3),
            compiled.compile_kernel(
                by_rows, "f32[:, ::1], f32[::1]", devices=[device], workgroup=(8, 1)
            ),
        ],
    )
    forbid_compilers(monkeypatch, device)
    package = pt.load_compiled(path, device=device)
    assert list(package) == ["saxpy", "by_rows"]
    with pt.use(device):
        x, y = on(device, np.arange(100)), on(device, np.ones(100))
        package.saxpy[100, 64](2.0, x, y)
        package["saxpy"][100, 64](1.0, x, y, TIMES=3)
        np.testing.assert_array_equal(pt.to_numpy(y), 1 + 5 * np.arange(100))
        part = y[1::2]  # a view: the general program
        package.saxpy[50, 64](1.0, x[:50], part)
        expected = 1 + 5 * np.arange(100)
        expected[1::2] += np.arange(50)
        np.testing.assert_array_equal(pt.to_numpy(y), expected)
        again = package.saxpy[100, 64].prepare(0.0, x, y)
        again()
        sums = on(device, np.zeros(4))
        package.by_rows[(4, 1), (8, 1)](on(device, np.ones((4, 5))), sums)
        np.testing.assert_array_equal(pt.to_numpy(sums), [5] * 4)
        with pytest.raises(LaunchError, match="asks for its place in 2 dimensions"):
            package.by_rows[4, (8, 1)](on(device, np.ones((4, 5))), sums)
        with pytest.raises(LaunchError) as caught:
            package.saxpy[100, 32](2.0, x, y)
    assert "float, float32[::1], float32[::1]) in workgroups of (64, 1, 1)" in str(caught.value)
    assert "(32, 1, 1)" in str(caught.value)
    assert "portable compile" in str(caught.value)


def test_structs_and_tuples(
    keeping: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, path = keeping, tmp_path / "kernels.zip"
    signature = "Weighted(f32[:], Span(int, int)), (f32[:], float)"
    made = compiled.compile_kernel(weigh, signature, devices=[device], workgroup=64)
    compiled.save_compiled(path, [made])
    forbid_compilers(monkeypatch, device)
    package = pt.load_compiled(path, device=device)
    with pt.use(device):
        x, out = on(device, np.arange(10)), on(device, np.zeros(10))
        package.weigh[10, 64](Weighted(x, Span(2, 5)), (out, 0.5))
        np.testing.assert_array_equal(pt.to_numpy(out), [0, 0, 1, 1.5, 2, 0, 0, 0, 0, 0])
        package.weigh[5, 64](Weighted(x[::2], Span(0, 5)), (out[5:], 1.0))  # the general program
        np.testing.assert_array_equal(pt.to_numpy(out)[5:], [0, 2, 4, 6, 8])
        with pytest.raises(LaunchError, match=r"Span\(int, int\)"):
            package.weigh[10, 64](Weighted(x, Span(2, 5.0)), (out, 0.5))


def test_misfits_are_told(keeping: Device, tmp_path: Path) -> None:
    path = tmp_path / "kernels.zip"
    made = compiled.compile_kernel(saxpy, SAXPY, devices=[keeping], workgroup=64)
    compiled.save_compiled(path, [made])
    with pytest.raises(DeviceError, match="simulator is dialect ir"):
        pt.load_compiled(path, device="simulator")
    for fact in ("device", "architecture"):
        _rewrite(path, fact, "another")
    with pytest.raises(DeviceError, match=r"(device|architecture) another"):
        pt.load_compiled(path, device=keeping)


def test_another_driver_compiles_what_packages_hold_as_text(
    keeping: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernels.zip"
    compiled.save_compiled(
        path, [compiled.compile_kernel(saxpy, SAXPY, devices=[keeping], workgroup=64)]
    )
    if "driver" not in facts_of(keeping):
        pytest.skip(f"{keeping.name} loads what other drivers compiled")
    _rewrite(path, "driver", "0.0.1")
    monkeypatch.setattr(type(keeping), "load", None)
    with pt.use(keeping):
        x, y = on(keeping, np.arange(10)), on(keeping, np.ones(10))
        pt.load_compiled(path, device=keeping).saxpy[10, 64](2.0, x, y)
        np.testing.assert_array_equal(pt.to_numpy(y), 2 * np.arange(10) + 1)


def _rewrite(path: Path, fact: str, value: str) -> None:
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()}
    manifest = json.loads(held["manifest.json"])
    for kernel in manifest["kernels"].values():
        for variant in kernel["variants"]:
            variant["facts"] |= {fact: value} if fact in variant["facts"] else {}
    held["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)


def test_damaged_machine_code_is_told(keeping: Device, tmp_path: Path) -> None:
    path = tmp_path / "kernels.zip"
    made = compiled.compile_kernel(saxpy, SAXPY, devices=[keeping], workgroup=64)
    compiled.save_compiled(path, [made])
    with zipfile.ZipFile(path) as file:
        held = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in held.items():
            file.writestr(name, data if name == "manifest.json" else data[:-1] + b"?")
    with pytest.raises(DataError, match="damaged"):
        pt.load_compiled(path, device=keeping)


def test_a_device_without_a_compiler_is_there_by_name_and_loads_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyopencl")
    if not registry.devices_of_backend("opencl"):
        pytest.skip("no OpenCL device was found")
    from portable_backends.opencl import discovery, runtime
    from portable_backends.opencl.backend import OpenCLBackend

    whole = registry.devices_of_backend("opencl")[0]
    path = tmp_path / "kernels.zip"
    made = compiled.compile_kernel(saxpy, SAXPY, devices=[whole], workgroup=64)
    compiled.save_compiled(path, [made])
    for module in (discovery, runtime):
        monkeypatch.setattr(module, "has_compiler", lambda _: False)
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    backend = OpenCLBackend()
    assert not backend.devices()
    assert any("has no compiler" in entry.reason for entry in backend.refused())
    further = backend.further()
    device = further[whole.name.removeprefix("opencl:")]()
    x, y = on(device, np.arange(100)), on(device, np.ones(100))
    pt.load_compiled(path, device=device).saxpy[100, 64](2.0, x, y)
    np.testing.assert_array_equal(device.to_numpy(y), 1 + 2 * np.arange(100))
    with pytest.raises(UnsupportedError, match=r"has no compiler.*portable\.load_compiled"):
        saxpy[100, 32](1.0, x, y)


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x05\x06" + bytes(18)])
def test_other_files_are_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.zip"
    path.write_bytes(content)
    with pytest.raises(DataError, match="no package"):
        pt.load_compiled(path)
    with pytest.raises(FileNotFoundError):
        pt.load_compiled(tmp_path / "missing.zip")


def test_what_keeps_no_programs_says_so(device: Device) -> None:
    if device.program_facts():
        pytest.skip(f"{device.name} keeps compiled programs")
    with pytest.raises(UnsupportedError, match=device.name.partition(":")[0]):
        compiled.compile_kernel(saxpy, SAXPY, devices=[device])


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    ("signature", "match"),
    [
        ("float, f32[:]", "takes 3 arguments"),
        ("float, f32[x], f32[:]", "in a signature"),
        ("float, f31[:], f32[:]", "in a signature"),
        ("float, f32[::1, :], f32[:]", "in a signature"),
        ("float, (f32[:], f32[:]", "in a signature"),
        ("float, Nonsuch(int), f32[:]", "no struct"),
        ("float, Span(int), f32[:]", r"2 fields \(first, stop\); the signature gives 1"),
    ],
)
def test_bad_signatures(signature: str, match: str) -> None:
    with pytest.raises(LaunchError, match=match):
        compiled.compile_kernel(saxpy, signature, devices=["cpu"])


@pytest.mark.needs_processor
def test_the_command(tmp_path: Path) -> None:
    out = tmp_path / "out.zip"
    arguments = ["compile", f"{__file__}:saxpy", "--signature", SAXPY, "--out", str(out)]
    done = CliRunner().invoke(main, [*arguments, "--device", "cpu", "--constant", "TIMES=2"])
    assert done.exit_code == 0, done.output
    assert "2 programs of saxpy" in done.output
    with pt.use("cpu"):
        x, y = np.ones(300, np.float32), np.zeros(300, np.float32)
        pt.load_compiled(out).saxpy[300](1.5, x, y, TIMES=2)
    assert (y == 3).all()
    for wrong, message in (
        (["--constant", "TIMES"], "NAME=VALUE"),
        (["--workgroup", "4 by 4"], "expected 256"),
        (["--device", "nonsense"], "no device"),
    ):
        done = CliRunner().invoke(main, [*arguments, *wrong])
        assert done.exit_code != 0
        assert message in done.output
    done = CliRunner().invoke(main, ["compile", "json:dumps", *arguments[2:]])
    assert "json has no kernel dumps; it has none" in done.output
    done = CliRunner().invoke(main, ["compile", f"{__file__}:sacspy", *arguments[2:]])
    assert "no kernel sacspy; it has " in done.output
    assert "saxpy" in done.output.partition("it has ")[2]


def test_the_cache_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from portable.system import cache

    monkeypatch.setenv("PORTABLE_CACHE_DIR", str(tmp_path))

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, ["cache", *words])
        assert done.exit_code == 0, done.output
        return done.output

    assert "no programs" in run()
    cache.store(cache.key("a"), bytes(1000))
    cache.store(cache.key("b"), bytes(500))
    assert "2 programs" in run()
    assert run("where").strip() == str(tmp_path)
    assert 1500 < int(run("size")) < 1700
    assert "Removed 2 programs" in run("clear")
    assert cache.load(cache.key("a")) is None
    assert run("size").strip() == "0"
    assert "Nothing" in run("clear")


def times(factor: float) -> Any:
    def multiplied(x: Any) -> Any:
        return factor * x

    return multiplied


def plus(number: float) -> Any:
    @pt.function
    def added(x: Any, by: float = number) -> Any:
        return x + by

    return added


@pt.kernel
def applied(x, *, F):
    i = kl.global_id(0)
    if i < x.shape[0]:
        x[i] = F(x[i])


@pytest.mark.parametrize("make", [times, plus])
def test_closures_are_told_apart(keeping: Device, tmp_path: Path, make: Any) -> None:
    path = tmp_path / "kernels.zip"
    made = [
        compiled.compile_kernel(applied, "f32[:]", devices=[keeping], workgroup=64, F=make(x))
        for x in (2.0, 3.0)
    ]
    compiled.save_compiled(path, made)
    package = pt.load_compiled(path, device=keeping)
    with pt.use(keeping):
        for number in (2.0, 3.0):
            x = on(keeping, np.full(64, 5))
            package.applied[64, 64](x, F=make(number))
            expected = 5 * number if make is times else 5 + number
            assert pt.to_numpy(x).tolist() == [expected] * 64
        with pytest.raises(LaunchError, match="holds applied for"):
            package.applied[64, 64](x, F=make(4.0))


def test_closures_of_what_a_package_cannot_hold(keeping: Device) -> None:
    held: Any = times(object())  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"multiplied cannot be kept .* type object"):
        constant_of(held)


def _kernel_of(factor: float) -> Any:
    @pt.kernel
    def scale(x):
        i = kl.global_id(0)
        if i < x.shape[0]:
            x[i] *= factor

    return scale


def test_two_kernels_of_one_name(keeping: Device, tmp_path: Path) -> None:
    made = [
        compiled.compile_kernel(_kernel_of(x), "f32[:]", devices=[keeping]) for x in (2.0, 3.0, 2.0)
    ]
    compiled.save_compiled(tmp_path / "a.zip", [made[0], made[2]])
    with pytest.raises(LaunchError, match="two kernels named scale"):
        compiled.save_compiled(tmp_path / "a.zip", made[:2])


def test_damaged_bits_are_data_errors(keeping: Device, tmp_path: Path) -> None:
    path = tmp_path / "kernels.zip"
    made = compiled.compile_kernel(saxpy, SAXPY, devices=[keeping], workgroup=64)
    compiled.save_compiled(path, [made])
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    refused = 0
    for place in random.integers(0, 8 * len(whole), 300):
        data = bytearray(whole)
        data[place // 8] ^= 1 << (place % 8)
        path.write_bytes(data)
        try:
            pt.load_compiled(path, device=keeping)
        except (DataError, DeviceError):
            refused += 1
    assert refused > 250


def test_what_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernels.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("manifest.json", '{"format": 1, "kernels": {}}')
        file.writestr("0" * 64, bytes(2**27))
    assert path.stat().st_size < 2**18
    with pytest.raises(DataError, match="more than a package has"):
        pt.load_compiled(path)


def test_boxes_of_packages_without_steps_are_of_neighbours() -> None:
    box = Argument("box", 0, 0, pt.float16, Box((1, 0), (64, 8), (1, 1), 3))
    argument = {**asdict(box), "type": "float16"}
    description = {
        "entry": "copies",
        "dialect": "cuda",
        "arguments": [argument],
        "workgroup": [32, 1, 1],
        "local_bytes": 1024,
        "dynamic_local": False,
        "flags": [],
    }
    assert program_from(description).arguments == (box,)
    del argument["box"]["steps"]
    assert program_from(description).arguments == (box,)
