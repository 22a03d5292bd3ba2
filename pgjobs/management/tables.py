"""Tables of plain text."""

import shutil
from collections.abc import Collection, Iterator, Sequence

from django.core.management.base import OutputWrapper

GAP = 2
NARROWEST = 8  # of a column that is cut
NARROWEST_TABLE = 60  # of a terminal
EMPTY = ("", "-")


def print_table(
    out: OutputWrapper,
    titles: Sequence[str],
    rows: Sequence[Sequence],
    otherwise: str,
    long: Collection[str] = (),
    notes: Sequence[str] = (),
) -> None:
    """Print rows under titles, or another text if there are none.

    - `long`: titles of the columns that are cut to the width of a terminal. What reads
      a pipe gets all of each cell. On a very narrow terminal a row takes several lines.
    - `notes`: for each row a line that stands below it, or an empty text.
    """
    if not rows:
        out.write(otherwise)
        return
    cells = [list(titles), *([str(cell) for cell in row] for row in rows)]
    most = shutil.get_terminal_size().columns if out.isatty() else None
    if most is not None:
        cut_columns(cells, most, [titles.index(title) for title in long])
    head, *lines = lines_of(cells)
    if most is not None and (most < NARROWEST_TABLE or longest(head, *lines) > most):
        head, *lines = ("", *map("\n".join, blocks_of(titles, rows)))
    below = ("", *(notes or [""] * len(rows)))
    for line, note in zip((head, *lines), below, strict=True):
        if line:
            out.write(f"{line}\n  {note}" if note else line)


def longest(*lines: str) -> int:
    return max(map(len, lines))


def cut_columns(cells: list[list[str]], most: int, columns: list[int]) -> None:
    """Cut the widest of these columns until all fit, or all of these are narrow."""
    widths = widths_of(cells)
    while columns and sum(widths) + GAP * (len(widths) - 1) > most:
        widest = max(columns, key=lambda column: widths[column])
        if widths[widest] <= NARROWEST:
            break
        widths[widest] -= 1
    for line in cells:
        for column in columns:
            line[column] = cut(line[column], widths[column])


def widths_of(cells: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def cut(text: str, width: int) -> str:
    """Return a text of at most this width; a name loses its middle."""
    if len(text) <= width:
        return text
    end = 0 if " " in text else width // 2
    return f"{text[: width - end - 1]}…{text[len(text) - end :]}"


def lines_of(cells: list[list[str]]) -> Iterator[str]:
    widths = widths_of(cells)
    for line in cells:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        yield (" " * GAP).join(padded).rstrip()


def blocks_of(titles: Sequence[str], rows: Sequence[Sequence]) -> Iterator[list[str]]:
    """Yield the lines of each row: its name, and below it what it holds."""
    for name, *cells in rows:
        lines = [
            f"  {title}: {cell}" if title else f"  {cell}"
            for title, cell in zip(titles[1:], cells, strict=True)
            if str(cell) not in EMPTY
        ]
        yield [str(name), *lines]
