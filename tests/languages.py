"""The catalogues of texts. `python -m tests.languages` brings them up to date.

It needs the program xgettext (Debian's package gettext). What it adds has to be
translated in the .po files; then run it again, which compiles them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polib

PACKAGE = Path(__file__).parent.parent / "pgjobs"
SOURCE = "en"  # whose catalogue has no translations, as Django's own
TRANSLATED = ("de", "fr", "es")
LANGUAGES = (SOURCE, *TRANSLATED)
DATES = ("POT-Creation-Date", "PO-Revision-Date")  # they change with each run

COLLECT = (
    "from django.core.management import execute_from_command_line as run; "
    "run(['django-admin', 'makemessages', '--no-location', '--no-obsolete', '-v0', "
    "*sys.argv[1:]])"
)


def catalogue(language: str, package: Path = PACKAGE) -> polib.POFile:
    path = package / "locale" / language / "LC_MESSAGES" / "django.po"
    return polib.pofile(str(path), wrapwidth=78)


def compiled(language: str) -> polib.MOFile:
    path = PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo"
    return polib.mofile(str(path))


def texts(entries: polib.POFile) -> set[tuple[str | None, str, str]]:
    """Return what a catalogue has to translate."""
    return {(each.msgctxt, each.msgid, each.msgid_plural) for each in entries}


def collect(package: Path) -> None:
    """Let Django write the texts of the code and the templates to the catalogues."""
    languages = [part for each in LANGUAGES for part in ("-l", each)]
    # With -P, so that pgjobs/logging.py does not hide Python's own module.
    command = [sys.executable, "-P", "-c", f"import sys; {COLLECT}", *languages]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SETTINGS_MODULE", "PYTHONPATH")
    }
    subprocess.run(command, cwd=package, env=environment, check=True)


def collected(scratch: Path) -> Iterator[tuple[str, polib.POFile]]:
    """Yield the catalogue of each language as it would be if it were collected."""
    copy = scratch / "pgjobs"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    collect(copy)
    for language in LANGUAGES:
        yield language, catalogue(language, copy)


def main() -> None:
    collect(PACKAGE)
    for language in LANGUAGES:
        entries = catalogue(language)
        for name in DATES:
            entries.metadata.pop(name, None)
        entries.save()
        entries.save_as_mofile(str(Path(entries.fpath).with_suffix(".mo")))
        left = [each for each in entries if not each.translated() or each.fuzzy]
        if language != SOURCE and left:
            sys.stdout.write(f"{language}: {len(left)} texts to translate\n")


if __name__ == "__main__":
    main()
