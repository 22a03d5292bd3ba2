"""What many schedules can be asked for, or told, at once."""

from typing import TYPE_CHECKING, Any

from django.db import transaction

from ..base.queue_database import QueueManager, QueueSet, database_time, declare_alone
from .schedule_units import as_declared

if TYPE_CHECKING:
    from .schedule import Schedule


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
    def declare(self, declared: dict[str, dict[str, Any]]) -> None:
        """Store what the code declares: {name: {"task": ..., field: value}}.

        Fields that were changed by hand stay changed. Schedules that the code no longer
        declares are orphaned. Several processes may do so at the same time.
        """
        if not self.is_news(declared):
            return
        with transaction.atomic(using=self.db):
            declare_alone(self.db)
            now = database_time(self.db)
            stored: dict[str, Schedule]
            stored = {each.name: each for each in self.select_for_update()}
            for name, values in declared.items():
                schedule = stored.get(name) or self.model(name=name)
                schedule.take_over(values, now)
                schedule.save(using=self.db)
            gone = stored.keys() - declared.keys()
            self.declared().filter(name__in=gone).update(orphaned=True)

    def is_news(self, declared: dict[str, dict[str, Any]]) -> bool:
        stored = self.declared().filter(orphaned=False)
        rows = stored.values_list("name", "task", "declared")
        return {name: (task, values) for name, task, values in rows} != {
            name: (values["task"], as_declared(values))
            for name, values in declared.items()
        }
