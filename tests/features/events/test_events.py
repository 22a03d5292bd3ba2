"""Events: published iff the change is committed, delivered to each subscriber once."""

import json
import shutil
import subprocess
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from django.db import (
    DatabaseError,
    IntegrityError,
    connection,
    connections,
    transaction,
)
from django.db.models.signals import post_save
from django.http import HttpResponse
from django.test import Client, override_settings
from django.urls import path as url

from pgjobs import (
    apublish,
    current_event,
    current_job,
    enqueue,
    publish,
    subscribe,
    task,
)
from pgjobs.exceptions import InvalidEvent, InvalidTask
from pgjobs.features.events import declare as declaring
from pgjobs.features.events import queue as outbox
from pgjobs.features.events.checks import check_events
from pgjobs.features.events.tables import Origin, State
from pgjobs.models import Delivery, Event, Job, Queue, Subscription
from pgjobs.queue.slices import OLDEST
from pgjobs.signals import job_enqueued
from pgjobs.sql import statement
from pgjobs.tasks import registry
from tests import tasks
from tests.actors import Hand, admit, execute, hours, in_thread, session
from tests.plans import plan_for_old_rows
from tests.processes import (
    database_url,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
)
from tests.support.declared import store_definitions, store_subscriptions

pytestmark = [shared_queue, pytest.mark.usefixtures("no_subscriptions")]

REFRESHED = "tle.refreshed"
HANDLED = {"TASK_MODULES": ["tests.support.handled"]}


def recompute(satellite_id: int):
    return current_event()._asdict() | {"published_at": None}


def notify(satellite_id: int):
    pass


def record(**payload):
    pass


def lose(satellite_id: int):
    raise ValueError("lost")


def handler(function, event: str = REFRESHED, *, ordered_by=None, **options):
    """Declare a handler, as a tasks module does; which only the code knows."""
    made = task(**options)(function)
    return subscribe(event, ordered_by=ordered_by)(made)


def store() -> None:
    """Do what `migrate` and workers do as they start."""
    store_subscriptions("default")


@pytest.fixture
def handlers():
    """Three subscribers of one event, stored."""
    made = [handler(recompute), handler(notify), handler(record, "tle.*")]
    store()
    return made


def deliveries_of(event: Event) -> dict[str, str]:
    """Return the status of each delivery's job by its task."""
    rows = Delivery.objects.filter(event=event.pk)
    return dict(rows.values_list("task", "job__status"))


def state_of(event: Event) -> State:
    return Event.objects.with_state().get(pk=event.pk).state


# Publishing


def test_event_has_one_job_for_each_subscriber(handlers):
    event = publish(REFRESHED, {"satellite_id": 5})
    assert deliveries_of(event) == {
        "tests.recompute": "READY",
        "tests.notify": "READY",
        "tests.record": "READY",
    }
    assert set(Job.objects.values_list("kwargs__satellite_id", flat=True)) == {5}
    assert event.handlers == 3
    assert state_of(event) == State.PENDING
    drain()
    assert state_of(event) == State.DELIVERED


def test_event_that_is_published_is_the_one_that_is_stored(handlers):
    made = publish(
        REFRESHED, {"satellite_id": 5}, aggregate_id=uuid4(), correlation_id=7
    )
    stored = Event.objects.get()
    for field in Event._meta.concrete_fields:
        assert getattr(made, field.attname) == getattr(stored, field.attname)


def test_async_code_publishes_as_well(handlers):
    event = async_to_sync(apublish)(REFRESHED, {"satellite_id": 5}, aggregate_id=5)
    assert list(Event.objects.values_list("pk", "aggregate_id")) == [(event.pk, "5")]
    assert len(deliveries_of(event)) == 3


def test_publishing_is_one_statement(handlers, django_assert_num_queries):
    with django_assert_num_queries(1):
        publish(REFRESHED, {"satellite_id": 5}, aggregate_id="satellite-5")


def test_handler_knows_its_event():
    handler(recompute)
    store()
    event = publish(
        REFRESHED, {"satellite_id": 5}, aggregate_id="s-5", correlation_id="c-1"
    )
    drain()
    assert Job.objects.get().return_value == {
        "id": event.pk,
        "name": REFRESHED,
        "payload": {"satellite_id": 5},
        "published_at": None,
        "aggregate_id": "s-5",
        "correlation_id": "c-1",
    }


async def ask_async(**payload):
    return current_event().id


def test_async_handler_knows_its_event():
    handler(ask_async)
    store()
    event = publish(REFRESHED)
    drain()
    assert Job.objects.get().return_value == event.pk


def test_job_without_event_says_so():
    made = handler(recompute, max_attempts=1)
    job = enqueue(made, 5)
    drain()
    job.refresh_from_db()
    assert "in a job that delivers no event" in job.reason
    with pytest.raises(RuntimeError, match="outside of a job"):
        current_event()


def typed(at: datetime, day: date, price: Decimal, id: UUID):
    return [type(each).__name__ for each in (at, day, price, id)]


def test_values_arrive_as_the_hints_of_the_handler_say():
    handler(typed)
    store()
    values = {
        "at": datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC),
        "day": date(2026, 11, 21),
        "price": Decimal("1.10"),
        "id": uuid4(),
    }
    publish(REFRESHED, values)
    drain()
    job = Job.objects.get()
    assert job.return_value == ["datetime", "date", "Decimal", "UUID"], job.reason


def test_receivers_are_called_with_the_jobs(handlers):
    heard = []

    def listen(job, **kwargs):
        heard.append(job.task)

    job_enqueued.connect(listen)
    try:
        publish(REFRESHED, {"satellite_id": 5})
    finally:
        job_enqueued.disconnect(listen)
    assert sorted(heard) == ["tests.notify", "tests.recompute", "tests.record"]


def test_handler_that_is_taken_back_meanwhile_leaves_the_event_unhandled(handlers):
    execute("""
        CREATE FUNCTION take_back() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            UPDATE pgjobs_subscription SET inactive_at = now();
            RETURN NULL;
        END
        $$;
        CREATE TRIGGER take_back AFTER INSERT ON pgjobs_event
            FOR EACH ROW EXECUTE FUNCTION take_back();
    """)
    try:
        event = publish(REFRESHED, {"satellite_id": 5})
    finally:
        execute("DROP FUNCTION take_back() CASCADE")
    assert deliveries_of(event) == {}
    assert state_of(event) == State.UNHANDLED


# If, and only if, the change is committed


def test_event_exists_iff_the_transaction_commits(handlers):
    with session() as other:
        other.listen("pgjobs")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            publish(REFRESHED, {"satellite_id": 5})
            _ = 1 / 0
        assert not Event.objects.exists() and not Job.objects.exists()
        assert other.heard() == []
        with transaction.atomic():
            publish(REFRESHED, {"satellite_id": 5})
            assert other.heard() == []
        assert other.heard() == [("pgjobs", "default")]
    assert Job.objects.count() == 3


def test_rolled_back_savepoint_takes_its_event_along(handlers):
    with transaction.atomic():
        kept = publish(REFRESHED, {"satellite_id": 1})
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            publish(REFRESHED, {"satellite_id": 2})
            _ = 1 / 0
    assert list(Event.objects.all()) == [kept]
    assert Job.objects.count() == 3


def announce(request):
    """A view: the last part of its work may fail."""
    publish(REFRESHED, {"satellite_id": 5})
    return HttpResponse(1 / int(request.GET["parts"]))


urlpatterns = [url("announce/", announce)]


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[])
def test_view_that_fails_under_atomic_requests_publishes_nothing(handlers, monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    client = Client(raise_request_exception=False)
    assert client.get("/announce/?parts=0").status_code == 500
    assert not Event.objects.exists() and not Job.objects.exists()
    assert client.get("/announce/?parts=1").status_code == 200
    assert Job.objects.count() == 3


def test_receiver_of_post_save_publishes_with_what_was_saved(handlers):
    def receive(instance, **kwargs):
        publish(REFRESHED, {"satellite_id": instance.pk})

    post_save.connect(receive, sender=Queue)
    try:
        with pytest.raises(IntegrityError), transaction.atomic():
            Queue.objects.create(name="mail")
            Queue.objects.create(name="mail")
        assert not Event.objects.exists()
        with transaction.atomic():
            queue = Queue.objects.create(name="mail")
    finally:
        post_save.disconnect(receive, sender=Queue)
    assert Event.objects.get().payload == {"satellite_id": queue.pk}


def test_idle_worker_starts_at_once_and_without_polling(handlers):
    with running_worker(poll=600):
        event = publish(REFRESHED, {"satellite_id": 5})
        wait_for_all("SUCCESSFUL")
    assert state_of(event) == State.DELIVERED


# Publishing by SQL


def test_publisher_that_knows_no_handler_reaches_them_all(handlers):
    """It may be psql, a trigger or another program: the database knows the handlers."""
    with session() as other:
        ((id,),) = other.execute(
            "SELECT pgjobs_publish('tle.refreshed', '{\"satellite_id\": 5}')"
        )
    by_python = publish(REFRESHED, {"satellite_id": 5})
    rows = [
        list(
            Job.objects.filter(delivery__event=event)
            .order_by("pk")
            .values("task", "kwargs", "queue_name", "priority", "max_attempts", "keys")
        )
        for event in (id, by_python.pk)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 3


@pytest.mark.skipif(not shutil.which("psql"), reason="psql is not installed")
def test_psql_publishes(handlers):
    name = connection.settings_dict["NAME"]
    url = f"{database_url().rpartition('/')[0]}/{name}"
    query = "SELECT pgjobs_publish('tle.refreshed', aggregate_id => 'satellite-5')"
    done = subprocess.run(
        ["psql", "-XAt", url, "-c", query], capture_output=True, text=True, check=True
    )
    event = Event.objects.get(pk=int(done.stdout))
    assert event.aggregate_id == "satellite-5"
    assert len(deliveries_of(event)) == 3


@pytest.mark.parametrize(
    ("call", "code", "told"),
    [
        ("pgjobs_publish(NULL)", "22004", "name of an event must not be NULL"),
        ("pgjobs_publish('')", "22023", "must be 1 to 200 characters, got 0"),
        ("pgjobs_publish(repeat('x', 201))", "22023", "200 characters, got 201"),
        ("pgjobs_publish('a b')", "22023", "without spaces and *, got 'a b'"),
        ("pgjobs_publish('tle.*')", "22023", "without spaces and *"),
        ("pgjobs_publish('a', NULL)", "22004", "must be a JSON object, got NULL"),
        ("pgjobs_publish('a', '[1]')", "22023", "must be a JSON object, got [1]"),
        ("pgjobs_publish('a', aggregate_id => '')", "22023", "aggregate_id of an"),
        (
            "pgjobs_publish('a', correlation_id => repeat('x', 201))",
            "22023",
            "correlation_id of an event must be 1 to 200",
        ),
    ],
)
def test_bad_event_of_sql_is_refused(call, code, told):
    with pytest.raises(DatabaseError) as caught:
        execute(f"SELECT {call}")
    assert caught.value.__cause__.sqlstate == code
    assert told in str(caught.value)
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "columns",
    [
        {"name": "''"},
        {"name": "'tle.*'"},
        {"payload": "'[]'"},
        {"aggregate_id": "''"},
        {"published_at": "'infinity'"},
    ],
)
def test_row_that_no_worker_could_read_is_refused(columns):
    columns = {"name": "'a'", **columns}
    names, values = ", ".join(columns), ", ".join(columns.values())
    with pytest.raises(IntegrityError):
        execute(f"INSERT INTO pgjobs_event ({names}) VALUES ({values})")


def test_functions_are_ours_whatever_the_session_has_on_its_path(handlers):
    with session() as other:
        other.execute("CREATE TEMP TABLE pgjobs_event (LIKE public.pgjobs_event)")
        other.execute("CREATE TEMP TABLE pgjobs_subscription (id int)")
        other.execute("SELECT public.pgjobs_publish('tle.refreshed')")
    assert Job.objects.count() == 3


# Bad input


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": ""}, "name of an event must be 1 to 200 characters"),
        ({"name": "a\0b"}, "name of an event"),
        ({"name": "a\ud800"}, "name of an event"),
        ({"name": "x" * 201}, "name of an event"),
        ({"name": "tle.*"}, r"control characters and \*, got 'tle.\*'"),
        ({"name": "a b"}, "without spaces"),
        ({"name": None}, "got None"),
        ({"name": 5}, "got 5"),
        ({"payload": [1]}, r"must be a dict of arguments by their names, got \[1\]"),
        ({"payload": {5: 1}}, "by their names"),
        ({"payload": {"a": object()}}, "payload of an event: .*object"),
        ({"payload": {"a": float("nan")}}, "nan is not JSON"),
        ({"payload": {"a": "\0"}}, "NUL"),
        ({"payload": {"a": "x" * 1_000_001}}, "MAX_ARGUMENT_BYTES"),
        ({"aggregate_id": ""}, "aggregate_id of an event must be a text of 1 to 200"),
        ({"aggregate_id": "x" * 201}, "aggregate_id of an event"),
        ({"aggregate_id": "\0"}, "aggregate_id of an event contains NUL"),
        ({"aggregate_id": True}, "got True"),
        ({"correlation_id": 1.5}, "correlation_id of an event .* got 1.5"),
    ],
)
def test_bad_event_is_refused_before_anything_is_written(handlers, arguments, told):
    with pytest.raises(InvalidEvent, match=told):
        publish(**{"name": "a", **arguments})
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    "event", ["", "*", ".*", "tle.*.x", "a b", "a\0", "x" * 201, None, 5, "tle*"]
)
def test_pattern_that_cannot_match_is_refused(event):
    with pytest.raises(InvalidTask, match="@subscribe takes the name of an event"):
        subscribe(event)


def test_ordered_by_anything_else_is_refused():
    with pytest.raises(InvalidTask, match="must be 'aggregate' or None, got 'id'"):
        subscribe(REFRESHED, ordered_by="id")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lock": "file-{satellite_id}"}, "lock of .* must be a plain text"),
        ({"lock": lambda satellite_id: "x"}, "lock of .* does not call Python"),
        ({"rate": "1/second", "rate_key": "{satellite_id}"}, "rate_key of"),
        ({"max_running": 1, "limit_key": "{satellite_id}"}, "limit_key of"),
        ({"unique": True}, "cannot be unique and subscribe"),
        ({"lock": "all", "ordered_by": "aggregate"}, "which is one"),
    ],
)
def test_option_that_the_database_cannot_apply_is_refused(options, told):
    with pytest.raises(InvalidTask, match=told):
        handler(recompute, **options)


def test_error_of_a_handler_that_is_no_task_says_where_subscribe_belongs():
    with pytest.raises(InvalidTask, match="write it above @task"):
        subscribe(REFRESHED)(recompute)


def test_handler_that_subscribes_twice_is_refused():
    with pytest.raises(InvalidTask, match=r"subscribes to 'tle\.refreshed' twice"):
        subscribe(REFRESHED)(handler(recompute))


@override_settings(
    PGJOBS={"EVENT_RETENTION": 60, "UNHANDLED_EVENT_GRACE": timedelta(hours=1)}
)
def test_check_finds_events_that_are_pruned_before_a_task_can_subscribe():
    (error,) = check_events()
    assert error.id == "pgjobs.E022"


# Subscriptions


def test_subscriptions_are_stored_once_and_left_alone(handlers):
    before = list(Subscription.objects.order_by("pk").values())
    assert {(row["task"], row["event"]) for row in before} == {
        ("tests.recompute", REFRESHED),
        ("tests.notify", REFRESHED),
        ("tests.record", "tle.*"),
    }
    store()
    assert list(Subscription.objects.order_by("pk").values()) == before


def test_migrate_stores_subscriptions():
    handler(recompute)
    call_command("migrate", "pgjobs", verbosity=0)
    assert Subscription.objects.get().task == "tests.recompute"


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("tle.refreshed", ["tle.refreshed"], ["tle.refreshed.x", "tle", "Tle.x"]),
        ("tle.*", ["tle.refreshed", "tle.a.b", "tle."], ["tle", "tles.x", "x.tle.y"]),
        ("a_b.*", ["a_b.c"], ["axb.c"]),
        ("a%.*", ["a%.c"], ["ab.c"]),
    ],
)  # fmt: skip
def test_pattern_matches_names(pattern, names, others):
    handler(record, pattern)
    store()
    for name in (*names, *others):
        assert publish(name).handlers == (name in names), name


def test_task_whose_patterns_both_match_gets_the_event_once():
    subscribe("tle.*")(handler(record, ordered_by="aggregate"))
    store()
    publish(REFRESHED, aggregate_id="x")
    assert Job.objects.get().keys == {"lock": "tests.record x", "is_ordered": True}


def test_handler_that_does_not_say_otherwise_has_eight_attempts():
    handler(recompute)
    handler(notify, max_attempts=3)
    store()
    publish(REFRESHED, {"satellite_id": 5})
    attempts = dict(Job.objects.values_list("task", "max_attempts"))
    assert attempts == {"tests.recompute": 8, "tests.notify": 3}
    assert enqueue(registry.get("tests.recompute"), 5).max_attempts == 3


def test_jobs_have_the_options_of_their_handler():
    handler(
        recompute,
        queue_name="orbit",
        priority=7,
        max_crashes=2,
        timeout=90,
        expires=timedelta(hours=1),
        max_running=2,
        rate="10/minute",
    )
    store()
    publish(REFRESHED, {"satellite_id": 5})
    job = Job.objects.get()
    assert (job.queue_name, job.priority, job.timeout) == ("orbit", 7, 90)
    assert (job.max_crashes, job.keys["max_running"]) == (2, 2)
    assert job.expires_at - job.enqueued_at == timedelta(hours=1)
    by_enqueue = enqueue(registry.get("tests.recompute"), 5)
    assert by_enqueue.keys == job.keys


def test_handler_that_the_code_has_lost_gets_nothing_more(handlers):
    del registry.tasks[registry.get("tests.notify").origin]
    registry.by_name = None
    store()
    event = publish(REFRESHED, {"satellite_id": 5})
    assert set(deliveries_of(event)) == {"tests.recompute", "tests.record"}
    assert Subscription.objects.get(task="tests.notify").inactive_at is not None
    assert Subscription.objects.active().count() == 2


def test_handler_that_returns_gets_what_was_published_meanwhile(handlers, settings):
    """This happens in a deploy, when a worker of the old release starts late."""
    settings.PGJOBS = {"UNHANDLED_EVENT_GRACE": 60}
    before = publish(REFRESHED, {"satellite_id": 1})
    new_release = registry.tasks
    registry.tasks = {
        origin: made for origin, made in new_release.items() if made is not handlers[1]
    }
    store()
    old, meanwhile = (publish(REFRESHED, {"satellite_id": n}) for n in (2, 3))
    Event.objects.filter(pk=old.pk).update(
        published_at=old.published_at - timedelta(seconds=61)
    )
    registry.tasks = new_release
    store()
    delivered = Delivery.objects.filter(task="tests.notify").order_by("job")
    assert list(delivered.values_list("event", "origin")) == [
        (before.pk, Origin.PUBLISHED),
        (meanwhile.pk, Origin.LATE),
    ]
    assert Event.objects.get(pk=meanwhile.pk).handlers == 3


def test_options_that_changed_count_for_the_next_event():
    handler(notify)
    store()
    handler(notify, priority=9)
    store()
    publish(REFRESHED, {"satellite_id": 5})
    assert Job.objects.get().priority == 9


def test_two_processes_may_store_subscriptions_at_the_same_time():
    handler(recompute)
    with in_thread(store) as first, in_thread(store) as second:
        first.result(20), second.result(20)
    assert Subscription.objects.count() == 1


# Each delivery for itself


def flaky(satellite_id: int):
    if current_job().attempt < 3:
        raise ValueError("not yet")


def test_retry_repeats_only_the_handler_that_failed():
    handler(recompute)
    handler(flaky, backoff=lambda failures: 0)
    handler(notify)
    store()
    event = publish(REFRESHED, {"satellite_id": 5})
    drain()
    attempts = dict(Job.objects.values_list("task", "attempts"))
    assert attempts == {"tests.recompute": 1, "tests.flaky": 3, "tests.notify": 1}
    assert state_of(event) == State.DELIVERED


def test_backoff_is_a_power_of_two_and_up_to_five_seconds():
    handler(lose)
    store()
    publish(REFRESHED, {"satellite_id": 5})
    drain()
    job = Job.objects.get()
    assert job.status == "SCHEDULED"
    waits = (job.run_after - job.last_attempted_at).total_seconds()
    assert 2 <= waits <= 7.5


def test_kill_dash_nine_repeats_only_the_handler_that_ran(start_worker, tmp_path):
    path = str(tmp_path / "notes")
    import_handlers()
    event = publish("order.paid", {"path": path})
    quick = {"HEARTBEAT_INTERVAL": 0.5, **HANDLED}
    first = start_worker("--threads", "1", settings=quick, registered=False)
    first.wait()  # `bill` has killed it
    start_worker("--threads", "2", settings=quick)
    wait_for_all("SUCCESSFUL")
    runs = sorted(line.rsplit(maxsplit=1)[0] for line in tasks.lines(path))
    id = event.pk
    assert runs == [f"audit {id}", f"bill {id}", f"bill {id}", f"ship {id}"]


def import_handlers() -> None:
    """Declare the handlers of tests.support.handled here as well as in the workers."""
    import importlib
    import sys

    if module := sys.modules.get("tests.support.handled"):
        importlib.reload(module)
    else:
        importlib.import_module("tests.support.handled")
    store()


def test_payload_that_does_not_fit_fails_its_delivery_alone():
    handler(recompute)
    handler(wants_text)
    handler(take_nothing)
    handler(record)
    store()
    event = publish(REFRESHED, {"satellite_id": 5})
    drain()
    assert deliveries_of(event) == {
        "tests.recompute": "SUCCESSFUL",
        "tests.record": "SUCCESSFUL",
        "tests.wants_text": "FAILED",
        "tests.take_nothing": "FAILED",
    }
    reasons = dict(Job.objects.failed().values_list("task", "reason"))
    assert "satellite_id: input should be a valid string" in reasons["tests.wants_text"]
    assert "no parameter of this task" in reasons["tests.take_nothing"]
    assert set(Job.objects.failed().values_list("attempts", flat=True)) == {1}
    assert state_of(event) == State.DEAD
    assert Event.objects.dead().get() == event


def wants_text(satellite_id: str):
    pass


def take_nothing():
    pass


def test_two_workers_deliver_many_events_once_each(start_worker, tmp_path):
    path = str(tmp_path / "notes")
    import_handlers()
    tasks.write(f"{path}.died", "no process has to die here")
    start_worker(settings=HANDLED)
    start_worker(settings=HANDLED)
    with transaction.atomic():
        published = [publish("order.paid", {"path": path}).pk for _ in range(50)]
    wait_for_all("SUCCESSFUL")
    runs = sorted(line.rsplit(maxsplit=1)[0] for line in tasks.lines(path))
    names = ("audit", "bill", "ship")
    assert runs == sorted(f"{name} {id}" for id in published for name in names)


# In order


def test_events_of_an_aggregate_reach_a_handler_in_order(start_worker, tmp_path):
    import_handlers()
    paths = [str(tmp_path / name) for name in "ab"]
    for number in range(12):
        for path in paths:
            publish("counted", {"path": path}, aggregate_id=path, correlation_id=number)
    start_worker(settings=HANDLED)
    start_worker(settings=HANDLED)
    wait_for_all("SUCCESSFUL")
    for path in paths:
        assert tasks.lines(path) == [str(number) for number in range(12)]


def test_other_aggregates_and_other_handlers_do_not_wait():
    handler(recompute, ordered_by="aggregate")
    handler(notify, ordered_by="aggregate")
    handler(record)
    store()
    for aggregate in ("a", "a", "b", None, None):
        publish(REFRESHED, {"satellite_id": 5}, aggregate_id=aggregate)
    Hand()
    admit()
    waiting = Job.objects.waiting().values_list("task", "keys__lock")
    assert sorted(waiting) == [
        ("tests.notify", "tests.notify a"),
        ("tests.recompute", "tests.recompute a"),
    ]


def test_dead_letter_does_not_stop_the_later_events_of_its_aggregate():
    handler(recompute, ordered_by="aggregate")
    store()
    first = publish(REFRESHED, {"satellite": 5}, aggregate_id="a")
    second = publish(REFRESHED, {"satellite_id": 5}, aggregate_id="a")
    drain()
    assert (state_of(first), state_of(second)) == (State.DEAD, State.DELIVERED)


def test_later_events_wait_while_an_earlier_one_backs_off():
    handler(lose, ordered_by="aggregate")
    store()
    publish(REFRESHED, {"satellite_id": 5}, aggregate_id="a")
    second = publish(REFRESHED, {"satellite_id": 5}, aggregate_id="a")
    drain()
    assert list(Job.objects.order_by("pk").values_list("status", flat=True)) == [
        "SCHEDULED",
        "WAITING",
    ]
    assert Job.objects.get(delivery__event=second).waiting_for == "lock"


# No task has subscribed


def test_event_without_handler_is_kept_and_says_so():
    event = publish(REFRESHED, {"satellite_id": 5})
    assert event.handlers == 0
    assert state_of(event) == State.UNHANDLED
    assert Event.objects.unhandled().get() == event
    assert not Job.objects.exists()


def test_handler_that_appears_in_time_gets_it_and_the_delivery_says_that_it_is_late():
    event = publish(REFRESHED, {"satellite_id": 5})
    other = publish("other")
    handler(recompute)
    handler(record, "tle.*")
    store()
    assert Event.objects.get(pk=event.pk).handlers == 2
    origins = Delivery.objects.values_list("event", "origin")
    assert set(origins) == {(event.pk, Origin.LATE)}
    assert state_of(other) == State.UNHANDLED
    drain()
    assert state_of(event) == State.DELIVERED


def test_handler_that_appears_too_late_does_not_get_it(settings):
    settings.PGJOBS = {"UNHANDLED_EVENT_GRACE": 60}
    event = publish(REFRESHED, {"satellite_id": 5})
    Event.objects.update(published_at=event.published_at - timedelta(seconds=61))
    handler(recompute)
    store()
    assert state_of(event) == State.UNHANDLED
    assert not Job.objects.exists()


def test_event_of_a_publisher_that_commits_after_the_subscription_is_delivered():
    """It has seen no subscriber, and the subscriber has not seen it."""
    with session() as publisher:
        publisher.begin()
        publisher.execute("SELECT pgjobs_publish('tle.refreshed')")
        handler(record)
        store()
        publisher.commit()
    assert Event.objects.unhandled().count() == 1
    with running_worker(poll=600) as loop:
        loop.upkeep["deliver_late"].due = 0
        loop.bell.ring()
        wait_for(lambda: Job.objects.exists(), "it is delivered")
        wait_for_all("SUCCESSFUL")
    assert not Event.objects.unhandled().exists()


def test_two_workers_deliver_late_once_and_in_order():
    published = [publish(REFRESHED, aggregate_id="a").pk for _ in range(5)]
    handler(record, ordered_by="aggregate")
    with session() as other:
        other.begin()
        Subscription.objects.declare(
            {
                (made.name, subscribed.event): declaring.row_of(made, subscribed)
                for made, subscribed in declaring.declarations()
            }
        )
        query, grace = statement("deliver_late"), {"grace": 60, "limit": 2}
        assert other.execute(query, grace) == [(2,)]
        assert outbox.deliver_late(execute, 60) == 0  # the other one is at it
        other.commit()
    assert outbox.deliver_late(execute, 60) == 3
    delivered = Delivery.objects.order_by("job").values_list("event", flat=True)
    assert list(delivered) == published


LATE_NAMES = ("tle", "tle.a", "tle.b.c", "tle/a", "tle.ä", "tle-a", "TLE.a", "tlf", "a")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("tle", {"tle"}),
        ("tle.*", {"tle.a", "tle.b.c", "tle.ä"}),
        ("tle.b.*", {"tle.b.c"}),
        ("tle.b.c", {"tle.b.c"}),
        ("TLE.*", {"TLE.a"}),
        ("none.*", set()),
    ],
)
def test_late_deliveries_are_those_that_the_pattern_fits(pattern, matching):
    for name in LATE_NAMES:
        publish(name)
    handler(record, pattern)
    store()
    handled = Event.objects.exclude(handlers=0)
    assert set(handled.values_list("name", flat=True)) == matching


@pytest.mark.parametrize("name", ["'unheard.wants'", "'unheard.wants-' || number"])
def test_looking_for_late_deliveries_reads_no_events_without_a_subscriber(name):
    execute(f"SELECT pgjobs_publish({name}) FROM generate_series(1, 3000) AS number")
    handler(record, "wanted")
    handler(lose, "wanted.*")
    store()
    publish("wanted")
    execute("ANALYZE pgjobs_event")
    outbox.deliver_late(execute, 60)  # reads what the session must know of the tables
    ((explained,),) = execute(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT pgjobs_deliver_late(60, 1000)"
    )
    plan = explained[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 100


# Delivering again


@pytest.fixture
def half_dead() -> Event:
    """An event whose one handler did it, and whose other one failed for good."""
    handler(recompute)
    handler(lose, max_attempts=1)
    store()
    event = publish(REFRESHED, {"satellite_id": 5})
    drain()
    assert state_of(event) == State.DEAD
    return event


def test_redelivery_runs_only_what_had_failed(half_dead):
    registry.get("tests.lose").function = notify  # as mended code
    assert half_dead.redeliver() == (1, 0)
    drain()
    assert state_of(half_dead) == State.DELIVERED
    lives = dict(Job.objects.values_list("task", "life"))
    assert lives == {"tests.recompute": 1, "tests.lose": 2}


def test_redelivery_to_all_runs_all_and_reaches_those_that_came_since(half_dead):
    handler(notify)
    store()
    assert half_dead.redeliver_all() == (3, 0)
    assert set(deliveries_of(half_dead).values()) == {"READY"}
    half_dead.refresh_from_db()
    assert half_dead.handlers == 3
    assert half_dead.redeliver_all() == (0, 3)  # they are on their way
    origins = dict(Delivery.objects.values_list("task", "origin"))
    assert origins["tests.notify"] == Origin.REPLAYED


def test_one_delivery_is_redelivered_by_its_job(half_dead):
    job = Job.objects.get(delivery__event=half_dead, task="tests.recompute")
    assert job.retry()
    drain()
    assert Job.objects.get(pk=job.pk).life == 2


def test_dead_letters_of_many_events_are_redelivered_at_once(handlers):
    for _ in range(3):
        publish(REFRESHED, {"satellite": 5})
    drain()
    assert Event.objects.dead().count() == 3
    assert Event.objects.dead().redeliver() == (6, 0)


def test_unhandled_event_is_delivered_by_hand_after_the_grace():
    event = publish(REFRESHED, {"satellite_id": 5})
    Event.objects.update(published_at=event.published_at - hours(5))
    handler(recompute)
    store()
    assert event.redeliver_all() == (1, 0)
    drain()
    assert state_of(event) == State.DELIVERED


@pytest.mark.parametrize(
    ("statuses", "state"),
    [
        (("SUCCESSFUL", "SUCCESSFUL", "SUCCESSFUL"), State.DELIVERED),
        (("SUCCESSFUL", "CANCELLED", "SUCCESSFUL"), State.CANCELLED),
        (("SUCCESSFUL", "CANCELLED", "READY"), State.PENDING),
        (("SUCCESSFUL", "FAILED", "READY"), State.DEAD),
        (("SUCCESSFUL", "SUCCESSFUL", None), State.PRUNED),
    ],
)
def test_state_of_an_event_is_that_of_its_deliveries(handlers, statuses, state):
    acts = {
        "SUCCESSFUL": Job.succeed,
        "CANCELLED": Job.cancel,
        "FAILED": Job.fail,
        None: Job.delete,
        "READY": lambda job: None,
    }
    event = publish(REFRESHED, {"satellite_id": 5})
    for job, status in zip(Job.objects.all(), statuses, strict=True):
        acts[status](job)
    assert state_of(event) == state
    assert Event.objects.pending().exists() == ("READY" in statuses)
    assert Event.objects.dead().exists() == ("FAILED" in statuses)


# Replay


def replay(capsys, *options: str, since: str = "1h", to: str = "tests.record") -> str:
    call_command("replayevents", "--since", since, "--to", to, *options)
    return capsys.readouterr().out


def test_replay_delivers_to_a_handler_that_came_later(capsys):
    handler(recompute)
    store()
    old = publish(REFRESHED, {"satellite_id": 1})
    Event.objects.update(published_at=old.published_at - hours(2))
    published = [publish(REFRESHED, {"satellite_id": n}).pk for n in (2, 3)]
    publish("other")
    handler(record, "tle.*")
    store()
    assert replay(capsys, "--dry-run") == "2 events would be delivered.\n"
    assert not Delivery.objects.filter(task="tests.record").exists()
    assert replay(capsys) == (
        "Delivered 2 events: 2 for the first time, 0 again. 0 on their way already.\n"
    )
    made = Delivery.objects.filter(task="tests.record").order_by("job")
    assert list(made.values_list("event", flat=True)) == published
    drain()
    assert "0 for the first time, 2 again" in replay(capsys)
    assert "0 again. 2 on their way" in replay(capsys)
    assert Job.objects.filter(task="tests.recompute", life=1).count() == 3


def test_replay_takes_a_name_and_a_time(handlers, capsys):
    publish(REFRESHED, {"satellite_id": 1})
    publish("tle.lost")
    assert "1 event would" in replay(capsys, "--name", "tle.lost", "--dry-run")
    assert "2 events would" in replay(capsys, "--name", "tle.*", "--dry-run")
    assert "0 events would" in replay(capsys, "--name", "x", "--dry-run")
    assert "0 events would" in replay(capsys, "--dry-run", since="2126-01-01T00:00")
    assert "2 events would" in replay(capsys, "--dry-run", since="2026-01-01T00:00Z")


def test_replay_of_more_than_a_batch_is_complete(handlers, capsys, monkeypatch):
    monkeypatch.setattr(outbox, "BATCH", 2)
    for _ in range(5):
        publish(REFRESHED, {"satellite_id": 1})
    drain()
    assert "Delivered 5 events: 0 for the first time, 5 again" in replay(capsys)


@pytest.mark.parametrize(
    ("since", "to", "told"),
    [
        ("yesterday", "tests.record", "--since must be a time such as"),
        ("-5h", "tests.record", "--since must be a time"),
        ("2026-99-99T00:00", "tests.record", "--since must be a time"),
        ("1h", "tests.noop", "Those that do: tests.notify, tests.recompute, tests.rec"),
        ("1h", "no.such", "No task 'no.such' subscribes to events"),
    ],
)
def test_replay_refuses_what_makes_no_sense(handlers, capsys, since, to, told):
    with pytest.raises(CommandError, match=told):
        replay(capsys, f"--since={since}", to=to)


# Retention


def test_old_events_are_pruned_unless_a_delivery_is_dead_or_on_its_way(handlers):
    delivered, dead, pending, new = (
        publish(REFRESHED, {"satellite_id": n}) for n in range(4)
    )
    unhandled = publish("unheard.event")
    Job.objects.filter(delivery__event__in=[delivered, dead]).succeed()
    job = Job.objects.filter(delivery__event=dead).first()
    job.retry(), job.fail()
    Event.objects.exclude(pk=new.pk).update(published_at=new.published_at - hours(2))
    assert outbox.prune(execute, 3600).number == 2
    assert set(Event.objects.all()) == {dead, pending, new}
    assert Job.objects.count() == 12  # they stay as long as any other job
    assert unhandled not in Event.objects.all()


def test_what_keeps_an_event_from_being_pruned_is_asked_of_this_event():
    """A join with all such rows would take minutes for thousands of each."""
    parameters = {"age": 3_600.0, "limit": 100, **OLDEST._asdict()}
    assert "Anti Join" not in plan_for_old_rows(statement("prune_events"), parameters)


def test_pruning_goes_on_behind_events_that_are_kept(handlers, monkeypatch):
    """It does not look at all of them each time."""
    monkeypatch.setattr(outbox, "BATCH", 2)
    for number in range(5):
        publish(REFRESHED, {"satellite_id": number})
    Job.objects.fail()  # dead letters
    unhandled = publish("unheard.event")
    Event.objects.update(published_at=unhandled.published_at - hours(2))
    looks, pruned, position, has_more = 0, 0, OLDEST, True
    while has_more:
        number, has_more, position = outbox.prune(execute, 3600, position)
        looks, pruned = looks + 1, pruned + number
    assert (looks, pruned) == (4, 1)
    assert Event.objects.count() == 5


def test_command_prunes_events_too(handlers, capsys):
    event = publish(REFRESHED, {"satellite_id": 1})
    Job.objects.all().succeed()
    Event.objects.update(published_at=event.published_at - hours(2))
    call_command("prunejobs", "--older", "1h", "--status", "successful")
    assert capsys.readouterr().out == "Deleted 0 jobs.\n"
    call_command("prunejobs", "--older", "1h")
    assert capsys.readouterr().out == "Deleted 0 jobs and 1 event.\n"


def test_worker_prunes_events(handlers, settings):
    settings.PGJOBS = {"EVENT_RETENTION": 3600}
    event = publish("unheard.event")
    Event.objects.update(published_at=event.published_at - hours(2))
    with running_worker(poll=600) as loop:
        loop.upkeep["prune_events"].due = 0
        loop.bell.ring()
        wait_for(lambda: not Event.objects.exists(), "it is pruned")


def test_deliveries_go_with_their_job_and_with_their_event(handlers):
    event = publish(REFRESHED, {"satellite_id": 1})
    Job.objects.get(task="tests.notify").delete()
    assert Delivery.objects.count() == 2
    execute("DELETE FROM pgjobs_event")
    assert not Delivery.objects.exists()
    assert Job.objects.count() == 2
    assert event.redeliver() == (0, 0)


# What is going on


def test_jobstatus_counts_events_that_wait_for_a_handler_or_an_operator(
    half_dead, capsys
):
    publish("unheard.event")
    call_command("jobstatus")
    assert "Events: 1 unhandled, 1 dead.\n" in capsys.readouterr().out
    call_command("jobstatus", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["events"] == {"unhandled": 1, "dead": 1}
    assert told["problems"] == []  # they wait for a decision, as failed jobs do


# What it costs those that have none


def test_plain_job_asks_nothing_about_events(django_assert_num_queries):
    hand = Hand()
    job = enqueue(tasks.noop)
    hand.succeed(hand.claim_one())
    with django_assert_num_queries(1):
        job.refresh_from_db()
    assert not Delivery.objects.exists()


def test_state_is_one_query_for_a_page_of_events(handlers, django_assert_num_queries):
    for _ in range(3):
        publish(REFRESHED, {"satellite_id": 1})
    with django_assert_num_queries(1):
        assert len({each.state for each in Event.objects.with_state()}) == 1


def test_sql_refuses_a_payload_that_is_as_large_as_python_refuses(settings, db):
    settings.PGJOBS = {"MAX_ARGUMENT_BYTES": 40}
    store_definitions("default")
    by_sql = "SELECT pgjobs_publish('a.b', %(payload)s)"
    largest, larger = {"text": "é" * 14 + "x"}, {"text": "é" * 15}
    publish("a.b", largest)
    execute(by_sql, {"payload": json.dumps(largest)})  # with spaces it is larger
    says = "is 41 bytes of JSON, more than the 40"
    with pytest.raises(InvalidEvent, match=says):
        publish("a.b", larger)
    with pytest.raises(DatabaseError, match=says):
        execute(by_sql, {"payload": json.dumps(larger)})
