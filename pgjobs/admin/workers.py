"""The admin of workers: the live processes of `runjobs`."""

from datetime import timedelta

from django.contrib import admin
from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    DurationField,
    ExpressionWrapper,
    F,
    OuterRef,
    Q,
    Subquery,
    Sum,
    TextChoices,
    Value,
    When,
)
from django.db.models.functions import Coalesce, Now
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..features import entries
from ..models.job import Job
from ..models.job_choices import Status
from ..models.worker import STOP, Worker
from .acting import ActingAdmin, permitted
from .links import list_url
from .listing import ReadOnly
from .markup import full, lasting, moment, short, size, status_word

LONGEST_TEXT = 2_000
# Of its interval: so much later than expected may a heartbeat be.
PATIENCE = 2.5


class Health(TextChoices):
    ALIVE = "ALIVE", _("Alive")
    LATE = "LATE", _("Late")
    LOST = "LOST", _("Lost")
    QUIET = "QUIET", _("Quiet")
    STOPPING = "STOPPING", _("Stopping")


@admin.register(Worker)
class WorkerAdmin(ReadOnly, ActingAdmin):
    """Workers. A live one makes its row; a dead one's is removed by the others."""

    list_display = (
        "short_name",
        "health_word",
        "silence",
        "running_jobs",
        "slots",
        "host_units",
        "used_memory",
        "short_queues",
        "host_and_process",
        "started",
    )
    list_display_links = ("short_name",)
    when_empty = _("No worker is alive. Start one with: manage.py runjobs")
    ordering = ("name", "id")
    acts = bulk_acts = tuple(entries("worker_acts", "ACTS"))
    has_order_permission = permitted("order_worker")
    fields = (
        "full_name",
        "health_word",
        "silence",
        "running_jobs",
        "slots",
        "host_units",
        "used_memory",
        "full_queues",
        "short_host",
        "process_id",
        "short_version",
        "started",
        "lease",
    )

    def get_fields(self, request, obj=None):
        return [*self.fields, *entries("admin", "WORKER_FIELDS")]

    def get_queryset(self, request):
        running = Job.objects.filter(worker=OuterRef("pk"), status=Status.RUNNING)
        count = running.order_by().values("worker").annotate(number=Count("pk"))
        beside = Job.objects.filter(
            worker__host=OuterRef("host"), status=Status.RUNNING
        )
        units = Sum(Coalesce("process_units", Value(1, BigIntegerField())))
        in_use = beside.order_by().values("worker__host").annotate(units=units)
        # By the clock of the database, as all that is decided about workers.
        silence = Now() - F("heartbeat_at")
        patience = F("heartbeat_interval") * Value(timedelta(seconds=PATIENCE))
        return (
            super()
            .get_queryset(request)
            .annotate(
                silent_for=ExpressionWrapper(silence, DurationField()),
                patience=ExpressionWrapper(patience, DurationField()),
                jobs_running=Coalesce(Subquery(count.values("number")), 0),
                units_in_use=Coalesce(
                    Subquery(in_use.values("units")), 0, output_field=BigIntegerField()
                ),
            )
            .annotate(
                health=Case(
                    When(lease_until__lt=Now(), then=Value(Health.LOST)),
                    When(silent_for__gt=F("patience"), then=Value(Health.LATE)),
                    When(wanted=STOP, then=Value(Health.STOPPING)),
                    When(~Q(wanted=""), then=Value(Health.QUIET)),
                    default=Value(Health.ALIVE),
                )
            )
        )

    def preview(self, act, row):
        return super().preview(act, row) | {"running": row.jobs_running}

    short_name = short("name", _("name"))
    full_name = full("name", _("name"))
    short_queues = short("described_queues", _("queues"))
    full_queues = full("described_queues", _("queues"))
    short_host = short("host", _("host"))
    short_version = short("version", _("version"))
    started = moment("started_at", _("started at"))
    lease = moment("lease_until", _("lease until"))

    @admin.display(description=_("health"))
    def health_word(self, worker: Worker) -> str:
        return status_word(worker.health.lower(), Health(worker.health).label)

    @admin.display(description=_("last sign of life"))
    def silence(self, worker: Worker) -> str:
        text = gettext("%(age)s ago")
        return text % {"age": lasting(max(worker.silent_for, timedelta(0)))}

    @admin.display(description=_("running jobs"))
    def running_jobs(self, worker: Worker) -> str:
        url = list_url("job", self.admin_site, worker=worker.pk)
        return format_html('<a href="{}">{}</a>', url, worker.jobs_running)

    @admin.display(description=_("process units of the host"))
    def host_units(self, worker: Worker) -> str:
        if worker.units is None:
            return self.get_empty_value_display()
        values = {"used": worker.units_in_use, "units": worker.units}
        return gettext("%(used)d of %(units)d in use") % values

    @admin.display(description=_("memory"))
    def used_memory(self, worker: Worker) -> str:
        return size(worker.memory) or self.get_empty_value_display()

    @admin.display(description=_("host"))
    def host_and_process(self, worker: Worker) -> str:
        return format_html("{} ({})", self.short_host(worker), str(worker.pid))

    @admin.display(description=_("process id"))
    def process_id(self, worker: Worker) -> str:
        return str(worker.pid)  # an id, not a number to be grouped by thousands
