"""Settings that concern each attempt, read once because each job asks for them."""

from collections.abc import Sequence

from ...conf import settings
from ...queue import meta
from ...tasks.middleware import Middleware, middleware


class Surroundings:
    """Base of the hosts of jobs."""

    database: str | None = None  # None leaves it to the settings

    def __init__(self) -> None:
        self.keeps_level: int | None = settings.KEEP_LOGS  # if the task says nothing
        self.hands_on_meta = meta.is_used()  # to the jobs that jobs enqueue
        self.middleware: Sequence[Middleware] = middleware()
