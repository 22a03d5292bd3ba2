import pytest

from tests.standard import signals

BACKEND = "pgjobs.backends.PgJobsBackend"


@pytest.fixture
def use(settings):
    """Give the project other backends."""

    def use(default: dict | None = None, **others: dict):
        given = {"default": default or {}, **others}
        settings.TASKS = {
            alias: {"BACKEND": BACKEND, "QUEUES": [], **params}
            for alias, params in given.items()
        }

    return use


@pytest.fixture
def heard():
    """Collect what signals say: name, sender, id and status."""
    collected = []

    def receiver_of(name):
        def receive(sender, task_result, **kwargs):
            collected.append((name, sender, task_result.id, task_result.status))

        return receive

    receivers = {
        name: receiver_of(name)
        for name in ("task_enqueued", "task_started", "task_finished")
    }
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    yield collected
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)
