"""How commands print tables."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

__all__ = ["show"]

_PLAIN_WIDTH: Final = 240


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
