"""The status address of a job: what it shows, to which visitors, and what it hides."""

import json
from datetime import datetime, timedelta

import pytest
from django.core import signing
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.core.management import call_command
from django.test import Client, override_settings
from django.urls import NoReverseMatch, path
from django.utils import timezone

from pgjobs import Cancel, Fail, Retry, Snooze, enqueue
from pgjobs.base.addresses import SALT, id_of, token_of
from pgjobs.exceptions import InvalidArguments, InvalidStep, InvalidTask, TaskTimeout
from pgjobs.models import Attempt, Job, Progress
from pgjobs.testing import run_jobs
from pgjobs.worker.slots.outcomes import outcome_of
from tests import tasks
from tests.actors import Hand, execute, hours, job_that_is, running_job
from tests.features.durable import bodies

pytestmark = pytest.mark.django_db
urlpatterns = [path("", lambda request: None)]  # of a project without pgjobs.urls

UNFINISHED = ["READY", "SCHEDULED", "WAITING", "RUNNING"]
FINISHED = ["SUCCESSFUL", "FAILED", "CANCELLED"]


def status_of(client, job: Job):
    response = client.get(job.get_status_url())
    assert response.status_code == 200
    return json.loads(response.content)


def no_visitor(request, job):
    return False


def owner(request, job):
    return job.kwargs == {"value": request.headers.get("X-User")}


def refuse(request, job):
    raise PermissionDenied


async def absent_minded(request, job):
    return False


NO_FUNCTION = "no function"


def only(name: str):
    return {"STATUS_PERMISSION": f"tests.features.public_status.test_status.{name}"}


# What it shows


def test_address_of_a_job_that_goes_on_as_another_one_shows_that_one(client):
    bodies.body = lambda job, number: number or job.continue_as(5)
    job = bodies.numbered.enqueue()
    run_jobs()
    assert status_of(client, job)["return_value"] == 5


def test_status_of_a_new_job_is_shown_in_full(client):
    job = enqueue(tasks.noop)
    assert status_of(client, job) == {
        "status": "READY",
        "finished": False,
        "progress": None,
        "attempts": 0,
        "max_attempts": 3,
        "enqueued_at": job.enqueued_at.isoformat(),
        "run_after": None,
        "started_at": None,
        "finished_at": None,
        "reason": "",
        "return_value": None,
    }


@pytest.mark.parametrize("status", UNFINISHED + FINISHED)
def test_status_says_whether_the_job_is_finished(client, status):
    job = job_that_is(status)
    told = status_of(client, job)
    assert (told["status"], told["finished"]) == (status, status in FINISHED)
    assert (told["finished_at"] is not None) is (status in FINISHED)


def test_running_job_shows_its_progress_attempt_and_times(client):
    job = running_job()
    Progress.objects.create(
        job=job, done=3, total=10, message="third", updated_at=timezone.now()
    )
    told = status_of(client, job)
    assert told["progress"] == {"done": 3, "total": 10, "message": "third"}
    assert told["attempts"] == 1
    assert datetime.fromisoformat(told["started_at"]) == job.started_at


def test_job_that_only_logged_has_no_progress(client):
    job = running_job()
    Progress.objects.create(job=job, log="secret", updated_at=timezone.now())
    assert status_of(client, job)["progress"] is None


def test_successful_job_shows_its_result(client):
    job = enqueue(tasks.noop)
    job.succeed({"rows": [1, "zwei", None, 2.5, "</script>"]})
    assert status_of(client, job)["return_value"] == job.return_value


def test_failed_job_shows_the_reason_and_never_the_traceback(client):
    hand = Hand()
    job = enqueue(tasks.noop)
    traceback = "Traceback (most recent call last): secret.py"
    claimed = hand.claim_one()
    hand.set_back(claimed, "FAIL", "No such client.", traceback=traceback)
    response = client.get(job.get_status_url())
    assert response.json()["reason"] == "No such client."
    assert b"Traceback" not in response.content


SECRET = "postgresql://app:hunter2@db.internal/x"


class NoSuchClient(Fail):
    """What a project derives."""


class Unexpected:
    class Error(Exception):
        """Has a name with a dot in it."""


def failed_by(error: BaseException, **options) -> Job:
    """Return a job as it is after an attempt that raised the error."""
    hand = Hand()
    job = tasks.noop.using(**options).enqueue()
    claimed = hand.claim_one()
    hand.record(outcome_of(claimed, tasks.noop.options, error))
    job.refresh_from_db()
    assert job.reason
    return job


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError(SECRET), "ValueError"),
        (ValueError(), "ValueError"),
        (Unexpected.Error(SECRET), "Error"),
        (ValueError(SECRET * 500), "ValueError"),
        (InvalidArguments("tests.noop", {"a": SECRET}), "InvalidArguments"),
        (InvalidTask(SECRET), "InvalidTask"),
        (InvalidStep(SECRET), "InvalidStep"),
        (KeyError(SECRET), "KeyError"),
        (SystemExit(SECRET), "SystemExit"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("attempts", [1, 3])
def test_message_of_an_unforeseen_error_is_not_shown(client, error, told, attempts):
    job = failed_by(error, max_attempts=attempts)
    response = client.get(job.get_status_url())
    assert response.json()["reason"] == told
    assert b"hunter2" not in response.content


@pytest.mark.parametrize("attempts", [1, 3])
def test_message_of_an_error_is_not_shown_if_its_attempt_was_not_stored(
    client, attempts
):
    """A worker stores the end of a job even if it may not store the attempt."""
    job = failed_by(ValueError(SECRET), max_attempts=attempts)
    Attempt.objects.filter(job=job).delete()
    response = client.get(job.get_status_url())
    assert response.json()["reason"] == "Failed."
    assert b"hunter2" not in response.content


def test_message_of_the_second_error_is_not_shown_beside_the_first_attempt(client):
    hand = Hand()
    job = enqueue(tasks.noop)
    for error in (ValueError("first"), ValueError(SECRET)):
        claimed = hand.claim_one()
        hand.record(outcome_of(claimed, tasks.noop.options, error))
        job.run_now()
    Attempt.objects.get(job=job, number=2).delete()
    assert status_of(client, job)["reason"] == "Failed."


def test_success_has_no_reason_although_an_earlier_attempt_was_not_stored(client):
    job = failed_by(ValueError(SECRET))
    Attempt.objects.filter(job=job).delete()
    job.succeed()
    assert status_of(client, job)["reason"] == ""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Fail("No such client."), "No such client."),
        (Fail("A reason: with a colon"), "A reason: with a colon"),
        (NoSuchClient("5 is no client."), "5 is no client."),
        (Retry(reason="The satellite is asleep."), "The satellite is asleep."),
        (Snooze(60), "The task snoozed for 60 s."),
        (Cancel("Already paid."), "Already paid."),
        (TaskTimeout(), "TaskTimeout: The time limit is over."),
    ],
    ids=repr,
)
def test_reason_that_was_written_for_people_is_shown(client, error, told):
    assert status_of(client, failed_by(error))["reason"] == told


@pytest.mark.parametrize("act", ["cancel", "fail"])
def test_reason_of_an_act_is_shown_even_after_a_failed_attempt(client, act):
    job = failed_by(ValueError(SECRET))
    assert getattr(job, act)("The client has gone.")
    assert status_of(client, job)["reason"] == "The client has gone."


def test_reason_of_a_cancelled_attempt_is_that_of_the_act(client):
    hand = Hand()
    job = enqueue(tasks.noop)
    claimed = hand.claim_one()
    assert job.cancel("Not needed.")
    hand.record(outcome_of(claimed, tasks.noop.options, ValueError(SECRET)))
    assert status_of(client, job)["reason"] == "Not needed."


def test_error_of_an_earlier_life_hides_nothing(client):
    job = failed_by(ValueError("over"), max_attempts=1)
    assert job.retry()
    assert job.fail("ValueError: over")
    assert status_of(client, job)["reason"] == "ValueError: over"


def test_why_a_dependency_could_not_be_made_is_not_shown(client):
    needs = {"needs": [{"key": "x", "within": 60}], "provides": []}
    job = job_that_is("READY", dependencies=needs)
    job.fail(f"Cannot enqueue tests.x, on which the job depends: ValueError: {SECRET}")
    assert status_of(client, job)["reason"] == "Failed."
    failed = "Failed: dependency job 5 failed."
    Job.objects.filter(pk=job.pk).update(reason=failed)
    assert status_of(client, job)["reason"] == failed


def test_arguments_are_not_shown(client):
    job = enqueue(tasks.echo, "secret")
    assert b"secret" not in client.get(job.get_status_url()).content


@pytest.mark.parametrize(
    "result", ["9" * 5_000, "[" * 3_000 + "]" * 3_000, "1" + "0" * 400 + ".5"]
)
def test_result_that_python_cannot_read_is_shown_as_it_is(client, result):
    job = enqueue(tasks.noop)
    job.succeed()
    execute(
        "UPDATE pgjobs_job SET return_value = %(result)s::jsonb", {"result": result}
    )
    content = client.get(job.get_status_url()).content.decode()
    assert content.endswith(f'"return_value":{result}}}')


def test_progress_that_is_no_number_is_not_shown(client):
    job = running_job()
    Progress.objects.create(
        job=job, done=float("nan"), total=float("inf"), updated_at=timezone.now()
    )
    assert status_of(client, job)["progress"] == {
        "done": None,
        "total": None,
        "message": "",
    }


def test_status_is_read_in_one_query(client, django_assert_num_queries):
    job = running_job()
    Progress.objects.create(job=job, done=1, log="x", updated_at=timezone.now())
    url = job.get_status_url()
    with django_assert_num_queries(1) as queries:
        client.get(url)
    (query,) = queries.captured_queries
    assert "kwargs" not in query["sql"]
    assert '"log"' not in query["sql"]


# How it is asked for


@pytest.mark.parametrize("status", ["READY", "WAITING", "RUNNING"])
def test_unfinished_job_asks_to_come_again_in_a_second(client, status):
    job = job_that_is(status)
    assert client.get(job.get_status_url())["Retry-After"] == "1"


@pytest.mark.parametrize("status", FINISHED)
def test_finished_job_does_not_ask_to_come_again(client, status):
    assert "Retry-After" not in client.get(job_that_is(status).get_status_url())


@pytest.mark.parametrize(
    ("due", "low", "high"),
    [(-hours(1), 1, 1), (timedelta(seconds=30), 25, 30), (hours(1), 60, 60)],
)
def test_scheduled_job_asks_to_come_when_it_is_due_but_within_a_minute(
    client, due, low, high
):
    job = job_that_is("SCHEDULED", run_after=timezone.now() + due)
    assert low <= int(client.get(job.get_status_url())["Retry-After"]) <= high


def test_answers_are_not_to_be_stored(client):
    job = enqueue(tasks.noop)
    for url in (job.get_status_url(), "/jobs/1.wrong/"):
        response = client.get(url)
        assert response["Cache-Control"] == "no-store"
        assert response["Content-Type"] == "application/json"


def test_head_is_answered_as_get_without_the_body(client):
    response = client.head(enqueue(tasks.noop).get_status_url())
    assert (response.status_code, response.content) == (200, b"")
    assert response["Retry-After"] == "1"


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(method):
    client = Client(enforce_csrf_checks=True)
    response = client.generic(method, enqueue(tasks.noop).get_status_url())
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")


# Permission


def test_address_is_the_same_each_time_and_another_for_each_job():
    first, second = enqueue(tasks.noop), enqueue(tasks.noop)
    assert first.get_status_url() == Job.objects.get(pk=first.pk).get_status_url()
    assert first.get_status_url() != second.get_status_url()
    assert first.get_status_url().startswith("/jobs/")


@pytest.mark.parametrize(
    "token",
    [
        "{id}",
        "{id}.",
        ".",
        "{id}.{signature}x",
        "1{id}.{signature}",
        " {id}.{signature}",
        "{id}:{signature}",
        "%00",
        "☃.☃",
        "%ED%A0%80",
        "9" * 5_000,
        "." * 5_000,
    ],
)
def test_wrong_address_is_not_found(client, token):
    id, _, signature = token_of(enqueue(tasks.noop).pk).partition(".")
    url = f"/jobs/{token.format(id=id, signature=signature)}/"
    response = client.get(url)
    assert (response.status_code, response.json()) == (
        404,
        {"error": "There is no such job."},
    )


def test_signature_for_another_purpose_opens_nothing():
    id = str(enqueue(tasks.noop).pk)
    assert id_of(signing.Signer(sep=".", salt=SALT).sign(id)) == int(id)
    assert id_of(signing.Signer(sep=".").sign(id)) is None
    assert id_of(signing.Signer(sep=".", salt="mine").sign(id)) is None


def test_wrong_signature_costs_no_query(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        assert client.get("/jobs/1.wrong/").status_code == 404


def test_address_outlives_a_change_of_the_secret_key(client, settings):
    url = enqueue(tasks.noop).get_status_url()
    old, settings.SECRET_KEY = settings.SECRET_KEY, "new"
    assert client.get(url).status_code == 404
    settings.SECRET_KEY_FALLBACKS = [old]
    assert client.get(url).status_code == 200


def test_deleted_job_is_not_found(client):
    job = enqueue(tasks.noop)
    url = job.get_status_url()
    job.delete()
    assert client.get(url).status_code == 404


def test_pruned_job_is_not_found(client, transactional_db):
    job = enqueue(tasks.noop)
    job.succeed()
    call_command("prunejobs", "--older", "0s", verbosity=0)
    assert client.get(job.get_status_url()).status_code == 404


def test_status_is_read_from_the_database_of_the_queue(client, settings):
    job = enqueue(tasks.noop)
    settings.PGJOBS = {"DATABASE": "queue"}
    with pytest.raises(Exception, match="queue"):
        client.get(job.get_status_url())


def test_visitor_without_permission_gets_the_answer_for_a_missing_job(client, settings):
    job = enqueue(tasks.noop)
    missing = client.get("/jobs/1.wrong/")
    for name in ("no_visitor", "refuse"):
        settings.PGJOBS = only(name)
        refused = client.get(job.get_status_url())
        assert (refused.status_code, refused.content) == (404, missing.content)
        assert refused.headers.items() == missing.headers.items()


def test_permission_can_look_at_the_request_and_the_job(client, settings):
    settings.PGJOBS = only("owner")
    url = enqueue(tasks.echo, "anna").get_status_url()
    assert client.get(url, headers={"X-User": "anna"}).status_code == 200
    assert client.get(url, headers={"X-User": "otto"}).status_code == 404


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tests.features.public_status.test_status.nowhere", "cannot be imported"),
        ("no.such.module", "cannot be imported"),
        ("undotted", "cannot be imported"),
        (f"{__name__}.NO_FUNCTION", "no function but a str"),
        (f"{__name__}.absent_minded", "must not be async"),
    ],
)
def test_permission_that_cannot_refuse_lets_no_visitor_in(
    client, settings, name, message
):
    settings.PGJOBS = {"STATUS_PERMISSION": name}
    with pytest.raises(ImproperlyConfigured, match=message) as caught:
        client.get(enqueue(tasks.noop).get_status_url())
    assert f"PGJOBS['STATUS_PERMISSION'] names {name!r}" in str(caught.value)


# Where there is no address


@override_settings(ROOT_URLCONF="tests.features.public_status.test_status")
def test_project_without_the_urls_learns_what_to_add():
    with pytest.raises(NoReverseMatch, match=r"path\('jobs/', include\('pgjobs.urls'"):
        enqueue(tasks.noop).get_status_url()


def test_job_that_was_not_saved_has_no_address():
    with pytest.raises(ValueError, match="not saved"):
        Job(task="tests.noop").get_status_url()


def test_signing_needs_no_database(django_assert_num_queries):
    job = enqueue(tasks.noop)
    with django_assert_num_queries(0):
        job.get_status_url()
