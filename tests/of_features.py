"""What tests need of features, where there are any: a plugin of pytest."""

import pytest

from pgjobs.features.events.declare import Subscribed
from pgjobs.features.schedules.options import Recurrence
from pgjobs.models import Schedule, Subscription
from pgjobs.tasks import registry
from tests.support import declared_rows
from tests.support.declared import store_subscriptions

declared_rows.install()


@pytest.fixture
def no_schedules(db):
    """Begin without the schedules of the example; none is stored nor declared."""
    registry.tasks = {
        origin: task
        for origin, task in registry.tasks.items()
        if not task.declarations[Recurrence]
    }
    Schedule.objects.all().delete()


@pytest.fixture
def no_subscriptions(db):
    """Begin without the handlers of the example; none is stored nor declared."""
    registry.tasks = {
        origin: task
        for origin, task in registry.tasks.items()
        if not task.declarations[Subscribed]
    }
    Subscription.objects.all().delete()


@pytest.fixture
def stored_handlers(db):
    """Store the handlers of the example, whose rows a committing test has emptied."""
    store_subscriptions("default")
