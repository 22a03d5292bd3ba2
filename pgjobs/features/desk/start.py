"""What is stored when a worker starts: its version of the code, for the charts."""

from ...conf import settings
from .tables import CodeVersion


def store_version(database: str) -> None:
    """Store when a worker first ran this version."""
    if settings.VERSION:
        CodeVersion.objects.using(database).get_or_create(name=settings.VERSION)


ON_WORKER_START = (store_version,)
