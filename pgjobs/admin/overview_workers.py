"""The workers on the overview, and what they run."""

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..models import Job
from ..reports import status
from ..reports.running_jobs import RunningNow, running_jobs
from ..reports.texts import excerpt
from .markup import LONGEST_CELL, ago, size
from .overview_links import Links, Table
from .overview_words import health, name_of_task, slots


class WorkerTable(Links):
    def workers(self, state: status.Overview) -> Table | None:
        if not self.may_view("worker"):
            return None
        columns = (
            _("Worker"),
            _("State"),
            _("Running"),
            _("What it runs now"),
            _("Memory"),
            _("Queues"),
        )
        ids = [each.id for each in state.workers]
        now = running_jobs(Job.objects.db, ids)
        rows = [
            (
                self.link("worker", each.id, excerpt(each.name, LONGEST_CELL)),
                health(each),
                self.list_link("job", slots(each), worker=each.id),
                self.runs(now.get(each.id, []), each.running),
                size(each.memory),
                excerpt(each.queues, LONGEST_CELL),
            )
            for each in state.workers
        ]
        otherwise = _("No worker is alive. Start one with: manage.py runjobs")
        return Table(_("Workers"), columns, rows, otherwise)

    def runs(self, jobs: list[RunningNow], number: int) -> str:
        """Return which jobs a worker runs, and since when."""
        lines = [self.run(job) for job in jobs]
        if number > len(jobs):
            more = gettext("and %(number)d more")
            lines.append(more % {"number": number - len(jobs)})
        return format_html_join("", "<div>{}</div>", ((each,) for each in lines))

    def run(self, job: RunningNow) -> str:
        name = name_of_task(f"{job.task} #{job.id}")
        return format_html("{} {}", self.link("job", job.id, name), ago(job.since))
