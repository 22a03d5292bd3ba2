"""What narrows a set of jobs: the list of the admin and `manage.py jobs` share it.

A filter takes jobs and the text that a person gave, and returns fewer jobs. It raises
InvalidFilter if the text can mean nothing.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

from django.db.models import Func, IntegerField, Model, Q
from django.db.models.expressions import RawSQL
from django.db.models.functions import Now
from django.db.models.lookups import LessThan
from django.utils.translation import gettext as _

from ..base.ids import read_id
from ..conf import FINISHED
from ..exceptions import non_negative_seconds
from ..features import entries
from ..models.job import Job
from ..models.job_choices import Status
from ..models.job_set import JobQuerySet
from ..models.worker import Worker
from .json_text import is_secret
from .newest import LOOKED_AT, MOST_FOUND, newest
from .reading import read, sql_of
from .secrets import keys_in
from .task_words import Known

Narrow = Callable[[JobQuerySet, str], JobQuerySet]

LARGE = 20_000  # bytes of arguments that are not searched
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
LONGEST_AGE = 100 * 365 * 86_400  # seconds
AGES = {"hour": "1h", "day": "1d", "week": "7d"}  # the names in addresses of the list
TERM = re.compile(r'([\w.-]{1,200}):("[^"]*"|\S+)')
# Of a GIN index that a project may make: docs/admin.md. A broken one finds nothing.
ARGUMENTS_INDEX = "pgjobs_job_arguments"
HAS_INDEX = """
SELECT EXISTS (
    SELECT FROM pg_index
    WHERE indexrelid = to_regclass(%(name)s) AND indisvalid
        AND indrelid = 'pgjobs_job'::regclass
)
"""


class InvalidFilter(ValueError):
    """A filter was given what it cannot read."""


class Filter(NamedTuple):
    """A filter that a feature brings, and how `manage.py jobs` offers it."""

    name: str
    narrow: Narrow
    option: tuple[str, str, str] | None = None  # with its metavar and its help
    named: type[Model] | None = None  # the table whose rows it names, beside their ids
    # Called with a database and a text; yields what there is instead if it finds none.
    near_misses: Callable[[str, str], Iterator[str]] | None = None


def checked(text: str) -> str:
    """Return the text; raise InvalidFilter if PostgreSQL cannot hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidFilter(_("The text holds no valid characters.")) from None
    if "\0" in text:
        raise InvalidFilter(_("The text holds a NUL character."))
    return text


def known_id(text: str) -> int:
    id = read_id(text.removeprefix("#"))
    if id is None:
        raise InvalidFilter(_("%(text)r is not an id.") % {"text": text[:80]})
    return id


def age(text: str) -> timedelta:
    """Return the duration that a text such as 90s, 15m, 72h, 7d or hour names."""
    known = AGES.get(text, text)
    number, unit = (known[:-1], known[-1]) if known[-1:] in UNITS else (known, "s")
    try:
        seconds = non_negative_seconds("it", float(number) * UNITS[unit])
    except ValueError:
        seconds = math.inf
    if seconds > LONGEST_AGE:
        problem = _("%(text)r is not a duration such as 90s, 15m, 72h or 7d.")
        raise InvalidFilter(problem % {"text": text[:80]})
    return timedelta(seconds=seconds)


# Filters with an index, or that read no more than the list does without them


def by_status(jobs: JobQuerySet, text: str) -> JobQuerySet:
    status = text.upper()
    if status not in Status.values:
        known = ", ".join(Status.values)
        problem = _("%(text)r is not a status; these are: %(known)s.")
        raise InvalidFilter(problem % {"text": text[:80], "known": known})
    return jobs.with_status(status)


def has_queue(text: str) -> Q:
    return Q(queue_name=checked(text))


def has_task(text: str) -> Q:
    return Q(task=checked(text))


def is_younger(text: str) -> Q:
    return Q(enqueued_at__gte=Now() - age(text))


# No index serves these: the list reads the newest jobs only, see `newest`.
UNINDEXED: dict[str, Callable[[str], Q]] = {
    "queue_name": has_queue,
    "task": has_task,
    "enqueued": is_younger,
}


def searching(match: Callable[[str], Q]) -> Narrow:
    return lambda jobs, text: jobs.filter(match(text))


def by_worker(jobs: JobQuerySet, text: str) -> JobQuerySet:
    """Filter by the id or the name of a worker. Only running jobs have one."""
    workers = named(Worker, jobs, text)
    # Naming the status lets PostgreSQL use its index.
    return jobs.filter(worker__in=workers, status=Status.RUNNING)


def named(model: type[Model], jobs: JobQuerySet, text: str) -> list[int]:
    """Return the id that the text gives, or the ids of the rows that it names."""
    id = read_id(text)
    if id is not None:
        return [id]
    rows = model._default_manager.using(jobs.db).filter(name=checked(text))
    return list(rows.values_list("pk", flat=True))


def ended_since(text: str) -> Q:
    return Q(finished_at__gte=Now() - age(text))


def by_ended(jobs: JobQuerySet, text: str) -> JobQuerySet:
    """Filter by the age of the end. By these statuses PostgreSQL finds the index."""
    return jobs.filter(ended_since(text), status__in=FINISHED)


def by_since(jobs: JobQuerySet, text: str) -> JobQuerySet:
    """Filter by what happened last: the end of jobs that ended, else the enqueue."""
    start = Now() - age(text)
    has_ended = Q(finished_at__gte=start)
    return jobs.filter(has_ended | Q(finished_at=None, enqueued_at__gte=start))


@cache
def filters() -> dict[str, Narrow]:
    """Return all filters of the list by their names, those of features, too."""
    return {
        "status": by_status,
        "worker": by_worker,
        "ended": by_ended,
        "since": by_since,
        **{name: searching(match) for name, match in UNINDEXED.items()},
        **{entry.name: entry.narrow for entry in entries("job_filters", "FILTERS")},
    }


# Searches in what has no index


def has_argument(key: str, text: str) -> Q:
    """Match the value of an argument; `a.b` names the key b of the object a."""
    names = checked(key).split(".")
    values = list(values_of(checked(text)))
    shown = is_shown([*names, *keys_in(values)]) & is_open_for_all(names[0])
    size = Func("kwargs", function="pg_column_size", output_field=IntegerField())
    holds = Q()
    for value in values:
        for name in reversed(names):
            value = {name: value}
        holds |= Q(kwargs__contains=value)
    return shown & Q(LessThan(size, LARGE)) & holds


def is_shown(names: list[str]) -> Q:
    """Match the jobs whose tasks mask none of these names.

    What is masked cannot be searched: a search could tell whether a guess is right. A
    name that only looks secret can be searched in the jobs of tasks that call it
    harmless.
    """
    if not any(map(is_secret, names)):
        words = set(Known.tasks.of_all().values())
        if not any(is_secret(name, each) for each in words for name in names):
            return Q()
        raise InvalidFilter(_("What is masked cannot be searched."))
    open_tasks = [
        task
        for task, words in Known.tasks.of_all().items()
        if not any(is_secret(name, words) for name in names)
    ]
    if not open_tasks:
        raise InvalidFilter(_("What is masked cannot be searched."))
    return Q(task__in=open_tasks)


def is_open_for_all(name: str) -> Q:
    """Match the jobs that have no word of their own for this argument."""
    return Q(keys__masked=None) | ~Q(keys__masked__contains=[name])


def is_open_key(kind: str) -> Q:
    """Match the jobs of tasks that make such a key of nothing that is masked."""
    return ~Q(task__in=Known.tasks.with_secret_key(kind))


def has_meta(key: str, text: str) -> Q:
    """Match what the job took along; see `PGJOBS["META"]`."""
    values = list(values_of(checked(text)))
    condition = Q()
    shown = is_shown([checked(key), *keys_in(values)])
    for value in values:
        condition |= Q(meta__contains={key: value})
    return shown & condition


def values_of(text: str) -> Iterator[Any]:
    """Yield what a text may stand for: itself, and the JSON value that it is."""
    yield text
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return
    yield value


def has_lock(text: str) -> Q:
    lock = Q(keys__isnull=False, keys__lock=checked(text))
    return lock & is_open_key("lock")


def has_unique_key(text: str) -> Q:
    return Q(unique_key=checked(text)) & is_open_key("unique_key")


def has_reason(text: str) -> Q:
    if not text.strip():
        raise InvalidFilter(_("An empty text would match every job."))
    return Q(reason__icontains=checked(text))


def has_id(text: str) -> Q:
    return Q(pk=known_id(text))


SEARCHES: dict[str, Callable[[str], Q]] = {
    "lock": has_lock,
    "unique": has_unique_key,
    "reason": has_reason,
    "id": has_id,
}
# Arguments, and the keys that are made of them, are not for everyone to see.
OPEN_SEARCHES = ("reason", "id")


class Term(NamedTuple):
    """`key:value` in the box of the list."""

    key: str
    value: str

    @property
    def is_open(self) -> bool:
        """Whether people who may not see arguments may search by it."""
        return self.key in OPEN_SEARCHES

    @property
    def is_argument(self) -> bool:
        return self.key not in SEARCHES and not self.key.startswith("meta.")

    @property
    def match(self) -> Q:
        if self.key in SEARCHES:
            return SEARCHES[self.key](self.value)
        match = has_argument(self.key, self.value)
        place, _, key = self.key.partition(".")
        return match | has_meta(key, self.value) if place == "meta" and key else match


def terms_of(text: str) -> list[Term]:
    """Return the terms that a text consists of, or none if it is anything else."""
    if TERM.sub("", text).strip():
        return []
    return [Term(key, value.strip('"')) for key, value in TERM.findall(text)]


def with_terms(
    jobs: JobQuerySet, terms: list[Term], by_end: bool = False
) -> JobQuerySet:
    """Return those of the newest jobs that match all terms. `by_end`: see `newest`."""
    match = Q(*(term.match for term in terms))
    return newest(jobs, match, LOOKED_AT, by_end).jobs


def with_arguments(jobs: JobQuerySet, terms: list[Term]) -> JobQuerySet:
    """Return those of all jobs that match all terms, by the index of arguments."""
    arguments = Q(*(term.match for term in terms if term.is_argument))
    match = Q(*(term.match for term in terms))
    return jobs.filter(match, pk__in=ids_of(jobs.db, arguments))


def uses_index(database: str, terms: list[Term]) -> bool:
    """Whether an argument is searched, and the project has made the index for it."""
    if not any(term.is_argument for term in terms):
        return False
    return read(database, HAS_INDEX, {"name": ARGUMENTS_INDEX})[0][0]


def ids_of(database: str, arguments: Q) -> RawSQL:
    """Return the ids of jobs with these arguments, MOST_FOUND at most.

    They are read first: the planner would rather walk over all jobs by id than believe
    that few have them.
    """
    jobs = JobQuerySet(Job, using=database).filter(arguments).order_by()
    text, parameters = sql_of(jobs.values_list("pk")[:MOST_FOUND])
    ids = [id for (id,) in read(database, text, parameters)]
    return RawSQL("SELECT unnest(%s::bigint[])", [ids])
