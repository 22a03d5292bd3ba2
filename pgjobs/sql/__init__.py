"""The statements that Python sends, one to a file, named by what they do.

The folders say who sends them: the application, a worker for its own jobs, a worker
for all (upkeep), or a report. Those of a feature stand in its own folder. A line that
begins with `\\ir`, as in psql, includes another file; its path begins at the folder of
the including file.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from .. import features
from .columns import VALUES, filled, listed

FOLDERS = (
    *map(files(__name__).joinpath, ("app", "worker", "upkeep", "reports")),
    *map(files(features).joinpath, features.FEATURES),
)
INCLUDE = "\\ir "


@cache
def statement(name: str) -> str:
    """Return the statement of `<name>.sql`, with its first line to know it by.

    The marks of `columns.py` are filled in. The other comments and the indentation are
    removed, because on a connection of Django's psycopg parses a statement of more than
    4,096 characters again at each execution.
    """
    first, *lines = (line.strip() for line in lines_of(*find(name)))
    return filled("\n".join([first, *(line for line in lines if line[:2] != "--")]))


@cache
def statement_of(name: str, given: tuple[str, ...]) -> str:
    """Return a statement that names these columns of a new job."""
    columns = [column for column in VALUES if column in given]
    text = statement(name).replace("$given_columns", listed(columns))
    return text.replace("$given_values", listed(map(VALUES.__getitem__, columns)))


def find(name: str) -> tuple[Traversable, str]:
    """Return the folder and the file of a statement. No name stands in two folders."""
    for folder in FOLDERS:
        if folder.joinpath(f"{name}.sql").is_file():
            return folder, f"{name}.sql"
    raise LookupError(f"There is no statement {name!r}.")


def lines_of(folder: Traversable, path: str) -> Iterator[str]:
    """Yield the lines of a file, with those of the files that it includes."""
    *inner, name = path.split("/")
    folder = folder.joinpath(*inner)
    for line in folder.joinpath(name).read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith(INCLUDE):
            yield from lines_of(folder, line.lstrip().removeprefix(INCLUDE))
        else:
            yield line
