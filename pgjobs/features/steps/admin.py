"""The steps on the page of a job."""

from typing import Any

from ...admin.details import LONGEST_LINE, Lineage, beginning, json_block
from ...admin.markup import exactly
from ...admin.searching import may_see_arguments
from ...models.job import Job
from ...reports.task_words import with_own
from ...reports.texts import excerpt
from ...tasks.sensitive import sensitive_words
from ..encryption.sealing import without_wholes
from .tables import Step

MOST_STEPS = 200
LONGEST_STEP_RESULT = 2_000


def job_context(request, job: Job, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return the context for the template: `steps.html`."""
    steps = list(steps_of(job, may_see_arguments(request)))
    return {
        "steps": steps[:MOST_STEPS],
        "hidden_steps": len(steps) > MOST_STEPS,
        "most_steps": MOST_STEPS,
    }


def steps_of(job: Job, may_see_results: bool):
    """Return the latest steps of all lives, one more than the page shows."""
    rows = Step.objects.filter(job_id=job.pk).defer("return_value")
    if may_see_results:
        rows = rows.annotate(result=beginning("return_value", LONGEST_STEP_RESULT))
    words = with_own(sensitive_words(job.task), job.own_words)
    for step in rows.order_by("-life", "-finished_at", "-pk")[: MOST_STEPS + 1]:
        step.shown_name = excerpt(step.name, LONGEST_LINE)
        step.shown_end = exactly(step.finished_at)
        if may_see_results and step.result is not None:
            text = without_wholes(step.result)
            step.shown_result = json_block(text, words, LONGEST_STEP_RESULT)
        yield step


JOB_CONTEXTS = (job_context,)
