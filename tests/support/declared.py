"""What this process declares, stored at once and for the whole truth, as tests like it.

So tests of tasks, schedules or events need no other versions of the code.
"""

from pgjobs.features.definitions import definitions
from pgjobs.features.events import declare as events
from pgjobs.features.events.manifest import deliver_missed
from pgjobs.features.schedules import declare as schedules
from pgjobs.models import Schedule, Subscription


def store_definitions(database: str = "default") -> None:
    definitions.sync(database, definitions.declared())


def store_schedules(database: str = "default") -> None:
    declared = schedules.declared(database)
    Schedule.objects.db_manager(database).declare(declared)


def store_subscriptions(database: str = "default") -> None:
    subscriptions = Subscription.objects.db_manager(database)
    returned = subscriptions.declare(events.declared())
    deliver_missed(database, returned)
