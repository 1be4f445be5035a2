"""Where tuned parameters are found: particular before general, one's own before shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from portable.dtypes import float32, float64
from portable.tune import table
from tests.bench.fakes import FakeDevice

CAN = FakeDevice().capabilities
KERNEL = "made_up"
SMALL, LARGE = {"BM": 8}, {"BM": 64}


@pytest.fixture(autouse=True)
def _own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_TUNING", str(tmp_path / "sub" / "tuning.json"))


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    content: dict[str, Any] = {}
    monkeypatch.setattr(table, "_load_shipped", lambda kernel: {kernel: content})
    return content


def test_keys_go_from_the_device_to_everything() -> None:
    keys = table.device_keys(CAN)
    assert keys[0] == "ir:A fake"
    assert keys[-1] == "default"
    assert keys.index("nobody") < keys.index("cpu")


def test_particular_entries_come_first(shipped: dict[str, Any]) -> None:
    shipped["float32"] = {"default": [SMALL], "cpu": [LARGE]}
    assert table.lookup(KERNEL, float32, CAN) == [LARGE, SMALL]
    assert table.lookup(KERNEL, float64, CAN) == []


def test_ones_own_come_before_those_shipped(shipped: dict[str, Any]) -> None:
    shipped["float32"] = {"cpu": [LARGE]}
    path = table.record(KERNEL, float32, "cpu", [SMALL])
    assert path == table.user_table()
    assert table.lookup(KERNEL, float32, CAN) == [SMALL, LARGE]


def test_recording_replaces_the_same_key_alone() -> None:
    table.record(KERNEL, float32, "cpu", [SMALL])
    table.record(KERNEL, float32, "other", [SMALL])
    table.record(KERNEL, float64, "cpu", [SMALL])
    path = table.record(KERNEL, float32, "cpu", [LARGE])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == {
        KERNEL: {"float32": {"cpu": [LARGE], "other": [SMALL]}, "float64": {"cpu": [SMALL]}}
    }


@pytest.mark.parametrize(
    "content", ["", "{", "[1, 2]", '{"made_up": 3}', '{"made_up": {"float32": []}}']
)
def test_a_damaged_table_counts_as_empty(content: str) -> None:
    path = table.user_table()
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    assert table.lookup(KERNEL, float32, CAN) == []
    table.record(KERNEL, float32, "cpu", [SMALL])
    assert table.lookup(KERNEL, float32, CAN) == [SMALL]


def test_what_another_process_writes_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(table, "monotonic", lambda: now[0])
    assert table.lookup(KERNEL, float32, CAN) == []
    path = table.user_table()
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({KERNEL: {"float32": {"cpu": [SMALL]}}}), encoding="utf-8")
    now[0] += 1.01
    assert table.lookup(KERNEL, float32, CAN) == [SMALL]
