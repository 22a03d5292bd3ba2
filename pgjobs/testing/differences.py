"""What a failed assertion says: the nearest jobs, and in what they differ."""

from collections import Counter
from collections.abc import Sequence

from ..conf import settings
from ..models import Job
from ..models.job_choices import QUEUED
from .clock import clock_ahead
from .execution import waiting_hooks
from .expectations import Expected
from .seen import seen_jobs

MOST_SHOWN = 5
LONGEST_ARGUMENTS = 100  # characters


def missing_text(expected: Expected, fitting: Sequence[Job], count: int | None) -> str:
    """Return why `assert_enqueued` fails."""
    jobs = seen_jobs()
    names = () if expected.task is None else expected.task.names
    own = [job for job in jobs if not names or job.task in names]
    if fitting:
        head = (
            f"{len(fitting)} jobs in the queue, and not {count}, are like {expected}:"
        )
        return text_of(head, [f"  {described(job)}" for job in fitting[:MOST_SHOWN]])
    if not own:
        others = Counter(job.task for job in jobs if job.status in QUEUED)
        return text_of(f"No job of {expected} was enqueued.", [others_text(others)])
    wanted = "No job" if count is None else f"Not one of {count} jobs"
    head = f"{wanted} in the queue is like {expected}."
    near = sorted(own, key=lambda job: len(faults(expected, job)))[:MOST_SHOWN]
    shown = f"The nearest of {len(own)}:" if len(own) > len(near) else "There are:"
    return text_of(head, [shown, *(compared(expected, job) for job in near)])


def unwanted_text(expected: Expected, fitting: Sequence[Job]) -> str:
    """Return why `refute_enqueued` fails."""
    head = f"The queue has what it should not have, {expected}:"
    lines = [f"  {described(job)}" for job in fitting[:MOST_SHOWN]]
    if len(fitting) > MOST_SHOWN:
        lines.append(f"  and {len(fitting) - MOST_SHOWN} more")
    return "\n".join([head, *lines])


def faults(expected: Expected, job: Job) -> list[str]:
    found = list(expected.differences(job))
    if job.status not in QUEUED:
        found.append(f"it is {job.status}, and so no longer in the queue")
    return found


def compared(expected: Expected, job: Job) -> str:
    return f"  {described(job)}\n      {'; '.join(faults(expected, job))}"


def described(job: Job) -> str:
    arguments = [repr(each) for each in job.args]
    arguments += [f"{name}={value!r}" for name, value in job.kwargs.items()]
    text = ", ".join(arguments)
    if len(text) > LONGEST_ARGUMENTS:
        text = text[:LONGEST_ARGUMENTS] + "..."
    return f"#{job.pk} {job.status} {job.task}({text})"


def others_text(others: Counter[str]) -> str:
    if not others:
        return "The queue is empty."
    listed = ", ".join(f"{number} of {task}" for task, number in others.most_common(10))
    return f"The queue has {listed}."


def text_of(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *lines, *hints()])


def hints() -> list[str]:
    """Return what may have caused the difference."""
    found = []
    if number := waiting_hooks():
        found.append(
            f"{number} function(s) given to transaction.on_commit have not been "
            "called, because a TestCase never commits: see "
            "TestCase.captureOnCommitCallbacks(execute=True)."
        )
    if settings.MODE == "inline":
        found.append(
            'In the mode "inline" jobs run at once and leave the queue: use '
            "capture_jobs() to see what was enqueued."
        )
    if difference := clock_ahead(settings.DATABASE):
        found.append(
            f"Python's clock is {abs(difference)} "
            f"{'ahead of' if difference.days >= 0 else 'behind'} the database's, by "
            "which timedeltas are added to the present."
        )
    return found
