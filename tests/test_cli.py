from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import click
import pytest
from click.testing import CliRunner

from portable import cli, registry
from portable.backend import Unavailable
from portable.backend.profiles import device_table
from portable.system.tables import Table


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.main, arguments)


def test_devices_lists_what_is_here_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (Unavailable("abacus", "no beads", "pip install 'portable-arrays[abacus]'"),)
    monkeypatch.setattr(registry, "unavailable", lambda: missing)
    output = _run("devices").output
    assert all(device.name in output for device in registry.devices())
    assert "no beads" in output
    assert "pip install 'portable-arrays[abacus]'" in output


def test_names_stay_whole_in_a_narrow_terminal() -> None:
    table = device_table(registry.devices())
    lines = table.text(width=80, rule="-").splitlines()
    assert all(any(device.name in line for line in lines) for device in registry.devices())
    assert max(map(len, lines)) <= 80 < max(map(len, table.text().splitlines()))
    assert any(set(line) == {"-", " "} for line in lines)


def test_tables_fold_cells_at_words_and_steer_no_terminal() -> None:
    table = Table("title")
    table.add_columns("left")
    table.add_columns("right", right=True)
    table.add_row("one two three\nfour", "1\x1b[2J")
    folded = "title\nleft          right\none two    1\\x1b[2J\nthree\nfour"
    assert table.text(width=19) == folded


def test_output_is_plain_when_piped() -> None:
    output = _run("devices").output
    assert output.isascii()
    assert "\x1b" not in output


def test_version() -> None:
    assert _run("--version").output.startswith("portable, version ")


def test_an_unknown_command_is_an_error() -> None:
    done = _run("frobnicate")
    assert done.exit_code == 2
    assert "No such command" in done.output


@click.command()
def hello() -> None:
    """Greet."""
    click.echo("hello")


def _register(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    entry = EntryPoint("hello", "nowhere:hello", "portable.commands")

    def load(_self: EntryPoint) -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    monkeypatch.setattr(EntryPoint, "load", load)
    monkeypatch.setattr(cli, "_registered", lambda: [entry])


def test_registered_commands_run(monkeypatch: pytest.MonkeyPatch) -> None:
    _register(monkeypatch, hello)
    assert _run("hello").output == "hello\n"
    assert "Greet." in _run("--help").output


@pytest.mark.parametrize(
    "value",
    [ImportError("gone"), "no command", SyntaxError("bad"), ZeroDivisionError("\x1b[31m[/x]")],
    ids=repr,
)
def test_a_broken_command_is_named(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """Also with options, and it takes neither the help nor other commands down."""
    _register(monkeypatch, value)
    for arguments in ([], ["--help"], ["--some", "thing"]):
        done = _run("hello", *arguments)
        assert done.exit_code == 1
        assert "hello" in done.output
        assert "\x1b" not in done.output
    overview = _run("--help")
    assert overview.exit_code == 0
    assert "hello" in overview.output
    assert "\x1b" not in overview.output
    assert _run("--version").exit_code == 0


def test_names_of_devices_are_shown_literally(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = (Unavailable("[/x]", "\x1b[31mred[/red]", "\x9b[bold]"),)
    monkeypatch.setattr(registry, "unavailable", lambda: missing)
    output = _run("devices").output
    assert not {"\x1b", "\x9b"} & set(output)
    for text in ("[/x]", "\\x1b[31mred[/red]", "\\x9b[bold]"):
        assert text in output
