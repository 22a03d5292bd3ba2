"""Frozen migrations. They have the text of what a release changed, both ways.

`root` is the directory of the package.
"""

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .install import InstallSQL, RunFiles, definitions, head, side

MIGRATION = '''"""What changed in the functions of the database; freeze.py wrote it."""

from django.db import migrations

from pgjobs.database.install import InstallSQL

CHANGES = {{
{changes}}}
# What the statements of this release call: its workers run beside those of the next.
CALLS = [
{calls}]
FILES = {{
{files}}}


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "{previous}")]

    operations = [InstallSQL(CHANGES, CALLS, FILES)]
'''


MARK = "freeze.py wrote it"  # in each MIGRATION
READING = "InstallSQL()"  # in the migration that reads the files
LAST = "9999"  # every migration comes before it


class State(NamedTuple):
    """What a release has: see InstallSQL."""

    texts: dict[str, str]
    calls: list[str]
    files: dict[str, str]


def names_of_migrations(root: Path) -> list[str]:
    return sorted(path.stem for path in root.glob("migrations/[0-9]*.py"))


def text_of(name: str, root: Path) -> str:
    path = root / f"migrations/{name}.py"
    return path.read_text() if path.exists() else ""


def operations(root: Path, before: str = LAST) -> Iterator[Any]:
    """Yield the operations of the migrations before a name, in their order."""
    for name in filter(before.__gt__, names_of_migrations(root)):
        path = root / f"migrations/{name}.py"
        spec: Any = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield from module.Migration.operations


def released(root: Path, before: str = LAST) -> State | None:
    """Return what migrations make, or None while 0002 still reads the files."""
    state = State({}, [], {})
    for operation in operations(root, before):
        if isinstance(operation, InstallSQL):
            if (changes := operation.changes) is None:
                return None
            kept = {k: text for k, text in state.texts.items() if k not in changes}
            texts = {**kept, **side(changes, 1)}
            state = State(texts, list(operation.calls), operation.files)
    return state


def present(root: Path) -> State:
    """Return what the files have now."""
    texts = definitions(root)
    installed = root.glob("features/*/functions")
    rooms = {root / "database", root / "migrations", *installed}
    sent = "".join(
        path.read_text()
        for path in root.rglob("*")
        if path.suffix in (".py", ".sql") and not rooms.intersection(path.parents)
    )
    called = set(re.findall(r"\b(pgjobs_\w+)\(", sent))
    files = {
        path: hashlib.sha256((root / "database" / path).read_bytes()).hexdigest()
        for operation in operations(root)
        if isinstance(operation, RunFiles)
        for path in operation.paths
    }
    calls = sorted(name for name in called if f"function {name}" in texts)
    return State(texts, calls, files)


def faults(last: State, now: State) -> Iterator[str]:
    """Yield what would break older migrations or the workers of the last release."""
    for name in last.calls:
        key = f"function {name}"
        if head(last.texts[key]) != head(now.texts.get(key, "")):
            yield (
                f"{name}: workers of the last release call it, and run on during a "
                "deploy. Keep its parameters and its result. A different function "
                "needs a new name. One that is not called any more can be dropped one "
                "release later."
            )
    for path, digest in last.files.items():
        if now.files.get(path) != digest:
            yield f"{path}: it must stay as released, because a migration runs it."


def changes_since(last: State, now: State) -> list[str]:
    """Return the names of what has changed. Exit if a change is not allowed."""
    if found := list(faults(last, now)):
        raise SystemExit("\n".join(found))
    names = {**now.texts, **last.texts}
    return [name for name in names if last.texts.get(name) != now.texts.get(name)]


def check(root: Path) -> None:
    """Exit with an error if files have changed since the last frozen migration."""
    last = released(root)
    if last and (names := changes_since(last, present(root))):
        raise SystemExit(f"Changed, and in no migration yet: {', '.join(names)}.")


def freeze(name: str, root: Path, again: bool = False) -> None:
    """Write the migration with what has changed since the last one.

    `again`: the last one itself, of a release that no database has yet.
    """
    last, now, others = released(root), present(root), names_of_migrations(root)
    if (
        again
        and [name] != [each for each in others if MARK in text_of(each, root)][-1:]
    ):
        raise SystemExit(f"{name}: only the last one that freeze wrote may change.")
    if last is None and READING not in text_of(name, root):
        (first,) = (each for each in others if READING in text_of(each, root))
        raise SystemExit(f"Nothing is released yet: freeze {first} first.")
    if last is None or again:
        last = released(root, before=name)
        assert last is not None
    elif not (re.match(r"\d{4}_\w+$", name) and name > others[-1]):
        raise SystemExit(f"{name}: it must follow {others[-1]}, as 0009_what would.")
    if not (names := changes_since(last, now)):
        raise SystemExit("Nothing has changed.")
    previous = max(other for other in others if other < name)
    text = migration(names, last, now, previous)
    (root / f"migrations/{name}.py").write_text(text)


def migration(names: list[str], last: State, now: State, previous: str) -> str:
    """Return the text of a migration. It always sets the rights again."""
    return MIGRATION.format(
        changes="".join(
            f'    "{name}": (\n'
            f"        {literal(last.texts.get(name))},\n"
            f"        {literal(now.texts.get(name))},\n"
            "    ),\n"
            for name in dict.fromkeys([*names, "rights"])
        ),
        calls="".join(f'    "{name}",\n' for name in now.calls),
        files="".join(f'    "{path}": "{it}",\n' for path, it in now.files.items()),
        previous=previous,
    )


def literal(text: str | None) -> str:
    """Return Python for a text, which must not have three quotes."""
    assert text is None or '"""' not in text
    return "None" if text is None else f'r"""{text}"""'
