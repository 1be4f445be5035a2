"""Tables as text: ruled and folded to its width in a terminal, plain columns elsewhere."""

from __future__ import annotations

import html as markup
import shutil
import sys
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Final

from portable.system.console import printable

_PLAIN_WIDTH: Final = 240
_BETWEEN: Final = "  "
_NARROWEST: Final = 6


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    right: bool
    whole: bool


@dataclass(slots=True)
class Table:
    """Rows of text under headings.

    Attributes
    ----------
    title, caption : str
        What stands above and below.
    columns : list
        The headings, and how cells below them stand.
    rows : list of tuple of str
        The cells, which may have several lines.
    """

    title: str = ""
    caption: str = ""
    columns: list[_Column] = field(default_factory=list)
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add_columns(self, *headings: str, right: bool = False, whole: bool = False) -> None:
        """Adds columns.

        Parameters
        ----------
        *headings : str
            What stands above each.
        right : bool
            Whether cells end together; else they begin together.
        whole : bool
            Whether lines are never folded.
        """
        self.columns += [_Column(printable(heading), right, whole) for heading in headings]

    def add_row(self, *cells: str) -> None:
        """Adds a row, whose cells steer no terminal; those of the last columns may be left out."""
        left = ("",) * (len(self.columns) - len(cells))
        self.rows.append((*map(printable, cells), *left))

    def cells(self, heading: str) -> list[str]:
        """Those below a heading."""
        at = next(at for at, column in enumerate(self.columns) if column.heading == heading)
        return [row[at] for row in self.rows]

    def text(self, width: int = _PLAIN_WIDTH, rule: str = "") -> str:
        """The table in lines of at most so many characters, if words allow it.

        Parameters
        ----------
        width : int
            Characters of a line.
        rule : str
            What the line below the headings is made of; none without it.
        """
        widths = self._widths(width)
        headings = tuple(column.heading for column in self.columns)
        lines = self._lines(headings, widths)
        if rule:
            lines.append(_BETWEEN.join(rule * width for width in widths))
        for row in self.rows:
            lines += self._lines(row, widths)
        return "\n".join(filter(None, (printable(self.title), *lines, printable(self.caption))))

    def _widths(self, most: int) -> list[int]:
        """Of the columns; the widest of those that may be folded give way."""
        widths = [max(map(_width, cells)) for cells in zip(*self._all(), strict=True)]
        soft = [at for at, column in enumerate(self.columns) if not column.whole]
        while soft and sum(widths) + len(_BETWEEN) * (len(widths) - 1) > most:
            widest = max(soft, key=lambda at: widths[at])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _all(self) -> list[tuple[str, ...]]:
        return [tuple(column.heading for column in self.columns), *self.rows]

    def _lines(self, cells: tuple[str, ...], widths: list[int]) -> list[str]:
        """A row, of as many lines as its highest cell has."""
        folded = [_folded(cell, width) for cell, width in zip(cells, widths, strict=True)]
        lines = []
        for number in range(max(map(len, folded))):
            parts = [lines_of[number] if number < len(lines_of) else "" for lines_of in folded]
            placed = (
                part.rjust(width) if column.right else part.ljust(width)
                for part, width, column in zip(parts, widths, self.columns, strict=True)
            )
            lines.append(_BETWEEN.join(placed).rstrip())
        return lines


def _width(cell: str) -> int:
    return max(map(len, cell.split("\n")))


def _folded(cell: str, width: int) -> list[str]:
    return [part for line in cell.split("\n") for part in wrap(line, width) or [""]]


def show(table: Table) -> None:
    """Print a table, folded to its width and ruled where a person reads it."""
    person = sys.stdout.isatty()
    text = table.text(shutil.get_terminal_size().columns, "-") if person else table.text()
    sys.stdout.write(f"{text}\n")


def html(*parts: Table | str) -> str:
    """Tables and lines of text for notebooks."""
    texts = (part.text(rule="─") if isinstance(part, Table) else printable(part) for part in parts)
    style = "white-space: pre; overflow-x: auto; line-height: normal"
    return f"<pre style='{style}'>{markup.escape(chr(10).join(texts))}</pre>"
