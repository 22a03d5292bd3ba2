"""The mask of a result goes with it, whatever the task that gets it says."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import IntegrityError

from pgjobs import chain, current_job, enqueue, group, outcomes, result, results, task
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.features.exporters.scrubbing import FILTERED, Scrubber
from pgjobs.models import Job
from pgjobs.queue import admitting
from tests.actors import Hand, execute
from tests.features.desk.test_desk import (  # noqa: F401
    add_permissions,
    link_to_run_again,
)
from tests.operators import (
    ALL_PERMISSIONS,
    LIST,
    operator,
    page_of,
    text_of,
    url_of,
)
from tests.processes import drain
from tests.tasks import echo, noop, pair

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "DE89370400440532013000"
MAY = ("view_job", "view_job_arguments")


@pytest.fixture
def gives():
    """A task whose result is masked."""
    return task(name="tests.results.gives", sensitive=("return",))(gives_secret)


def gives_secret() -> str:
    return SECRET


@pytest.fixture
def takes():
    declared = task(
        name="tests.results.takes", max_attempts=2, backoff=lambda failures: 0
    )
    return declared(tells_and_fails)


def tells_and_fails(text: str) -> None:
    current_job().log(f"got {text}")
    current_job().step("look", lambda: {"text": text})
    raise ValueError(f"no {text}")


@pytest.fixture
def job(gives, takes) -> Job:
    """A job that has got a masked result, and failed twice."""
    _, last = enqueue(chain(gives.bind(), takes.bind(result)))
    drain()
    last.refresh_from_db()
    assert (last.status, last.attempts) == ("FAILED", 2)
    assert last.kwargs == {"text": SECRET}
    return last


def shown(job: Job, *more: str) -> str:
    """Return what pages, exports and commands say of it."""
    client = operator(*MAY, *more)
    output = StringIO()
    call_command("jobs", "show", str(job.pk), "--json", stdout=output)
    call_command("jobs", "list", "--json", stdout=output)
    pages = [client.get(page_of(job)), client.get(LIST)]
    texts = [text_of(page) for page in pages]
    for kind in ("csv", "json"):
        exported = client.get(f"{LIST}export.{kind}")
        texts.append(b"".join(exported.streaming_content).decode())
    return "\n".join([*texts, output.getvalue()])


def test_masked_result_is_masked_wherever_the_next_job_is_shown(job):
    assert job.keys["masked"] == ["text"]
    text = shown(job)
    assert SECRET not in text
    assert text.count("********") >= 6


def test_texts_of_all_attempts_are_masked(job):
    assert job.reason == "ValueError: no ********"
    for attempt in job.attempts_made.all():
        assert SECRET not in attempt.message + attempt.traceback
    assert SECRET not in job.progress.log
    assert job.progress.log.count("got ********") == 2


def test_masked_value_cannot_be_searched(job):
    other = echo.enqueue(SECRET)
    client = operator(*MAY)

    def found(term: str) -> list[int]:
        listed = client.get(LIST, {"q": term}).context["cl"].result_list
        return [each.pk for each in listed]

    assert found(f"text:{SECRET}") == []
    assert found(f"value:{SECRET}") == [other.pk]


def test_job_that_runs_again_is_masked_as_the_first(job, takes):
    client = operator(*ALL_PERMISSIONS)
    client.post(url_of("run_again", job), {})
    again = Job.objects.exclude(pk=job.pk).get(task=takes.name)
    assert again.kwargs == {"text": SECRET}
    assert SECRET not in shown(again)
    drain()
    again.refresh_from_db()
    assert again.reason == "ValueError: no ********"


def test_form_for_another_job_has_no_masked_value(
    job,
    takes,
    add_permissions,  # noqa: F811
):
    sync("default", declared())
    client = operator(*add_permissions)
    address = link_to_run_again(text_of(client.get(page_of(job))))
    assert SECRET not in text_of(client.get(address))
    client.post(address, {"argument-text": "entered"})
    again = Job.objects.filter(task=takes.name).latest("pk")
    assert again.kwargs == {"text": "entered"}


def test_telemetry_masks_the_value_too(job):
    scrubber = Scrubber.of_job(job)
    assert scrubber.text(f"no {SECRET}") == "no ********"
    assert scrubber.value({"text": 5, "other": 6}) == {"text": FILTERED, "other": 6}


def test_misfit_of_a_masked_result_does_not_quote_it(gives):
    takes = task(name="tests.results.number")(takes_number)
    _, last = enqueue(chain(gives.bind(), takes.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    assert "tests.results.gives" in last.reason
    assert SECRET not in last.reason


def takes_number(number: int) -> None:
    pass


@pytest.mark.parametrize("placeholder", [results, outcomes])
def test_masked_members_mask_the_whole_list(gives, placeholder):
    parts = group([gives.bind(), echo.bind("open")])
    _, last = enqueue(chain(parts, pair.bind("plain", placeholder)))
    drain()
    last.refresh_from_db()
    assert last.keys["masked"] == ["second"]
    assert SECRET not in shown_arguments(last)
    assert "plain" in shown_arguments(last)


def shown_arguments(job: Job) -> str:
    output = StringIO()
    call_command("jobs", "show", str(job.pk), "--json", stdout=output)
    shown = json.loads(output.getvalue())
    return json.dumps(shown["arguments"])


def test_part_that_the_page_before_masks_stays_masked():
    whole = {"password": SECRET, "user": "Ada"}
    bound = pair.bind(result["password"], result["user"])
    _, last = enqueue(chain(echo.bind(whole), bound))
    drain()
    last.refresh_from_db()
    assert last.kwargs == {"first": SECRET, "second": "Ada"}
    assert last.keys["masked"] == ["first"]


def test_name_that_the_task_before_calls_sensitive_stays_so():
    gives = task(name="tests.results.account", sensitive=("iban",))(gives_account)
    takes = task(name="tests.results.knows", sensitive=("account",))(takes_account)
    _, first, _, third = enqueue(
        chain(
            gives.bind(SECRET),
            echo.bind(result),
            gives.bind(SECRET),
            takes.bind(result),
        )
    )
    drain()
    first.refresh_from_db()
    assert first.keys["masked"] == ["value"]
    assert SECRET not in shown_arguments(first) + shown_arguments(third)


def gives_account(iban: str) -> dict:
    return {"iban": iban, "user": "Ada"}


def takes_account(account: dict) -> None:
    pass


def test_open_result_leaves_no_mark():
    _, last = enqueue(chain(echo.bind("open"), echo.bind(result)))
    drain()
    last.refresh_from_db()
    assert "masked" not in last.keys
    assert "open" in shown_arguments(last)


def test_what_a_job_waits_for_is_masked_too(gives):
    named = task(name="tests.results.waits", waits_for=("order.paid",))
    waits = named(waits_for_event)
    _, last = enqueue(chain(gives.bind(), waits.bind(result)))
    drain()
    last.refresh_from_db()
    assert last.waiting_for == "event"
    output = StringIO()
    call_command("jobs", "waits", stdout=output)
    assert "order.paid" in output.getvalue()
    assert SECRET not in output.getvalue()


def waits_for_event(text: str) -> None:
    current_job().wait_for_event("order.paid", aggregate_id=text)


def test_admission_leaves_a_job_with_a_mark_to_a_claim():
    """Only a claim brings the names of what is masked."""
    job = noop.using(lock="door").enqueue()
    Job.objects.filter(pk=job.pk).update(keys={**job.keys, "masked": ["text"]})
    hand = Hand()
    how = {"claims": True, "limit": 1}
    beginning = admitting.BEGINNING
    admitted = admitting.record_and_admit(execute, hand.id, beginning, True, **how)
    assert admitted.claimed == []
    (claimed,) = hand.record_and_claim(limit=1, is_idle=True).jobs
    assert json.loads(claimed.results) == {"text": {"masked": True}}


def test_job_with_a_mark_that_comes_from_a_line_is_masked_in_its_second_life(gives):
    locked = task(name="tests.results.locked", max_attempts=1, lock="door")
    _, last = enqueue(chain(gives.bind(), locked(tells_and_fails).bind(result)))
    drain()
    last.refresh_from_db()
    assert last.status == "FAILED"
    last.retry()
    drain()
    last.refresh_from_db()
    assert last.life == 2
    assert last.reason == "ValueError: no ********"


def test_marks_that_sql_stores_are_names(db):
    insert = "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)"
    with pytest.raises(IntegrityError, match="masked must be a list of names"):
        execute(insert, {"keys": '{"masked": 5}'})
    execute(insert, {"keys": '{"masked": [5, null, "", {"a": 1}]}'})
    (job,) = Job.objects.filter(task=noop.name)
    assert SECRET not in shown(job)
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
