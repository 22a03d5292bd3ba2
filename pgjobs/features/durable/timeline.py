"""What the timeline of a job says of its waits."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from .people import names_of
from .tables import Answer, Wait

MOST_WAITS = 200  # that the timeline shows


def moments_of(job: Any) -> Iterator[tuple[datetime, str, str]]:
    """Yield when a job began to wait and ended, who answered, and how it goes on."""
    if job.first_id is not None:
        text = _("Goes on for job %(id)s")
        yield job.enqueued_at, "ready", text % {"id": job.first_id}
    if job.continued_as is not None and job.finished_at is not None:
        text = _("Goes on as job %(id)s")
        yield job.finished_at, "ready", text % {"id": job.continued_as}
    if not job.attempts:  # a task that has not begun has asked nothing
        return
    waits = Wait.objects.using(job._state.db).filter(job=job.pk, life__gt=0)
    for wait in waits.order_by("-pk")[:MOST_WAITS]:
        has_label = wait.label and wait.label != wait.name
        what = f"{wait.name} ({wait.label})" if has_label else wait.name
        text = _("Waits for %(what)s: %(name)s")
        values = {"what": wait.get_kind_display(), "name": what}
        yield wait.opened_at, "waiting", text % values
        if wait.ended_at is not None:
            yield wait.ended_at, "ready", _("Has waited: %(name)s") % {"name": what}
    yield from answers_of(job)


def answers_of(job: Any) -> Iterator[tuple[datetime, str, str]]:
    answers = Answer.objects.using(job._state.db).filter(job=job.pk).defer("value")
    answers = list(answers.order_by("-pk")[:MOST_WAITS])
    names = names_of(answer.answered_by for answer in answers)
    for answer in answers:
        text, by = _("Answered: %(name)s"), answer.answered_by
        if by in names:
            text = _("Answered by %(user)s: %(name)s")
        elif by is not None:
            text = _("Answered by user %(user)s: %(name)s")
        values = {"name": answer.name, "user": names.get(by, by)}
        yield answer.answered_at, "ready", text % values


MOMENTS = (moments_of,)
