"""How commands print tables."""

from __future__ import annotations

from io import StringIO
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

__all__ = ["html", "literal", "printable", "rendered", "show"]

_PLAIN_WIDTH: Final = 240


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
