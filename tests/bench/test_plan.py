"""What a run of the bench measures."""

from __future__ import annotations

from dataclasses import replace

from portable import registry
from portable_bench.operations import OPERATIONS
from portable_bench.plan import devices_apart, dtypes_named, plan
from tests.bench.fakes import FakeDevice


def test_further_types_are_measured_where_they_are_named() -> None:
    def measured(names: str | None) -> list[str]:
        device = registry.device("simulator")
        found = plan([OPERATIONS["gemm"]], [device], dtypes_named(names), "16", "quick")
        return [case.dtype.short for _, case in found]

    assert measured(None) == ["f16", "f32", "f64"]
    assert measured("bf16,f32") == ["f32", "bf16"]


def test_a_look_measures_a_driver_of_the_same_hardware_once() -> None:
    def found(name: str, hardware: str, driver: str) -> FakeDevice:
        device = FakeDevice(name)
        device.backend = name.partition(":")[0]
        device.capabilities = replace(device.capabilities, name=hardware, driver=driver)
        return device

    devices = [
        found("cpu:native", "EPYC", "LLVM"),
        found("cuda:0", "H200", "13"),
        found("cuda:1", "H200", "13"),
        found("cpu:intel", "EPYC", "2026"),
        found("opencl:intel", "EPYC", "2026"),
        found("opencl:nvidia", "H200", "580"),
    ]
    kept = [device.name for device in devices_apart(devices)]
    assert kept == ["cpu:native", "cuda:0", "cuda:1", "cpu:intel", "opencl:nvidia"]
