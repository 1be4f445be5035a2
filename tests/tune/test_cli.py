"""`portable tune` as it is typed, and what `gemm` then does with it."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import portable
from portable import registry
from portable.backend import Device
from portable.dtypes import float16, float32
from portable.errors import LaunchError
from portable.linalg import gemm, svdvals
from portable.linalg.products.tunable import TUNABLE
from portable.linalg.products.tuning import candidates
from portable.tune.cli import tune
from portable.tune.table import device_keys, record, user_table


@pytest.fixture(autouse=True)
def _own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_TUNING", str(tmp_path / "tuning.json"))
    user_table().write_text("{}", encoding="utf-8")


def choice(device: Device, edge: int, **others: Any) -> dict[str, Any]:
    """A choice of gemm's space, of square tiles."""
    workgroup = 1 if device.capabilities.kind == "cpu" else 64
    plain = {"BM": edge, "BN": edge, "BK": 8, "STAGES": 1, "GROUP": 1, "UNITS": False}
    return {**plain, "SPECIALISED": False, "RESIDENT": 0, "WORKGROUP": workgroup, **others}


def typed(*words: str) -> Result:
    return CliRunner().invoke(tune, list(words))


@pytest.mark.needs_processor
@pytest.mark.parametrize("kernel", ["gemm", "gemm_nt"])
def test_a_short_search_is_kept_and_used(kernel: str) -> None:
    words = ["--device", "cpu", "--dtype", "f32", "--size", "64,33x17x50", "--budget", "1"]
    done = typed(kernel, *words, "--write")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    device = registry.device("cpu")
    (key,) = found["float32"]
    assert key == device_keys(device.capabilities)[0]
    assert json.loads(user_table().read_text(encoding="utf-8")) == {kernel: found}
    tried = list(candidates(device, float32, "auto", (4096, 4096, 1), kernel == "gemm_nt"))
    assert any(x.items() <= tried[0].items() for x in found["float32"][key])


def test_a_second_matrix_in_columns_has_choices_of_its_own(device: Device) -> None:
    key = device_keys(device.capabilities)[0]
    rows, columns = (choice(device, n) for n in (64, 32))
    record("gemm", float32, key, [rows])
    record("gemm_nt", float32, key, [columns])
    size = (4096, 4096, 1)
    assert candidates(device, float32, "auto", size)[0] == rows
    assert candidates(device, float32, "auto", size, b_columns=True)[0] == columns


def test_the_compute_unit_with_most_to_do_decides(device: Device) -> None:
    key = device_keys(device.capabilities)[0]
    large, small = (choice(device, n) for n in (256, 32))
    record("gemm", float32, key, [large, small])
    units = max(1, device.capabilities.compute_units)

    def better(m: int) -> Any:
        """Of the two: a device that the package knows has faster ones than either."""
        found = candidates(device, float32, "auto", (m, 256, 1))
        return next(c for c in found if c in (large, small))

    assert better(256 * units) == large
    assert better(256) == (small if units > 1 else large)


@pytest.mark.needs_processor
def test_a_winner_that_cannot_be_launched_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tiles of 4 MiB do not fit into local memory; `refused` fits, and the device refuses it."""
    device = registry.device("cpu")
    key = device_keys(device.capabilities)[0]
    record("gemm", float32, key, [choice(device, 256, BK=128, STAGES=4)])
    refused = {"BANDWIDTH": 8, "PANEL": 8, "FAN": 2, "COLUMNS": 1, "STRIP": 16, "WORKGROUP": 1}
    record("svdvals", float32, key, [refused])
    tried = []

    def refuses(asked: Any, choice: Any) -> None:
        tried.append(choice)
        if choice["PANEL"] == 8:
            raise LaunchError("no")
        asked.values[...] = 1

    module = import_module("portable.linalg.singular_values.svdvals")
    monkeypatch.setattr(module, "direct_layout", lambda *_: None)  # which takes no choice
    monkeypatch.setattr(module, "in_stages", refuses)
    a = np.ones((40, 40), np.float32)
    with portable.use(device):
        assert (gemm(a, a) == 40).all()
        assert (svdvals(a) == 1).all()
    assert len(tried) == 2


@pytest.mark.needs_processor
@pytest.mark.parametrize(
    "bad", [{"GROUP": 0}, {"STAGES": 1e9}, {"STAGES": 10**9}, {"WORKGROUP": 10**9}, {"BM": 40}]
)
def test_a_choice_of_no_such_space_is_left_out(bad: dict[str, Any]) -> None:
    device = registry.device("cpu")
    record("gemm", float32, device_keys(device.capabilities)[0], [choice(device, 32, **bad)])
    a = np.ones((40, 40), np.float32)
    (name,) = bad
    with portable.use(device):
        with pytest.warns(UserWarning, match=rf"tuning\.json.*{name}"):
            found = gemm(a, a)
        assert (found == 40).all()
        gemm(a[:33], a)


@pytest.mark.needs_processor
def test_without_writing_nothing_is_kept() -> None:
    done = typed("gemm", "--device", "cpu", "--dtype", "f32", "--size", "32", "--budget", "0.2")
    assert done.exit_code == 0, done.output
    assert user_table().read_text(encoding="utf-8") == "{}"


@pytest.mark.needs_compiler
def test_every_device_has_choices(device: Device) -> None:
    can = device.capabilities
    for dtype in TUNABLE.dtypes:
        assert any(TUNABLE.space.choices(dtype, can))


def test_no_choice_leaves_nobody_to_multiply() -> None:
    """Work-items that only copy are whole groups; others are needed beside them."""
    hopper = registry.device("simulator:h200").capabilities
    one = {
        **choice(registry.device("simulator"), 64),
        "UNITS": True,
        "SPECIALISED": True,
        "STAGES": 3,
    }
    assert not TUNABLE.space.fits(one, float16, hopper)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["gem"], "there are conv, conv_weights, gemm"),
        (["gemm", "--dtype", "i8"], "tunes f16, f32"),
        (["gemm", "--size", "4x4"], "expected n or MxNxK"),
        (["gemm", "--device", "nonsuch"], "nonsuch"),
        (["gemm", "--budget", "0"], "'--budget': 0"),
        (["gemm", "--patience", "-1"], "'--patience': -1"),
    ],
)
def test_bad_words(words: list[str], expected: str) -> None:
    done = typed(*words)
    assert done.exit_code == 2
    assert expected in done.output


def test_help_lists_what_can_be_tuned() -> None:
    assert "conv, conv_weights, gemm" in " ".join(typed("--help").output.split())
