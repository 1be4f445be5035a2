"""How commands print tables and how far they are, and notices that are given once."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from portable.errors import Location, Remark
from portable.system.locks import fork_safe_lock

if TYPE_CHECKING:
    from rich.progress import Progress


# Warnings and remarks that are given once in a process.


_told: Final[set[str]] = set()
_telling: Final = fork_safe_lock()


def warn_once(text: str, subject: str = "") -> None:
    """A warning that this process has not given before, or none on the same subject."""
    if _is_new(subject or text):
        warnings.warn(text, stacklevel=3)


def remark(text: str, location: Location) -> None:
    """A `portable.errors.Remark` on a line of a kernel that this process has not given before."""
    if _is_new(f"{location}: {text}"):
        warnings.warn_explicit(text, Remark, location.file, location.line)


def _is_new(text: str) -> bool:
    with _telling:
        new = text not in _told
        _told.add(text)
    return new


_PLAIN_WIDTH: Final = 240


_PATIENCE: Final = 2.0
"""Seconds after which a terminal is told what it waits for."""
_EACH: Final = 1.0


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A context that a terminal is told of, with the seconds that it has taken, if it takes long.

    Nothing is written where standard error is no terminal, and the line is wiped out at the end.

    Parameters
    ----------
    what : str
        What is done.
    """
    if not sys.stderr.isatty():
        yield
        return
    done = Event()
    teller = Thread(target=_tell, args=(what, done), daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def _tell(what: str, done: Event) -> None:
    start, told = perf_counter(), False
    while not done.wait(_EACH if told else _PATIENCE):
        told = True
        sys.stderr.write(f"\r{printable(what)}: {perf_counter() - start:.0f} s")
        sys.stderr.flush()
    if told:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def stages_bar() -> Progress:
    """A bar for each stage of some work, on the error output, which is wiped out at the end."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def printable(text: str) -> str:
    """`text` with whatever would steer a terminal, or cannot be encoded, as Python writes it.

    Names of devices, files and packages are other people's, and may hold escape sequences.
    """
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def literal(text: str) -> str:
    """`text` for a cell of a table, without a meaning to the terminal or to rich's markup."""
    return escape(printable(text))


def show(table: Table) -> None:
    """Print a table: boxed in a terminal, plain columns where something else reads the output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH, color_system=None)
        table.box = None
        table.pad_edge = False
    if table.title:
        console.print(table.title, style="table.title")
        table.title = None  # a table of few columns would break it into lines
    console.print(table)


def rendered(table: Table) -> str:
    """A table as plain text, for `str` and notebooks without colours."""
    console = Console(width=_PLAIN_WIDTH, color_system=None, file=StringIO())
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def html(*parts: Table | str) -> str:
    """Tables and lines of text for notebooks."""
    console = Console(width=_PLAIN_WIDTH, record=True, file=StringIO())
    for part in parts:
        console.print(part if isinstance(part, Table) else literal(part), highlight=False)
    style = "<pre style='white-space: pre; overflow-x: auto; line-height: normal'>{code}</pre>"
    return console.export_html(inline_styles=True, code_format=style)
