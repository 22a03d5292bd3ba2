"""manage.py ingest_tles"""

from pathlib import Path

from django.core.management.base import BaseCommand, CommandError

from passes.elements import InvalidElements
from passes.ingest import ingest_elements


class Command(BaseCommand):
    help = "Read two-line elements from a file and upsert its satellites."

    def add_arguments(self, parser):
        parser.add_argument("file", type=Path)

    def handle(self, *, file, **options):
        try:
            ingested = ingest_elements(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, InvalidElements) as error:
            raise CommandError(f"Cannot ingest {file}: {error}") from error
        self.stdout.write(
            f"{ingested.read} satellites read, {ingested.changed} changed."
        )
