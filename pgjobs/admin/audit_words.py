"""Entries of the audit trail, in the reader's language."""

from typing import Any

from django.apps import apps
from django.utils.translation import gettext, pgettext_lazy

from ..models import AuditEntry

# The database holds the key. An act that is missing here is shown as it is stored.
ACTS: dict[str, Any] = {
    "add": pgettext_lazy("audit trail", "add"),
    "cancel": pgettext_lazy("audit trail", "cancel"),
    "change": pgettext_lazy("audit trail", "change"),
    "delete": pgettext_lazy("audit trail", "delete"),
    "enqueue": pgettext_lazy("audit trail", "enqueue"),
    "export": pgettext_lazy("audit trail", "export"),
    "fail": pgettext_lazy("audit trail", "fail"),
    "import": pgettext_lazy("audit trail", "import"),
    "move": pgettext_lazy("audit trail", "move"),
    "mute": pgettext_lazy("audit trail", "mute"),
    "pause": pgettext_lazy("audit trail", "pause"),
    "prune": pgettext_lazy("audit trail", "prune"),
    "redeliver": pgettext_lazy("audit trail", "redeliver"),
    "redeliver_all": pgettext_lazy("audit trail", "redeliver to all"),
    "replay": pgettext_lazy("audit trail", "replay"),
    "resume": pgettext_lazy("audit trail", "resume"),
    "retry": pgettext_lazy("audit trail", "retry"),
    "run": pgettext_lazy("audit trail", "run"),
    "run_again": pgettext_lazy("audit trail", "run again"),
    "run_now": pgettext_lazy("audit trail", "run now"),
    "succeed": pgettext_lazy("audit trail", "succeed"),
    "unmute": pgettext_lazy("audit trail", "unmute"),
}


def act_in_words(entry: AuditEntry) -> str:
    """Say what was done to what, such as "retry job #4"."""
    values = {
        "act": ACTS.get(entry.act, entry.act),
        "model": name_of_model(entry.model),
        "id": entry.object_id,
    }
    if entry.object_id is None:
        return gettext("%(act)s %(model)s") % values
    return gettext("%(act)s %(model)s #%(id)s") % values


def name_of_model(name: str) -> Any:
    try:
        return apps.get_model("pgjobs", name)._meta.verbose_name
    except LookupError:  # only SQL could store it
        return name
