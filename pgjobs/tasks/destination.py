"""The database that jobs are enqueued in, as far as their options say it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db import connections

from ..base.database_choice import (
    database_to_write,
    queue_databases,
    takes_changes,
)
from ..exceptions import InvalidTask
from . import tables
from .option_group import OptionGroup

if TYPE_CHECKING:
    from ..models.job_set import JobManager


@dataclass(frozen=True, kw_only=True)
class Destination(OptionGroup):
    """The option of `@task(...)` and `.using(...)` for one of several databases."""

    #: Alias of the database whose queue the job is enqueued in. `None` leaves it to the
    #: running job, the routers and the open transaction.
    database: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.database is not None:
            check_database(self.database)

    @cached_property
    def own_database(self) -> str | None:
        """The database that the options name, or that of the rows that they name.

        None if they say nothing. Raises InvalidTask if they contradict each other.
        """
        named = self.database
        for what, alias in self.databases_of_rows():
            if named is None:
                named = alias
            elif alias != named:
                raise InvalidTask(
                    f"{what} is in the database {alias!r}, and the job belongs in "
                    f"{named!r}. A job waits only for jobs of its own database."
                )
        return named

    def databases_of_rows(self) -> Iterator[tuple[str, str]]:
        for row in self.rows():
            # Not a replica, from which it may have been read.
            alias = row._state.db
            if alias in queue_databases() and takes_changes(alias):
                yield f"{type(row).__name__} {row.pk}", alias


def check_database(alias: Any) -> None:
    if not isinstance(alias, str) or alias not in connections:
        known = ", ".join(sorted(connections))
        raise InvalidTask(
            f"database must be an alias of DATABASES ({known}), got {alias!r}."
        )


def jobs_in(database: str | None) -> "JobManager":
    """Return the manager that inserts there. None leaves it to the surroundings."""
    jobs: JobManager = tables.Job.objects
    return jobs if database is None else jobs.db_manager(database)


def common_database(destinations: Iterable[Destination]) -> str | None:
    """Return what all options say of the database; raise InvalidTask if they differ."""
    databases = {destination.own_database for destination in destinations}
    if databases <= {None}:
        return None
    named = {each or database_to_write() for each in databases}
    if len(named) > 1:
        listed = " and ".join(map(repr, sorted(named)))
        raise InvalidTask(
            f"Jobs that are enqueued together must be in one database, got {listed}. "
            "Name it for each of them: task.using(database=...)."
        )
    return named.pop()
