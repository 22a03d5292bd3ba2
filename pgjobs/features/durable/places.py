"""Where jobs wait: their open waits and sleeps, one by one or counted."""

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, F, Max, Min, QuerySet, TextField
from django.db.models.functions import Cast, Coalesce, Now

from ...base.moments import instant
from ...models.job import Job
from ...models.job_choices import Status
from ...models.job_set import JobQuerySet
from ...reports.task_words import OWN
from ...reports.texts import excerpt, one_line
from ...tasks.sensitive import hiding_arguments
from ..operating.choosing import moment
from ..steps.tables import Step
from .tables import Wait

SLEEP = "sleep"  # beside the kinds of waits
LONGEST_CELL = 60
MOST_NAMED = 5  # jobs that a cell names
TITLES = ("job", "task", "name", "waits for", "since", "until", "who or what")
GROUP_TITLES = ("jobs", *TITLES[1:4], "since", "until", TITLES[6])


class Place(NamedTuple):
    """One way in which one job waits."""

    job: int
    task: str
    name: str  # of the wait or sleep
    label: str  # of the way, if there are several
    kind: str
    since: datetime | None  # None: it sleeps
    until: datetime
    permission: str | None = None
    event: str | None = None
    aggregate_id: str | None = None
    asked: Any = None

    @property
    def title(self) -> str | None:
        """The question, for people."""
        title = self.asked.get("title") if isinstance(self.asked, dict) else None
        return str(title) if title else None

    @property
    def jobs(self) -> list[Any]:
        """The ids of the jobs for which it waits."""
        return self.asked if isinstance(self.asked, list) else []

    def row(self) -> tuple:
        more = ", ..." if len(self.jobs) > MOST_NAMED else ""
        jobs = ", ".join(map(str, self.jobs[:MOST_NAMED])) + more
        aggregate = f"{self.event} {self.aggregate_id}" if self.aggregate_id else None
        what = self.permission or aggregate or self.event or jobs
        return (self.job, *cells(self, what))

    def as_json(self) -> dict[str, Any]:
        """Return what programs read. What is asked for has its schema, too."""
        schema = self.asked.get("schema") if isinstance(self.asked, dict) else None
        return {
            **self._asdict(),
            "since": self.since and instant(self.since).isoformat(),
            "until": instant(self.until).isoformat(),
            "asked": None,
            "title": self.title,
            "jobs": self.jobs,
            "schema": schema,
        }


class Group(NamedTuple):
    """How many jobs wait in one place of a task."""

    task: str
    name: str
    label: str
    kind: str
    what: str | None
    number: int
    since: datetime | None
    until: datetime

    def row(self) -> tuple:
        return (self.number, *cells(self, self.what or ""))


def cells(place: Place | Group, what: str) -> tuple[str, ...]:
    """Return the cells of a row behind its first. `what` is what is waited for."""
    name = f"{place.name} ({place.label})" if place.label else place.name
    return (
        one_line(place.task),
        one_line(name),
        place.kind,
        moment(place.since),
        moment(place.until),
        excerpt(what, LONGEST_CELL),
    )


class Places:
    """The places where the jobs of a set wait."""

    def __init__(self, alias: str, jobs: JobQuerySet):
        self.alias = alias
        self.waits = open_waits(alias).filter(job__in=jobs)
        self.sleeps = sleeps(alias).filter(job__in=jobs)

    def each(self, most: int) -> list[Place]:
        """Return at most so many places: waits, the oldest first, and then sleeps."""
        asked = ("permission", "event", "aggregate_id", "asked")
        columns = ("job_id", "job__task", "name", "label", "kind", "opened_at")
        waits = self.waits.order_by("opened_at", "pk")
        found = [*waits.values_list(*columns, "deadline", *asked)[:most]]
        places = self.masked([Place(*values) for values in found])
        sleeps = self.sleeps.order_by("finished_at", "pk")
        rows = sleeps.values_list("job_id", "job__task", "name", "finished_at")
        for id, task, name, until in rows[: most - len(found)]:
            places.append(Place(id, task, name, "", SLEEP, None, until))
        return places

    def masked(self, places: list[Place]) -> list[Place]:
        """Mask the sensitive arguments of the jobs in what their waits say."""
        ids = [place.job for place in places if place.aggregate_id or place.title]
        texts = (Cast(column, TextField()) for column in ("args", "kwargs"))
        jobs = Job.objects.using(self.alias).filter(pk__in=ids)
        arguments = {id: rest for id, *rest in jobs.values_list("pk", *texts, OWN)}
        return [
            with_mask(place, arguments[place.job]) if place.job in arguments else place
            for place in places
        ]

    def groups(self) -> list[Group]:
        """Count the jobs by place, the places with the most first."""
        what = Coalesce("permission", "event")
        waits = self.waits.order_by().values_list(
            "job__task", "name", "label", "kind", what
        )
        waits = waits.annotate(Count("pk"), Min("opened_at"), Max("deadline"))
        groups = [Group(*values) for values in waits]
        sleeps = self.sleeps.order_by().values_list("job__task", "name")
        for task, name, *counts in sleeps.annotate(Count("pk"), Max("finished_at")):
            number, until = counts
            groups.append(Group(task, name, "", SLEEP, None, number, None, until))
        return sorted(groups, key=lambda group: (-group.number, group[:4]))


def open_waits(alias: str) -> QuerySet:
    """Return the open waits of unfinished jobs: some ended ones keep theirs a while."""
    waits = Wait.objects.using(alias).filter(ended_at=None, job__finished_at=None)
    return waits.filter(life=F("job__life"))


def sleeps(alias: str) -> QuerySet:
    """Return the steps that are sleeps of jobs which are asleep."""
    steps = Step.objects.using(alias).filter(finished_at__gt=Now())
    return steps.filter(
        life=F("job__life"), job__status=Status.SCHEDULED, job__attempts__gt=0
    )


def with_mask(place: Place, arguments: list[Any]) -> Place:
    hide = hiding_arguments(place.task, *arguments)
    asked = place.asked
    if place.title:
        asked = {**asked, "title": hide(place.title)}
    aggregate_id = place.aggregate_id and hide(place.aggregate_id)
    return place._replace(aggregate_id=aggregate_id, asked=asked)
