"""Take orbital elements into the database."""

from typing import NamedTuple

from django.db import transaction

from .elements import Elements, read_elements
from .models import Satellite


class Ingested(NamedTuple):
    """How many satellites a file names, and how many of them it changed."""

    read: int
    changed: int


@transaction.atomic
def ingest_elements(text: str) -> Ingested:
    """Upsert every satellite of the text by catalog number: all of them, or none.

    Saving sends post_save, whose receiver enqueues the recomputation here, in this
    transaction.
    """
    # In order of number: two ingests at once then wait for, not block, each other.
    read = sorted(read_elements(text))
    return Ingested(len(read), sum(_upsert(elements) for elements in read))


def _upsert(elements: Elements) -> bool:
    """Save the satellite if anything about it is new; return whether it was."""
    satellites = Satellite.objects.select_for_update()
    number = elements.catalog_number
    satellite = satellites.filter(catalog_number=number).first() or Satellite()
    new = elements._asdict()
    if all(getattr(satellite, field) == value for field, value in new.items()):
        return False
    for field, value in new.items():
        setattr(satellite, field, value)
    satellite.save()
    return True
