"""What a run of the bench measures."""

from __future__ import annotations

from portable import registry
from portable_bench.operations import OPERATIONS
from portable_bench.plan import dtypes_named, plan


def test_further_types_are_measured_where_they_are_named() -> None:
    def measured(names: str | None) -> list[str]:
        device = registry.device("simulator")
        found = plan([OPERATIONS["gemm"]], [device], dtypes_named(names), "16", "quick")
        return [case.dtype.short for _, case in found]

    assert measured(None) == ["f16", "f32", "f64"]
    assert measured("bf16,f32") == ["f32", "bf16"]
