"""Where tuned parameters are found: particular before general, one's own before shipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portable.dtypes import float32, float64
from portable.errors import UnsupportedError
from portable.linalg.dense.shapes import SPACE as SVDVALS
from portable.linalg.products.tuning import SPACE as GEMM
from portable.linalg.products.tuning import SPACE_NT
from portable.tune import table
from portable.tune.in_use import InUse
from portable.tune.space import Space
from tests.bench.fakes import FakeDevice
from tests.support.patience import PATIENCE

CAN = FakeDevice().capabilities
KERNEL = "made_up"
SPACE = Space(KERNEL, {"BM": (8, 64)}, lambda *given: True, {"FROM": 0})
SMALL, LARGE = {"BM": 8, "FROM": 0}, {"BM": 64, "FROM": 0}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sub" / "tuning.json"
    path.parent.mkdir()
    path.write_text("{}", encoding="utf-8")
    monkeypatch.setenv("PORTABLE_TUNING", str(path))
    return path


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


def test_a_kernel_of_another_package_has_the_first_choice_that_fits(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # what is shipped is looked for as ever
    monkeypatch.setenv("PORTABLE_TUNING", str(own))
    space = Space("of_another_package", {"ROWS": (8, 1)}, lambda choice, *_: choice["ROWS"] < 8)
    in_use = InUse(space, lambda choice, capabilities: choice)
    assert table.lookup(space, float32, CAN) == []
    assert in_use(CAN) == {"ROWS": 1}

    none = Space("of_another_package", {"ROWS": (8, 1)}, lambda *given: False)
    with pytest.raises(UnsupportedError, match="no parameters of of_another_package fit A fake"):
        InUse(none, lambda choice, capabilities: choice)(CAN)


def test_particular_entries_come_first(shipped: dict[str, Any]) -> None:
    shipped["float32"] = {"default": [SMALL], "cpu": [LARGE]}
    assert table.lookup(SPACE, float32, CAN) == [LARGE, SMALL]
    assert table.lookup(SPACE, float64, CAN) == []


def test_ones_own_come_before_those_shipped(shipped: dict[str, Any]) -> None:
    shipped["float32"] = {"cpu": [LARGE]}
    path = table.record(KERNEL, float32, "cpu", [SMALL])
    assert path == table.user_table()
    assert table.lookup(SPACE, float32, CAN) == [SMALL, LARGE]


def test_recording_replaces_the_same_key_alone() -> None:
    table.record(KERNEL, float32, "cpu", [SMALL])
    table.record(KERNEL, float32, "other", [SMALL])
    table.record(KERNEL, float64, "cpu", [SMALL])
    path = table.record(KERNEL, float32, "cpu", [LARGE])
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found == {
        KERNEL: {"float32": {"cpu": [LARGE], "other": [SMALL]}, "float64": {"cpu": [SMALL]}}
    }


def test_what_another_process_writes_is_noticed_within_a_second(
    monkeypatch: pytest.MonkeyPatch, own: Path
) -> None:
    now = [1000.0]
    monkeypatch.setattr(table, "monotonic", lambda: now[0])
    assert table.lookup(SPACE, float32, CAN) == []
    own.write_text(json.dumps({KERNEL: {"float32": {"cpu": [SMALL]}}}), encoding="utf-8")
    now[0] += 1.01
    assert table.lookup(SPACE, float32, CAN) == [SMALL]


def test_what_has_not_changed_is_the_same_state(own: Path) -> None:
    """Products that are known are compared with it by `is`, each time that it was looked at."""
    table._watch.renew()
    before = table.recent_state()
    table._watch.renew()
    assert table.recent_state() is before
    own.write_text("{}", encoding="utf-8")
    table._watch.renew()
    assert table.recent_state() is not before


# -- what is wrong with a file ------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"made_up": {"float32": {}},}',
        b"[1, 2]",
        b'{"made_up": 3}',
        b'{"made_up": {"float32": []}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=range(8),
)
def test_a_damaged_table_is_told_once_and_kept_under_another_name(
    own: Path, content: bytes
) -> None:
    own.write_bytes(content)
    with pytest.warns(UserWarning, match=r"tuning\.json is no table .* left out"):
        assert table.lookup(SPACE, float32, CAN) == []
    table._own.cache_clear()
    assert table.lookup(SPACE, float64, CAN) == []
    with pytest.warns(UserWarning, match=r"kept as .*tuning\.json\.unreadable-1"):
        table.record(KERNEL, float32, "cpu", [SMALL])
    assert own.with_name("tuning.json.unreadable-1").read_bytes() == content
    assert table.lookup(SPACE, float32, CAN) == [SMALL]


def test_a_byte_order_mark_is_no_damage(own: Path) -> None:
    own.write_text(json.dumps({KERNEL: {"float32": {"cpu": [LARGE]}}}), encoding="utf-8-sig")
    table.record(KERNEL, float32, "other", [SMALL])
    assert table.lookup(SPACE, float32, CAN) == [LARGE]


def test_a_file_that_is_named_and_not_there_is_told_once(own: Path) -> None:
    own.unlink()
    with pytest.warns(UserWarning, match="PORTABLE_TUNING names .* does not exist"):
        assert table.lookup(SPACE, float32, CAN) == []
    table._own.cache_clear()
    assert table.lookup(SPACE, float64, CAN) == []
    table.record(KERNEL, float32, "cpu", [SMALL])
    assert table.lookup(SPACE, float32, CAN) == [SMALL]


def test_what_cannot_be_read_is_not_replaced(own: Path) -> None:
    own.unlink()
    own.mkdir()
    with pytest.warns(UserWarning, match=r"left out: Is a directory"):
        assert table.lookup(SPACE, float32, CAN) == []
    with pytest.raises(IsADirectoryError):
        table.record(KERNEL, float32, "cpu", [SMALL])
    assert own.is_dir()


# -- what is wrong with an entry ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"BM": 0}, "BM 0; there are 8, 64"),
        ({"BM": 8.0}, r"BM 8\.0; there are"),
        ({"BM": True}, "BM True"),
        ({"BM": [8]}, r"BM \[8\]"),
        ({}, "lacks BM"),
        ({"BM": 8, "NONSUCH": 1}, "'NONSUCH', which made_up does not know"),
        ({"BM": 8, "FROM": -1}, "FROM -1; expected a whole number"),
        ({"BM": 8, "FROM": 1.5}, r"FROM 1\.5"),
        ([8], "is no object"),
    ],
)
def test_a_bad_entry_is_left_out_with_one_warning(
    own: Path, shipped: dict[str, Any], entry: Any, said: str
) -> None:
    shipped["float32"] = {"default": [LARGE]}
    own.write_text(json.dumps({KERNEL: {"float32": {"cpu": [entry, SMALL]}}}), encoding="utf-8")
    where = r"tuning\.json: made_up\.float32\['cpu'\]\[0\] .*"
    with pytest.warns(UserWarning, match=where + said):
        assert table.lookup(SPACE, float32, CAN) == [SMALL, LARGE]
    assert table.lookup(SPACE, float32, CAN) == [SMALL, LARGE]


@pytest.mark.parametrize("space", [GEMM, SPACE_NT, SVDVALS], ids=lambda space: space.kernel)
def test_all_that_is_shipped_is_of_its_space(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    kinds = table._load_shipped(space.kernel)[space.kernel].values()
    entries = [entry for keys in kinds for choices in keys.values() for entry in choices]
    assert entries
    assert all(space.checked(entry) for entry in entries)


# -- many processes -----------------------------------------------------------------------------

_RECORD_IN_TWENTY = """
import os
from portable.dtypes import float32
from portable.tune.table import record
started = []
for n in range(20):
    process = os.fork()
    if process == 0:
        record("made_up", float32, f"device {n}", [{"BM": 8}])
        os._exit(0)
    started.append(process)
assert all(os.waitpid(process, 0)[1] == 0 for process in started)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes its processes by forking")
def test_twenty_processes_that_record_at_once_keep_twenty(own: Path) -> None:
    subprocess.run([sys.executable, "-c", _RECORD_IN_TWENTY], check=True, timeout=PATIENCE)
    found = json.loads(own.read_text(encoding="utf-8"))
    assert sorted(found[KERNEL]["float32"]) == sorted(f"device {n}" for n in range(20))
