"""The statements of pgjobs, one to a file, named by what they do."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Return the text of `<name>.sql`."""
    return files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
