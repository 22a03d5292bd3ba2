"""The steps of a job, for `jobs show`."""

from collections.abc import Iterator

from django.db.models import TextField
from django.db.models.functions import Cast, Left

from ...models.job import Job
from ...reports.json_text import on_one_line
from ...reports.task_words import OWN, with_own
from ...reports.texts import excerpt, one_line
from ...tasks.sensitive import sensitive_words
from ..encryption.sealing import without_wholes
from ..operating.choosing import moment
from .tables import Step

MOST_STEPS = 200
LONGEST_RESULT = 300


def steps_of(alias: str, job: Job) -> Iterator[str]:
    """Yield a line for each of the latest steps, the latest first."""
    rows = Step.objects.using(alias).filter(job_id=job.pk)
    start = Left(Cast("return_value", TextField()), LONGEST_RESULT + 1)
    names = ("life", "name", "finished_at")
    steps = list(
        rows.order_by("-life", "-finished_at", "-pk").values(*names, result=start)[
            : MOST_STEPS + 1
        ]
    )
    if not steps:
        return
    own = Job.objects.using(alias).filter(pk=job.pk).values_list(OWN, flat=True)
    words = with_own(sensitive_words(job.task), own.first())
    yield "steps done:"
    for step in steps[:MOST_STEPS]:
        life = f" (life {step['life']})" if job.life > 1 else ""
        shown = on_one_line(without_wholes(step["result"] or "null"), words)
        result = "" if shown == "null" else f": {excerpt(shown, LONGEST_RESULT)}"
        name = one_line(step["name"])
        yield f"  {name}{life}, {moment(step['finished_at'])}{result}"
    if len(steps) > MOST_STEPS:
        yield "  ..."


SECTIONS = (steps_of,)
