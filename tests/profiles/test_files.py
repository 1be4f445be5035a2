"""Profiles as files: what `portable devices --json` writes and the simulator reads."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import portable
from portable import cli, registry
from portable.backend import Refused, profiles
from portable.errors import DataError, DeviceError


def written(*arguments: str) -> str:
    done = CliRunner().invoke(cli.main, ["devices", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_what_devices_write_is_read_back() -> None:
    found = profiles.read(written("--json"), "the output")
    assert [x.name for x in found] == [d.name for d in registry.devices()]
    assert [x.capabilities for x in found] == [d.capabilities for d in registry.devices()]
    assert all(x.source.startswith("measured on ") for x in found)


def test_devices_by_name() -> None:
    (found,) = profiles.read(written("--json", "simulator:h200"), "the output")
    assert found.capabilities == profiles.load("h200").capabilities
    done = CliRunner().invoke(cli.main, ["devices", "abacus"])
    assert done.exit_code == 1
    assert "no device 'abacus'" in done.output


def test_the_list_names_profiles_and_what_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "refused", lambda: (Refused("sycl:cpu [old]", "beads stick"),))
    assert "simulator:h200" in written()
    assert "beads stick" not in written()
    assert "sycl:cpu [old]" in written("--verbose")
    assert "beads stick" in written("--verbose")


@pytest.mark.parametrize("name", profiles.names())
def test_each_profile_says_where_its_facts_are_from(name: str) -> None:
    found = profiles.load(name)
    assert found.source.startswith(("measured on ", "published facts: "))
    device = portable.device(f"simulator:{name}")
    assert device.capabilities == found.capabilities
    assert device.for_arrays().capabilities == found.capabilities
    assert portable.device(f"simulator:{name}-arrays") is device.for_arrays()
    assert copy.deepcopy(device) is device
    assert device not in portable.devices()


def test_an_unknown_profile_is_told_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"no device 'simulator:h2000'.*simulator:h200\b"):
        portable.device("simulator:h2000")


def test_profiles_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Mine.json").write_text(written("--json", "simulator:arc"))
    (tmp_path / "two.json").write_text(written("--json", "simulator:arc", "simulator:h200"))
    monkeypatch.setenv("PORTABLE_PROFILES", str(tmp_path))
    assert {"mine", "two", "arc"} <= set(profiles.names())
    assert profiles.load("mine").capabilities == profiles.load("arc").capabilities
    with pytest.raises(DataError, match="describes 2 devices"):
        profiles.load("two")


def test_files_of_processors_may_leave_out_how_work_items_are_used() -> None:
    found = json.loads(written("--json", "simulator:intel-cpu"))
    for name in ("single_work_items", "streaming_stores", "cache_line"):
        del found["devices"][0]["capabilities"][name]
    (older,) = profiles.read(json.dumps(found), "the file")
    assert older.capabilities == profiles.load("intel-cpu").capabilities


def changed(**changes: Any) -> str:
    found = json.loads(written("--json", "simulator:h200"))
    found["devices"][0]["capabilities"].update(changes)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "does not hold what"),
        ('{"format": 99, "devices": []}', "format 99; expected 1"),
        ('{"format": 1, "devices": [3]}', "device 0 is 3"),
        ('{"format": 1, "devices": [{"name": 3}]}', "name is 3; expected a string"),
        (changed(beads=3), "'beads'"),
        (changed(compute_units="132"), "compute_units is '132'; expected int"),
        (changed(kind="abacus"), "kind is 'abacus'; expected .*'gpu'"),
        (changed(max_workgroup_shape=[1, 2]), "max_workgroup_shape"),
        (changed(max_workgroup_shape=[1, 2, "3"]), "is '3'; expected int"),
        (changed(async_copy="bulk"), "async_copy is 'bulk'; expected a list of values, each str"),
        (changed(faults=["beads"]), "faults is 'beads'; expected one of"),
        ('{"format": 1, "devices": [{"name": "", "source": "", "capabilities": {}}]}', "lacks"),
    ],
)
def test_what_is_no_profile_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        profiles.read(text, "the file")
