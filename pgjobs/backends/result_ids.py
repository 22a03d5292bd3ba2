"""Ids of results: the job's id, and its database where that is not the backend's own.

A backend's own database is its OPTIONS["database"], or else PGJOBS["DATABASE"]. There
job 42 has the result "42". In the database `eu` of the same project it has "42@eu".
"""

import re
from typing import Any

from django.db import connections

from ..base.database_choice import has_queue
from ..conf import settings
from .compat import task_backends

ID = re.compile(r"([1-9][0-9]{0,18})(?:@(.+))?")
LARGEST_ID = 2**63 - 1


def own_database(alias: str) -> str:
    """Return the database whose jobs have plain ids in this backend."""
    options = task_backends.settings.get(alias, {}).get("OPTIONS") or {}
    return options.get("database") or settings.get("DATABASE")


def result_id(alias: str, job_id: int, database: str | None) -> str:
    """Return the id of the result of a job; None is the database in use."""
    database = database or settings.DATABASE
    return str(job_id) if database == own_database(alias) else f"{job_id}@{database}"


def read_result_id(alias: str, id: Any) -> tuple[int, str] | None:
    """Return the job's id and its database, or None if no result can have this id."""
    found = ID.fullmatch(id) if isinstance(id, str) else None
    if found is None or int(found[1]) > LARGEST_ID:
        return None
    database = found[2] or own_database(alias)
    if found[2] and not (database in connections.databases and has_queue(database)):
        return None
    return int(found[1]), database
