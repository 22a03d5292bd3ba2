"""`manage.py jobs waits`, `answer` and `mark-step`: jobs that wait, at a terminal."""

import json
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgjobs.features.durable import verbs
from pgjobs.models import Answer, AuditEntry, Step
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.operators import make_job
from tests.processes import shared_queue

pytestmark = shared_queue
DAY = timedelta(days=1)
TASK = "durable.plain"


@dataclass
class Approval:
    approved: bool
    euros: int = 0
    password: str = ""


def asks(job):
    answer = job.wait_for("approval", Approval, title="Refund of order 5?")
    return answer and answer.euros


def sleeps(job):
    job.sleep("cool-off", DAY)


def waits_for_payment(job):
    job.wait_for_event("order.paid", aggregate_id="5")


def run(*arguments: object, **options) -> str:
    output = StringIO()
    texts = map(str, arguments)
    call_command("jobs", *texts, stdout=output, no_color=True, **options)
    return output.getvalue()


def refused(*arguments: object) -> tuple[str, int]:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value), raised.value.returncode


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()[1:]]


def audited(act: str) -> list[tuple]:
    entries = AuditEntry.objects.filter(act=act).order_by("pk")
    return list(entries.values_list("via", "object_id", "number", "note"))


# Waits


def test_waits_lists_each_wait_and_sleep_with_what_it_waits_for():
    asking, sleeping, paying = done(asks), done(sleeps), done(waits_for_payment)
    lines = run("waits").splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        str(job.pk) for job in (asking, paying, sleeping)
    ]
    assert lines[0].split() == [
        *("job", "task", "name", "waits", "for", "since", "until", "who", "or", "what")
    ]
    assert lines[1].split()[1:4] == [TASK, "approval", "answer"]
    assert lines[1].endswith("pgjobs.answer_job")
    assert lines[2].split()[2:4] == ["order.paid", "event"]
    assert lines[2].endswith("order.paid 5")
    assert lines[3].split()[2:4] == ["cool-off", "sleep"]


def test_waits_takes_the_filters_of_the_other_verbs():
    done(asks)
    other = done(lambda job: job.wait_for("colour", str), task=bodies.second_version)
    rows = cells(run("waits", "--task", other.task))
    assert [row[0] for row in rows] == [str(other.pk)]
    assert [row[0] for row in cells(run("waits", other.pk))] == [str(other.pk)]


def test_waits_lists_what_is_open_alone():
    answered, cancelled = done(asks), done(asks)
    answered.answer("approval", Approval(True))
    goes_on(answered)
    cancelled.cancel()
    assert run("waits") == "No jobs wait.\n"
    retried = done(asks)
    retried.fail()
    retried.retry()
    assert run("waits") == "No jobs wait.\n"


def test_many_waits_are_counted_by_place():
    for body in (asks, asks, sleeps, waits_for_payment):
        done(body)
    text = run("waits", "--limit", "2")
    assert text.splitlines()[1].split()[:4] == ["2", TASK, "approval", "answer"]
    assert text.count(TASK) == 2
    assert "And 1 place more: --limit shows more." in text
    assert "More than 2 wait" in text
    assert "waits for" in run("waits", "--limit", "4")
    assert "More than" not in run("waits", "--limit", "4")


def test_waits_are_a_json_array_for_programs():
    job = done(asks)
    (row,) = json.loads(run("waits", "--json"))
    assert (row["job"], row["task"], row["name"]) == (job.pk, TASK, "approval")
    assert (row["kind"], row["permission"]) == ("answer", "pgjobs.answer_job")
    assert row["title"] == "Refund of order 5?"
    assert row["schema"]["properties"]["euros"]["type"] == "integer"
    goes_on(job)
    assert json.loads(run("waits", "--json", "--status", "failed")) == []


def test_wait_for_first_and_for_jobs_say_all_that_they_wait_for():
    child = bodies.followed.using(run_after=DAY).enqueue(1)
    job = done(lambda job: job.wait_for_jobs("parts", [child]))
    (row,) = cells(run("waits", job.pk))
    assert (row[2:4], row[-1]) == (["parts", "jobs"], str(child.pk))
    ways = {"paid": "order.paid", "stop": "export.done"}
    job = done(lambda job: job.wait_for_first(ways, name="either"))
    names = [row[2:4] for row in cells(run("waits", job.pk))]
    assert names == [["either", "(paid)"], ["either", "(stop)"]]


def test_sensitive_arguments_are_masked_in_what_jobs_wait_for():
    bodies.secretive.enqueue("DE89370400440532013000")
    bodies.body = lambda job: job.wait_for_event("order.paid", aggregate_id=SECRET)
    job = bodies.sensitive.enqueue(SECRET)
    goes_on(job)
    for text in (run("waits"), run("waits", "--json")):
        assert "order.paid" in text
        assert SECRET not in text


SECRET = "DE89370400440532013000"


def test_task_that_there_is_not_is_named_with_the_nearest_one():
    done(asks)
    with pytest.raises(CommandError, match=f"Did you mean {TASK!r}"):
        run("waits", "--task", TASK[:-1])


# Answer


def test_answer_lets_the_job_go_on_and_is_audited():
    job = done(asks)
    text = run(
        "answer", job.pk, "approval", "--value", '{"approved": true, "euros": 7}'
    )
    assert text == f"Answered 'approval' of job {job.pk}.\n"
    assert goes_on(job).return_value == 7
    assert audited("answer") == [("command", job.pk, 1, "approval")]


def test_answer_that_does_not_fit_says_each_fault_and_changes_nothing():
    job = done(asks)
    value = '{"approved": "perhaps", "euros": "many", "password": 5}'
    text, code = refused("answer", job.pk, "approval", "--value", value)
    assert code == 1
    assert "approved: " in text
    assert "euros: " in text
    assert "password: " in text
    assert not Answer.objects.exists()
    assert audited("answer") == []


@pytest.mark.parametrize("secret", ['["open sesame"]', "77"])
def test_refusal_repeats_no_sensitive_value(secret):
    job = done(asks)
    value = f'{{"approved": true, "password": {secret}}}'
    text, _code = refused("answer", job.pk, "approval", "--value", value)
    assert "password: " in text
    assert "sesame" not in text
    assert "77" not in text


def test_answer_to_a_name_that_nobody_asks_is_refused_with_the_nearest_one():
    job = done(asks)
    text, code = refused("answer", job.pk, "aproval", "--value", "true")
    assert "does not ask for 'aproval'. Did you mean 'approval'?" in text
    assert code == 1
    assert not Answer.objects.exists()


def test_answer_to_a_job_that_waits_no_more_is_refused():
    job = done(asks)
    value = ("--value", '{"approved": true}')
    run("answer", job.pk, "approval", *value)
    text, _code = refused("answer", job.pk, "approval", *value)
    assert "'approval' was answered, or has ended, before" in text
    goes_on(job)
    text, code = refused("answer", job.pk, "approval", *value)
    assert (code, "it is SUCCESSFUL" in text) == (1, True)
    assert "There is no job 999" in refused("answer", 999, "x", "--value", "1")[0]
    assert len(audited("answer")) == 1


def test_answer_that_another_one_overtakes_is_refused(monkeypatch):
    job = done(asks)
    overtaken = verbs.asked_wait

    def slow(job, name):
        wait = overtaken(job, name)
        job.answer(name, {"approved": False})
        return wait

    monkeypatch.setattr(verbs, "asked_wait", slow)
    value = '{"approved": true}'
    text, code = refused("answer", job.pk, "approval", "--value", value)
    assert (code, "meanwhile" in text) == (1, True)
    assert Answer.objects.get().value["approved"] is False


def test_answer_to_what_waits_for_an_event_says_what_ends_it():
    job = done(waits_for_payment)
    text, _code = refused("answer", job.pk, "order.paid", "--value", "true")
    assert "`jobs mark-step` ends it by hand" in text


@pytest.mark.parametrize("verb", ["answer", "mark-step"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("approval", "yes", "--value: must be JSON"),
        ("approval", "[" * 100_000, "--value: must be JSON"),
        ("", "1", "must be 1 to 200 characters"),
        ("x" * 201, "1", "must be 1 to 200 characters"),
        ("\udc80", "1", "The name of"),
    ],
)
def test_bad_words_are_refused(verb, name, value, said):
    job = done(asks)
    text, code = refused(verb, job.pk, name, "--value", value)
    assert said in text
    assert code == 2


@pytest.mark.parametrize("value", ["null", "NaN", '"\\u0000"', f'"{"x" * 70_000}"'])
def test_value_that_no_answer_can_be_is_refused(value):
    job = done(asks)
    _text, code = refused("answer", job.pk, "approval", "--value", value)
    assert code == 1
    assert not Answer.objects.exists()


@pytest.mark.parametrize("verb", ["answer", "mark-step"])
def test_job_is_of_one_database(verb, settings):
    settings.PGJOBS = {"DATABASES": ["default"]}  # other tests may have a second one
    job = done(asks)
    words = (verb, job.pk, "approval", "--value", "{}", "--database", "all")
    assert "name that of the job" in refused(*words)[0]


def test_answer_to_a_job_that_goes_on_as_another_one_reaches_that_one():
    def body(job, number):
        if number == 0:
            job.continue_as(1)
        return job.wait_for("colour", str)

    job = goes_on(enqueued(body, task=bodies.numbered))
    run("answer", job.pk, "colour", "--value", '"red"')
    assert goes_on(job.newest()).return_value == "red"
    text, _code = refused("mark-step", job.pk, "colour", "--value", '"red"')
    assert f"job {job.pk} goes on as this one" in text


# Mark a step


def test_step_is_marked_and_the_job_goes_on():
    def body(job):
        job.sleep("cool-off", DAY)
        paid = job.step("pay", lambda: 1 // 0)
        return paid

    job = done(body)
    run("mark-step", job.pk, "cool-off", "--value", "null")
    goes_on(job)
    assert job.status == "FAILED"
    text = run("mark-step", job.pk, "pay", "--value", '{"paid": 12}')
    assert text == f"Marked 'pay' of job {job.pk} as done.\n"
    job.retry(keep_steps=True)
    assert goes_on(job).return_value == {"paid": 12}
    assert audited("mark_step") == [
        ("command", job.pk, 1, "cool-off"),
        ("command", job.pk, 1, "pay"),
    ]


def test_step_of_a_running_or_fresh_or_done_job_is_not_marked():
    fresh = enqueued(asks)
    words = ("pay", "--value", "1")
    assert "it has not begun" in refused("mark-step", fresh.pk, *words)[0]
    job = done(asks)
    run("mark-step", job.pk, "pay", "--value", "1", stderr=StringIO())
    text, code = refused("mark-step", job.pk, *words)
    assert (code, "'pay' is done" in text) == (1, True)
    running = make_job("RUNNING", attempts=1)
    assert "it runs." in refused("mark-step", running.pk, *words)[0]
    assert len(audited("mark_step")) == 1


def test_name_at_which_the_job_does_not_stand_is_said():
    job = done(asks)
    errors = StringIO()
    run("mark-step", job.pk, "aproval", "--value", "1", stderr=errors)
    assert "does not wait at 'aproval'" in errors.getvalue()
    assert "Did you mean 'approval'?" in errors.getvalue()
    errors = StringIO()
    run("mark-step", job.pk, "approval", "--value", "null", stderr=errors)
    assert errors.getvalue() == ""
    assert Step.objects.filter(job=job.pk).count() == 2


@pytest.mark.parametrize("value", ["NaN", f'"{"x" * 70_000}"'])
def test_value_that_no_step_can_have_is_refused(value):
    job = done(asks)
    _text, code = refused("mark-step", job.pk, "approval", "--value", value)
    assert code == 1


def test_programs_read_what_was_changed():
    job = done(asks)
    value = ("--value", '{"approved": true}', "--json")
    assert json.loads(run("answer", job.pk, "approval", *value)) == {
        "changed": 1,
        "skipped": 0,
    }


CROWD = """
INSERT INTO pgjobs_job
    (id, task, status, waiting_for, line, attempts, run_after, enqueued_at)
SELECT 1000000 + number, 'shop.refund',
    CASE WHEN number % 2 = 0 THEN 'WAITING' ELSE 'SCHEDULED' END,
    CASE WHEN number % 2 = 0 THEN 'answer' END,
    CASE WHEN number % 2 = 0 THEN 'unknown' END, 1, now() + interval '1 day', now()
FROM generate_series(1, 10000) AS number;
INSERT INTO pgjobs_wait (job_id, life, name, kind, permission, deadline)
SELECT id, 1, 'approval', 'answer', 'pgjobs.answer_job', now() + interval '30 days'
FROM pgjobs_job WHERE status = 'WAITING' AND id > 1000000;
INSERT INTO pgjobs_step (job_id, life, name, attempt, finished_at)
SELECT id, 1, 'cool-off', 1, run_after
FROM pgjobs_job WHERE status = 'SCHEDULED' AND id > 1000000;
"""


def test_ten_thousand_jobs_that_wait_take_few_lines_and_statements(
    django_assert_max_num_queries,
):
    execute(CROWD)
    run("waits")  # which looks whether the database is migrated
    with django_assert_max_num_queries(8):
        text = run("waits")
    assert [row[:4] for row in cells(text)[:2]] == [
        ["5000", "shop.refund", "approval", "answer"],
        ["5000", "shop.refund", "cool-off", "sleep"],
    ]
    assert len(text.splitlines()) == 4


# Retry with steps


def fails_behind_two_steps(job):
    job.step("count", int)
    job.step("pay", int)
    raise RuntimeError


def steps_of_second_life() -> list[str]:
    names = Step.objects.filter(life=2).order_by("pk").values_list("name", flat=True)
    return list(names)


@pytest.mark.parametrize(
    ("options", "kept", "noted"),
    [
        (("--keep-steps",), ["count", "pay"], "keep steps"),
        (("--until", "pay"), ["count"], "until pay"),
        ((), [], ""),
    ],
)
def test_retry_keeps_steps(options, kept, noted):
    job = done(fails_behind_two_steps)
    assert run("retry", job.pk, *options) == "Retried 1 job.\n"
    assert steps_of_second_life() == kept
    assert audited("retry") == [("command", None, 1, noted)]


def test_retry_until_a_step_that_jobs_have_not_done_says_that_they_keep_all():
    done(fails_behind_two_steps)
    for dry in (("--dry-run",), ()):
        errors = StringIO()
        words = ("retry", "--task", TASK, "--until", "shipp", *dry)
        run(*words, stderr=errors)
        said = "1 job has not done the step 'shipp', and keeps all finished steps."
        assert said in errors.getvalue()
    assert steps_of_second_life() == ["count", "pay"]


@pytest.mark.parametrize(
    "options",
    [("--until", ""), ("--until", "x" * 201), ("--keep-steps", "--until", "x")],
)
def test_bad_retry_is_refused(options):
    job = done(fails_behind_two_steps)
    refused("retry", job.pk, *options)
    assert steps_of_second_life() == []
