"""The acts of the application and its operators on jobs, one statement each."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from .. import signals
from ..base.plain_json import result_text
from ..base.texts import storable
from ..features import modules
from ..sql import statement
from .references import sparing_referred
from .statements import execute_on

if TYPE_CHECKING:
    from ..models import Job

BATCH = 10_000  # rows that one statement of a bulk act touches
LONGEST_REASON = 1_000
RETRIES = ("retry", "retry_keeping")
MOST_TRIES = 100  # a try fails only if another transaction was faster


class Changed(NamedTuple):
    """How many jobs an act `changed`, and how many it `skipped` by their status."""

    changed: int
    skipped: int


def act(verb: str, queryset: "QuerySet[Job]", **parameters) -> Changed:
    """Run the act `verb` on every job of the queryset, a batch at a time."""
    if "return_value" in parameters:
        parameters["return_value"] = result_text(parameters["return_value"])
        parameters["own_values"] = None
    if "reason" in parameters:
        parameters["reason"] = storable(str(parameters["reason"]), LONGEST_REASON)
    queryset = queryset.to_change()
    seen = changed = 0
    run = put_back if verb in RETRIES else act_on
    for ids in batches(queryset):
        if parameters.get("return_value") is not None:
            for module in modules("stored"):
                own = module.own_values(queryset.db, ids, parameters["return_value"])
                parameters["own_values"] = own
        rows = run(verb, queryset, ids, parameters)
        seen += len(ids)
        changed += len(rows)
    return Changed(changed, seen - changed)


def act_on(verb, queryset, ids: list[int], parameters: dict) -> list[tuple]:
    execute = execute_on(queryset.db)
    if verb == "discard":
        text = sparing_referred(execute, "discard", "pgjobs_job", "job")
    else:
        text = statement(verb)
    rows = execute(text, {"ids": ids, **parameters})
    if finished := [row[0] for row in rows if row[1]]:
        announce = partial(announce_finished, queryset.model, queryset.db, finished)
        transaction.on_commit(announce, using=queryset.db)
    return rows


def put_back(verb, queryset, ids: list[int], parameters: dict) -> list[tuple]:
    """Run an act after which jobs hold their unique keys again.

    The statement skips jobs whose key another job holds. It cannot see jobs that are
    not committed yet, but it waits for their transactions. The next try sees those
    jobs.
    """
    tries = 0
    while True:
        tries += 1
        try:
            with transaction.atomic(using=queryset.db):
                return act_on(verb, queryset, ids, parameters)
        except IntegrityError as error:
            is_overtaken = isinstance(error.__cause__, psycopg.errors.UniqueViolation)
            if not is_overtaken or tries == MOST_TRIES:
                raise


def batches(queryset: "QuerySet[Job]") -> Iterator[list[int]]:
    """Yield the ids of the queryset, which the acts must not change meanwhile."""
    if queryset.query.is_sliced or queryset.query.combinator:
        ids = sorted(set(queryset.values_list("pk", flat=True)))
        yield from (ids[at : at + BATCH] for at in range(0, len(ids), BATCH))
        return
    # A join may return a job more than once.
    by_id = queryset.order_by("pk").values_list("pk", flat=True).distinct()
    ids = list(by_id[:BATCH])
    while ids:
        yield ids
        ids = list(by_id.filter(pk__gt=ids[-1])[:BATCH]) if len(ids) == BATCH else []


def announce_finished(model: "type[Job]", database: str, ids: Iterable[int]) -> None:
    """Announce that these jobs have ended, to listeners and receivers."""
    ids = list(ids)
    for listener in signals.end_listeners if ids else ():
        listener.ended(database, ids)
    if ids and signals.is_heard(model):
        for job in model.objects.using(database).filter(pk__in=ids).order_by("pk"):
            signals.send_end(job.status, model, job)
