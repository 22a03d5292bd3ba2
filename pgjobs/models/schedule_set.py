"""What many schedules can be asked for, or told, at once."""

from typing import TYPE_CHECKING, Any

from django.db import transaction

from ..base.queue_database import QueueManager, QueueSet, database_time, declare_alone
from .schedule_units import UNITS, as_declared

if TYPE_CHECKING:
    from .schedule import Schedule


BATCH = 1_000  # rows that one statement stores
# What `Schedule.take_over` sets.
DECLARED_FIELDS = [
    "task",
    *(field for unit in UNITS.values() for field in unit.fields),
    "declared",
    "orphaned",
    "origin_at",
    "next_run_at",
    "error",
]


class ScheduleQuerySet(QueueSet["Schedule"]):
    def active(self):
        """Filter those that fire when their time comes."""
        return self.filter(paused=False, orphaned=False)

    def declared(self):
        """Filter those that the code declares, or once did."""
        return self.filter(declared__isnull=False)

    def pause(self) -> int:
        """Stop schedules from firing until they are resumed; return how many."""
        return self.filter(paused=False).update(paused=True)

    def resume(self) -> int:
        """Make paused schedules fire again, from the next tick on; return how many."""
        schedules, resumed = self.to_change(), 0
        now = database_time(schedules.db)
        for schedule in schedules.filter(paused=True):
            schedule.plan_next(now)
            resumed += schedules.filter(pk=schedule.pk, paused=True).update(
                paused=False,
                next_run_at=schedule.next_run_at,
                error=schedule.error,
            )
        return resumed


class ScheduleManager(
    QueueManager.from_queryset(ScheduleQuerySet)  # type: ignore[misc]
):
    def declare(
        self, declared: dict[str, dict[str, Any]], others_go: bool = True
    ) -> None:
        """Store what the code declares: {name: {"task": ..., field: value}}.

        Fields that were changed by hand stay changed. `others_go`: whether the other
        schedules that code once declared are orphaned. Several processes may do so at
        the same time.
        """
        if not self.differences(declared, others_go):
            return
        with transaction.atomic(using=self.db):
            declare_alone(self.db)
            names = self.differences(declared, others_go)
            rows = self.filter(name__in=names & declared.keys()).select_for_update()
            stored: dict[str, Schedule] = {each.name: each for each in rows}
            now = database_time(self.db)
            changed = []
            for name in sorted(names & declared.keys()):
                schedule = stored.get(name) or self.model(name=name)
                schedule.take_over(declared[name], now)
                changed.append(schedule)
            # There may be thousands.
            self.bulk_create(
                changed,
                BATCH,
                update_conflicts=True,
                unique_fields=["name"],
                update_fields=DECLARED_FIELDS,
            )
            gone = names - declared.keys()
            self.declared().filter(name__in=gone).update(orphaned=True)

    def differences(
        self, declared: dict[str, dict[str, Any]], others_go: bool
    ) -> set[str]:
        """Return the names of the schedules whose rows `declare` would change."""
        active = self.declared().filter(orphaned=False)
        rows = active.values_list("name", "task", "declared")
        stored = {name: (task, values) for name, task, values in rows}
        changed = {
            name
            for name, values in declared.items()
            if stored.get(name) != (values["task"], as_declared(values))
        }
        return changed | (stored.keys() - declared.keys() if others_go else set())
