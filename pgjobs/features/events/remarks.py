"""Events that no task has handled, and that operators have to decide about."""

from django.utils.translation import ngettext

from ...reports.remarks import REMARK, Alert, Remark, Seen
from ...reports.status import MOST_COUNTED, capped
from .tables import Event


def dead_letters(seen: Seen, _) -> list[Remark]:
    number = Event.objects.using(seen.database).dead()[:MOST_COUNTED].count()
    if not number:
        return []
    text = ngettext(
        "%(number)s event is a dead letter: a task has failed to handle it.",
        "%(number)s events are dead letters: tasks have failed to handle them.",
        number,
    )
    shown = {"number": capped(number)}
    return [Remark(text % shown, "event", filters={"state": "DEAD"})]


ALERTS = (
    Alert(
        "dead_letters",
        "Events have a delivery that has failed for good.",
        dead_letters,
        level=REMARK,
    ),
)
