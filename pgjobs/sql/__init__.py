"""The statements that Python sends, one to a file, named by what they do.

The folders say who sends them: the application, a worker for its own jobs, a worker
for all (upkeep), or a report.
"""

from functools import cache
from importlib.resources import files
from string import Template

from .columns import MARKS

FOLDERS = ("app", "worker", "upkeep", "reports")


@cache
def statement(name: str, variant: str = "") -> str:
    """Return the statement of `<name>.sql`, with its first line to know it by.

    The marks of `columns.py` are filled in.
    `variant`: a word; lines that begin with "--" and the word are code in it.

    Without the other comments, and the indentation: psycopg parses what is longer than
    4,096 characters with each execution anew.
    """
    text = Template(text_of(name)).substitute(MARKS)
    if variant:
        text = text.replace(f"--{variant} ", "")
    first, *lines = (line.strip() for line in text.splitlines())
    return "\n".join([first, *(line for line in lines if line[:2] != "--")])


def text_of(name: str) -> str:
    """Return the text of a file; its name is unique among all folders."""
    for folder in FOLDERS:
        file = files(__name__).joinpath(folder, f"{name}.sql")
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise LookupError(f"There is no statement {name!r}.")
