"""What operators may do to jobs with steps: go on after them, and mark one as done."""

from collections.abc import Iterable, Iterator
from typing import Any

from django import forms
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ...admin.acts import RETRY, SKIPPED_OR_TAKEN, Act, Noted
from ...admin.forms import ActForm, JsonField, NotedForm, ResultField
from ...base.plain_json import dump
from ...conf import FINISHED
from ...models.job import Job
from ...models.job_choices import Status
from ...models.job_set import JobQuerySet
from ...reports.texts import excerpt
from ..steps.running_job import LARGEST_RESULT, LONGEST_NAME
from ..steps.tables import Step, number_without
from .answering import mark_step
from .places import open_waits, sleeps
from .tables import Kind, Wait

MOST_LOOKED_AT = 10_000  # jobs of a selection
LONGEST_SHOWN = 60  # characters of a name
MOST_SHOWN = 20  # steps that a sentence names


def is_done(attempts: Any) -> Q:
    """Match the steps that are done; `attempts`: how often this life was started.

    A sleep ends with its time, or with any start of the job after it, as by *Run now*.
    """
    return Q(finished_at__lte=Now()) | Q(attempt__lt=attempts)


# Of each row of a page. PostgreSQL cannot make one table in memory of this, as it might
# of EXISTS: it would read all steps. It belongs to no database: each page has its own.
DONE = QuerySet(Step).filter(
    is_done(OuterRef("attempts")), job_id=OuterRef("pk"), life=OuterRef("life")
)
HAS_BEGUN = Q(attempts__gt=0) | Q(life__gt=1)
COLUMNS = (("some_step", Case(When(HAS_BEGUN, then=Subquery(DONE.values("pk")[:1])))),)


def has_steps(job: Job) -> bool:
    """Whether a row that the admin has read has steps that are done."""
    return getattr(job, "some_step", None) is not None


# Go on


class GoOnForm(NotedForm):
    until = forms.CharField(
        label=gettext_lazy("Repeat from step"),
        required=False,
        max_length=LONGEST_NAME,
        help_text=gettext_lazy(
            "The steps before this one are kept. Empty: all that are done are kept."
        ),
    )

    def suggest(self, row: Any) -> None:
        """Offer the steps of the job."""
        none = _("none: go on after the last one")
        names = ((name, excerpt(name, LONGEST_SHOWN)) for name in kept_by(row)[0])
        self.fields["until"].widget = forms.Select(choices=[("", none), *names])

    @property
    def for_audit(self) -> str:
        until, note = self.cleaned_data["until"], super().for_audit
        return " ".join(filter(None, (f"until {until}" if until else "", note)))


def go_on(jobs: JobQuerySet, until: str = "") -> Noted:
    """Retry jobs with the steps that they have done, or those before a step."""
    lacking = number_without(jobs, until) if until else 0
    changed = Noted(*jobs.retry(keep_steps=True, until=until or None))
    if lacking and changed.changed:
        changed.note = ngettext(
            "%(count)d job had not done the step “%(step)s”: it keeps all its steps.",
            "%(count)d jobs had not done the step “%(step)s”: they keep all their "
            "steps.",
            lacking,
        ) % {"count": lacking, "step": excerpt(until, LONGEST_SHOWN)}
    return changed


GO_ON = Act(
    verb="go_on",
    permission="retry",
    run=go_on,
    statuses=FINISHED,
    is_offered=lambda job: (
        has_steps(job) and job.status in (Status.FAILED, Status.CANCELLED)
    ),
    form=GoOnForm,
    leads_to=Status.READY,
    skipped=SKIPPED_OR_TAKEN,
    label=gettext_lazy("Go on after the last step"),
    bulk_label=gettext_lazy("Let selected jobs go on after their last step"),
    effect=gettext_lazy(
        "Finished jobs return to the queue with all their attempts. The steps that "
        "they have done are kept, with their results; what comes after them runs."
    ),
    done=gettext_lazy("Retried %(name)s and kept the steps done."),
)


# Mark a step


class StepResultField(JsonField):
    refusal = ResultField.refusal

    def check_data(self, data: Any) -> None:
        super().check_data(data)
        size = len(dump(data).encode())
        if size > LARGEST_RESULT:
            raise ValueError(f"is {size} bytes of JSON, more than {LARGEST_RESULT}")


class MarkForm(ActForm):
    name = forms.CharField(
        label=gettext_lazy("Step"),
        max_length=LONGEST_NAME,
        strip=False,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )
    value = StepResultField(
        label=gettext_lazy("Result"),
        required=False,
        help_text=gettext_lazy(
            "JSON, such as 42 or {&quot;pages&quot;: 3}; empty for none."
        ),
    )

    def suggest(self, row: Any) -> None:
        """Name where the job stands."""
        names = sorted({*where(open_waits, row), *where(sleeps, row)})
        field = self.fields["name"]
        field.initial = names[0] if len(names) == 1 else None
        field.help_text = _("The name of a step, a sleep or a wait in the task.")

    @property
    def for_audit(self) -> str:
        return self.cleaned_data["name"]


def where(places: Any, job: Job) -> QuerySet:
    alias = job._state.db
    return places(alias).filter(job=job.pk).values_list("name", flat=True)


def mark(jobs: JobQuerySet, name: str, value: Any) -> Noted:
    """Mark a step of the job in the set as done."""
    job = jobs.get()
    is_changed = mark_step(job, name, value)
    changed = Noted(int(is_changed), int(not is_changed))
    changed.note = _("Step: %(step)s") % {"step": excerpt(name, LONGEST_SHOWN)}
    return changed


MARK_STEP = Act(
    verb="mark_step",
    permission="fail",
    run=mark,
    is_offered=lambda job: (
        job.status not in (Status.RUNNING, Status.SUCCESSFUL)
        and (has_steps(job) or job.waiting_for in Kind.values)
    ),
    form=MarkForm,
    label=gettext_lazy("Mark step as done"),
    effect=gettext_lazy(
        "The step, sleep or wait counts as done with this result, and does not run. A "
        "job that waits there goes on. One that has ended stays so until it is retried "
        "after its last step."
    ),
    done=gettext_lazy("Marked a step of %(name)s as done."),
    unchanged=gettext_lazy(
        "%(name)s was not changed: it runs, or this step is done already."
    ),
)


# What confirmation pages say


def kept_by(job: Job) -> tuple[list[str], list[str]]:
    """Return the steps that a retry after the last step keeps, and the others."""
    wait = Wait.objects.filter(
        job_id=OuterRef("job_id"), life=OuterRef("life"), name=OuterRef("name")
    )
    is_kept = is_done(job.attempts) & (Q(return_value__isnull=False) | ~Exists(wait))
    steps = Step.objects.using(job._state.db).filter(job=job.pk, life=job.life)
    rows = steps.annotate(is_kept=is_kept).order_by("pk")
    names: tuple[list[str], list[str]] = ([], [])
    for name, kept in rows.values_list("name", "is_kept"):
        names[not kept].append(name)
    return names


def notes_of(act: Act, job: Job) -> Iterator[str]:
    """Yield what a retry does with the steps of the job."""
    if act not in (RETRY, GO_ON) or not has_steps(job):
        return
    kept, others = kept_by(job)
    if act is RETRY:
        yield _("These steps run again: %(names)s.") % {"names": listed(kept + others)}
        return
    if kept:
        yield _("These steps are kept: %(names)s.") % {"names": listed(kept)}
    if others:
        text = _("These waits and sleeps begin again: %(names)s.")
        yield text % {"names": listed(others)}


def notes_of_many(act: Act, jobs: JobQuerySet) -> Iterator[str]:
    """Yield what a retry does with the steps of the jobs."""
    if act not in (RETRY, GO_ON):
        return
    some = jobs.filter(status__in=act.statuses).order_by().some(MOST_LOOKED_AT)
    number = some.filter(Exists(DONE)).count()
    is_all = some.count() < MOST_LOOKED_AT
    values = {"count": f"{number:,}" if is_all else f"{number:,}+"}
    if act is GO_ON:
        yield _("Done steps are kept. Of these jobs, %(count)s have some.") % values
    elif number:
        yield _("Done steps run again. Of these jobs, %(count)s have some.") % values


def listed(names: Iterable[str]) -> str:
    names = [excerpt(name, LONGEST_SHOWN) for name in names]
    more = ", …" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


RETRIES = (GO_ON,)
ACTS = (MARK_STEP,)
NOTES = (notes_of,)
NOTES_OF_MANY = (notes_of_many,)
