"""What operators may do to a worker, on its page and on the list of workers."""

from collections.abc import Callable

from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from ...admin.acts import Act
from ...admin.forms import ActForm, line_of_text
from ...admin.workers import Health
from ...models.worker import QUIET, STOP, Worker
from ...queue.acts import Changed
from .queue import order


class OrderForm(ActForm):
    audit_note = line_of_text(_("Note"), _("Why. Shown in the audit trail."))


def ordering(wanted: str) -> Callable[..., Changed]:
    """Return the act that asks workers for this."""

    def run(workers) -> Changed:
        ids = list(workers.values_list("pk", flat=True))
        changed = order(Worker.objects.db_to_write, ids, wanted)
        return Changed(changed, len(ids) - changed)

    return run


def is_there(worker: Worker) -> bool:
    return getattr(worker, "health", "") != Health.LOST


UNCHANGED = _("%(name)s has ended, or was already told so.")
SKIPPED = ngettext_lazy(
    "%(count)d worker was skipped: it has ended, or was already told so.",
    "%(count)d workers were skipped: they have ended, or were already told so.",
    "count",
)
GO_ON = _("Its running jobs go on until they end.")
QUIET_ACT = Act(
    verb="quiet",
    permission="order",
    run=ordering(QUIET),
    is_offered=lambda worker: worker.wanted == "" and is_there(worker),
    form=OrderForm,
    label=_("Quiet"),
    bulk_label=_("Quiet selected workers"),
    effect=_(
        "The worker claims no more jobs, and stays until it is resumed or stopped. Its "
        "queues wait unless another worker serves them."
    ),
    effect_on_running=GO_ON,
    done=ngettext_lazy(
        "%(name)s claims no more jobs.", "%(name)s claim no more jobs.", "count"
    ),
    skipped=SKIPPED,
    unchanged=UNCHANGED,
)
RESUME_ACT = Act(
    verb="resume",
    permission="order",
    run=ordering(""),
    is_offered=lambda worker: worker.wanted == QUIET and is_there(worker),
    form=OrderForm,
    label=_("Resume"),
    bulk_label=_("Resume selected workers"),
    effect=_("The worker claims jobs again."),
    done=ngettext_lazy(
        "%(name)s claims jobs again.", "%(name)s claim jobs again.", "count"
    ),
    skipped=SKIPPED,
    unchanged=UNCHANGED,
)
STOP_ACT = Act(
    verb="stop",
    is_harmful=True,
    permission="order",
    run=ordering(STOP),
    is_offered=lambda worker: worker.wanted != STOP and is_there(worker),
    form=OrderForm,
    label=_("Stop"),
    bulk_label=_("Stop selected workers"),
    effect=_(
        "The worker claims no more jobs and ends, as after SIGTERM. Whatever started "
        "it, such as systemd, Kubernetes or runjobs --processes, may start another one."
    ),
    effect_on_running=_(
        "Its running jobs have its grace (--grace) to end. The others return to the "
        "queue."
    ),
    done=ngettext_lazy("%(name)s stops.", "%(name)s stop.", "count"),
    skipped=SKIPPED,
    unchanged=UNCHANGED,
)

ACTS = (QUIET_ACT, RESUME_ACT, STOP_ACT)
