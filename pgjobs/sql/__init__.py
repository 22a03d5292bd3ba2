"""The statements of pgjobs, one to a file, named by what they do."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str, variant: str = "") -> str:
    """Return the statement of `<name>.sql`, with its first line to know it by.

    `variant`: a word; lines that begin with "--" and the word are code in it.

    Without the other comments, and the indentation: psycopg parses what is longer than
    4,096 characters with each execution anew.
    """
    text = files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    if variant:
        text = text.replace(f"--{variant} ", "")
    first, *lines = (line.strip() for line in text.splitlines())
    return "\n".join([first, *(line for line in lines if line[:2] != "--")])
