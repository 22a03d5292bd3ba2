"""What this process declares, stored at once and for the whole truth, as tests like it.

So tests of tasks, schedules or events need no other versions of the code.
"""

from pgjobs.models import Schedule, Subscription, TaskDefinition
from pgjobs.tasks import declaring, definitions, events, schedules


def store_definitions(database: str = "default") -> None:
    TaskDefinition.objects.db_manager(database).sync(definitions.declared())


def store_schedules(database: str = "default") -> None:
    declared = schedules.declared(database)
    Schedule.objects.db_manager(database).declare(declared)


def store_subscriptions(database: str = "default") -> None:
    subscriptions = Subscription.objects.db_manager(database)
    returned = subscriptions.declare(events.declared())
    declaring.deliver_missed(database, returned)
