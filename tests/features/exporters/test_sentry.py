"""What Sentry is told, with a transport that records."""

from datetime import timedelta

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport

from pgjobs import Snooze, enqueue, task
from pgjobs.contrib.sentry import PgJobsIntegration, install, uninstall
from pgjobs.features.exporters import sentry
from pgjobs.models import Job, Schedule
from tests import tasks
from tests.actors import Hand, execute
from tests.features.durable.bodies import done, goes_on
from tests.features.exporters.collectors import collecting
from tests.processes import drain, run, running_worker, shared_queue, wait_for
from tests.support.declared import store_schedules

pytestmark = shared_queue

DSN = "https://key@sentry.invalid/1"


class Recording(Transport):
    """Keeps what would be sent."""

    def __init__(self, options=None):
        super().__init__(options)
        self.items: list[tuple[str, dict]] = []

    def capture_envelope(self, envelope):
        for item in envelope.items:
            self.items.append((item.type, item.payload.json))

    def of(self, kind: str) -> list[dict]:
        return [payload for type, payload in self.items if type == kind]


class Broken(Transport):
    def capture_envelope(self, envelope):
        raise OSError("Sentry is down")


def initialise(transport: type[Transport] | Transport = Recording, **options):
    made = transport({}) if isinstance(transport, type) else transport
    sentry_sdk.init(
        dsn=DSN,
        transport=made,
        traces_sample_rate=1.0,
        default_integrations=False,
        **options,
    )
    return made


@pytest.fixture(autouse=True)
def no_sentry_afterwards():
    yield
    uninstall()
    sentry_sdk.get_client().close()  # or its threads live on
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def sent():
    install()
    return initialise()


@task(max_attempts=2, backoff=lambda failures: 0)
def charge(card: str, amount: int):
    raise ValueError("declined")


@task
def put_off_for_sentry():
    raise Snooze(60)


def nightly():
    pass


def nightly_failure():
    raise ValueError("no")


@pytest.fixture
def fire():
    """Fires the schedule of a task."""

    def fire(function, **options) -> Job:
        declared = task(name=f"tests.{function.__name__}", **options)(function)
        store_schedules("default")
        Schedule.objects.exclude(name=declared.name).update(paused=True)
        execute(
            "UPDATE pgjobs_schedule SET next_run_at = now() - interval '1 s'"
            " WHERE name = %(name)s",
            {"name": declared.name},
        )
        jobs = Job.objects.filter(task=declared.name)
        with running_worker():
            wait_for(lambda: jobs.filter(finished_at__isnull=False).exists())
        return jobs.get()

    return fire


def test_one_event_is_sent_for_a_job_that_failed_for_good(sent):
    job = run(charge, "4242", amount=5)
    (event,) = sent.of("event")
    (exception,) = event["exception"]["values"]
    assert (exception["type"], exception["value"]) == ("ValueError", "declined")
    assert exception["stacktrace"]["frames"][-1]["function"] == "charge"
    assert event["transaction"] == charge.name
    assert event["fingerprint"] == ["pgjobs", charge.name, "builtins.ValueError"]
    known = event["contexts"]["job"]
    assert (known["id"], known["attempts"], known["failures"]) == (job.pk, 2, 2)
    assert known["arguments"] == {"card": "[Filtered]", "amount": "[Filtered]"}


@pytest.mark.filterwarnings("ignore:The send_default_pii option")
def test_arguments_are_sent_if_the_client_may(sent):
    initialise(sent, send_default_pii=True)
    run(charge, "4242", amount=5)
    (event,) = sent.of("event")
    assert event["contexts"]["job"]["arguments"] == {"card": "4242", "amount": 5}


def test_job_that_its_crashes_have_failed_is_an_event_without_an_exception(sent):
    enqueue(tasks.noop.using(max_crashes=1))
    hand = Hand()
    hand.claim_one()
    hand.vanish()
    with running_worker():
        wait_for(lambda: sent.of("event"), "the failure is reported")
    (event,) = sent.of("event")
    assert event["message"].startswith("tests.noop: ")


def test_retries_snoozes_and_successes_are_no_events(sent):
    run(charge.using(max_attempts=5, run_after=timedelta(0)), "4242", 1)
    sent.items.clear()
    run(put_off_for_sentry)
    run(tasks.noop)
    assert sent.of("event") == []


def test_task_that_sleeps_is_no_event_and_its_stretches_are_no_errors(sent):
    job = done(lambda job: job.sleep("nap", 3_600))
    job.run_now()
    assert goes_on(job).status == "SUCCESSFUL"
    assert sent.of("event") == []
    statuses = [each["contexts"]["trace"]["status"] for each in sent.of("transaction")]
    assert statuses == ["ok", "ok"]


def test_trace_goes_from_the_request_to_the_job_and_its_failure(sent):
    with sentry_sdk.start_transaction(op="http.server", name="POST /orders"):
        enqueue(charge, "4242", 1)
    drain()
    request, first, second = sent.of("transaction")
    assert request["transaction"] == "POST /orders"
    traces = {each["contexts"]["trace"]["trace_id"] for each in sent.of("transaction")}
    assert len(traces) == 1
    (event,) = sent.of("event")
    assert {event["contexts"]["trace"]["trace_id"]} == traces
    (span,) = (each for each in request["spans"] if each["op"] == "queue.publish")
    assert span["data"]["messaging.destination.name"] == "default"
    assert first["contexts"]["trace"]["op"] == "queue.process"
    assert first["contexts"]["trace"]["status"] == "internal_error"
    data = second["contexts"]["trace"]["data"]
    assert data["messaging.message.retry.count"] == 1
    assert data["messaging.destination.name"] == "default"


def test_monitor_hears_of_a_run_and_its_success(sent, fire):
    job = fire(nightly, every=timedelta(hours=2))
    assert job.meta == {"schedule": "tests.nightly"}
    begun, ended = sent.of("check_in")
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert begun["monitor_slug"] == "testsnightly"
    assert begun["monitor_config"]["schedule"] == {
        "type": "interval",
        "value": 120,
        "unit": "minute",
    }


def test_monitor_hears_of_a_failure(sent, fire):
    fire(nightly_failure, cron="5 4 * * *", max_attempts=1)
    begun, failed = sent.of("check_in")
    assert (begun["status"], failed["status"]) == ("in_progress", "error")
    assert begun["monitor_config"]["schedule"] == {
        "type": "crontab",
        "value": "5 4 * * *",
    }
    assert len(sent.of("event")) == 1


def test_jobs_of_no_schedule_check_in_nowhere(sent):
    run(tasks.noop)
    assert sent.of("check_in") == []


def test_integration_may_be_given_to_the_client():
    uninstall()
    sentry_sdk.integrations._processed_integrations.discard("pgjobs")
    sentry_sdk.integrations._installed_integrations.discard("pgjobs")
    sent = initialise(integrations=[PgJobsIntegration()])
    run(charge, "4242", 1)
    assert len(sent.of("event")) == 1


def test_it_may_be_installed_after_the_client_and_twice():
    sent = initialise()
    install()
    install()
    run(charge, "4242", 1)
    assert len(sent.of("event")) == 1


def test_log_of_the_failure_is_no_second_event():
    install()
    transport = Recording({})
    sentry_sdk.init(dsn=DSN, transport=transport, auto_enabling_integrations=False)
    run(charge, "4242", 1)
    assert len(transport.of("event")) == 1


def test_sentry_that_is_down_harms_no_job():
    install()
    initialise(Broken)
    assert run(tasks.add, 1).return_value == 2
    assert run(charge, "4242", 1).status == "FAILED"


@pytest.mark.parametrize("behaviour", ["slow", "refusing", "hostile"])
def test_bad_sentry_delays_no_job(behaviour):
    install()
    with collecting(behaviour) as server:
        address = server.address.replace("//", "//key@")
        sentry_sdk.init(
            f"{address}/1", traces_sample_rate=1.0, default_integrations=False
        )
        assert run(charge, "4242", 1).status == "FAILED"
        wait_for(lambda: server.requests, "Sentry has been called")
        for _ in range(20):
            enqueue(tasks.add, 1)
        drain()
        assert Job.objects.filter(status="SUCCESSFUL").count() == 20
        server.released.set()


def test_sentry_without_a_client_harms_no_job():
    install()
    assert run(tasks.add, 1).return_value == 2


def test_client_whose_hooks_raise_harms_no_job(monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise RuntimeError("broken")

    install()
    initialise(before_send=refuse, before_send_transaction=refuse)
    assert run(charge, "4242", 1).status == "FAILED"
    monkeypatch.setattr(sentry.sentry_sdk, "start_transaction", refuse)
    monkeypatch.setattr(sentry.sentry_sdk, "start_span", refuse)
    assert run(tasks.add, 1).return_value == 2
    assert "start_attempt failed" in caplog.text
