"""What a task calls sensitive is shown nowhere."""

from io import StringIO

import pytest
from django.core.management import call_command

from pgjobs import current_job, enqueue, task
from pgjobs.base.addresses import status_url
from pgjobs.exceptions import InvalidTask
from pgjobs.models import ErrorGroup, Job
from pgjobs.reports.secrets import hiding, values_of
from pgjobs.testing import run_jobs
from tests.operators import LIST, operator, page_of, text_of

pytestmark = pytest.mark.django_db

SECRET = "DE12345678"


def pay(iban: str, ibanez: str, order: dict):
    current_job().log(f"paying to {iban}")
    current_job().progress(1, 2, f"to {iban}")
    raise ValueError(f"{iban} is unknown, {ibanez} is not")


@pytest.fixture
def job():
    declared = task(name="tests.pay", sensitive=("iban",), max_attempts=1)(pay)
    job = enqueue(declared, SECRET, "a guitar", {"customerIban": SECRET})
    run_jobs(raise_errors=False)
    job.refresh_from_db()
    return job


def test_reason_traceback_and_log_are_stored_without_it(job):
    attempt = job.attempts_made.get()
    assert job.reason == "ValueError: ******** is unknown, a guitar is not"
    for text in (attempt.message, attempt.traceback, job.progress.log):
        assert SECRET not in text
        assert "********" in text
    assert job.progress.message == "to ********"


def refuse(iban: str, text: str):
    raise ValueError(text.replace("{}", iban))


def refused(iban, text: str) -> Job:
    """Return a job that failed, although SQL checked no argument of it."""
    task(name="tests.refuse", sensitive=("iban",), max_attempts=1)(refuse)
    kwargs = {"iban": iban, "text": text}
    job = Job.objects.create(task="tests.refuse", kwargs=kwargs, max_attempts=1)
    run_jobs(raise_errors=False)
    job.refresh_from_db()
    assert job.status == "FAILED"
    return job


def test_group_of_errors_has_no_part_of_it():
    jobs = [refused(f"ada.{year}@example.org", "no {}") for year in (1815, 1852)]
    assert len({job.error_group for job in jobs}) == 1
    assert ErrorGroup.objects.get().message == "ValueError: no ********"


def test_text_that_is_too_long_is_not_cut_within_it():
    """A half of it would stay: nothing tells what that is."""
    job = refused(SECRET, "{} " * 5_000)
    attempt = job.attempts_made.get()
    for text in (job.reason, attempt.message, attempt.traceback):
        assert "********" in text
        assert SECRET[:3] not in text
        assert SECRET[-3:] not in text


def test_argument_that_does_not_fit_is_not_quoted():
    job = refused(12345678, "")
    attempt = job.attempts_made.get()
    assert "iban: " in job.reason
    for text in (job.reason, attempt.message, attempt.traceback):
        assert "12345678" not in text


def test_pages_exports_and_commands_mask_it(job):
    client = operator("view_job", "view_job_arguments")
    for address in (LIST, page_of(job), f"{LIST}export.csv", f"{LIST}export.json"):
        response = client.get(address)
        text = response.getvalue().decode() if response.streaming else text_of(response)
        assert SECRET not in text, address
        assert "a guitar" in text, address
    for command in (("list", "--json"), ("show", str(job.pk))):
        output = StringIO()
        call_command("jobs", *command, stdout=output)
        assert SECRET not in output.getvalue()
        assert "a guitar" in output.getvalue()
    assert SECRET not in text_of(client.get(status_url(job.pk)))


def test_it_cannot_be_searched(job):
    client = operator("view_job", "view_job_arguments")
    assert (
        list(client.get(LIST, {"q": f"iban:{SECRET}"}).context["cl"].result_list) == []
    )
    found = client.get(LIST, {"q": 'ibanez:"a guitar"'}).context["cl"].result_list
    assert list(found) == [job]


@pytest.mark.parametrize("value", ["iban", 5, ("",), (1,)])
def test_names_are_checked(value):
    with pytest.raises(InvalidTask, match="sensitive must be names of arguments"):
        task(name="tests.wrong", sensitive=value)(pay)


def pay_by(customer_iban: str, **details: str): ...
def pay_all(*ibans: str): ...


def test_misspelt_name_is_refused_at_the_declaration():
    says = r"sensitive: 'ibam' is no parameter of pay, which has iban, ibanez, order\."
    with pytest.raises(InvalidTask, match=says):
        task(name="tests.wrong", sensitive=("iban", "ibam"))(pay)


def test_arguments_without_a_name_cannot_be_sensitive():
    with pytest.raises(InvalidTask, match="'ibans' is no parameter of pay_all"):
        task(name="tests.wrong", sensitive=("ibans",))(pay_all)


def test_keyword_argument_of_any_name_can_be_sensitive():
    declared = task(name="tests.right", sensitive=("pin",))(pay_by)
    assert declared.options.sensitive == ("pin",)


@pytest.mark.parametrize("word", ["iban", "customer", "customer_iban"])
def test_word_of_a_parameters_name_can_be_sensitive(word):
    def pay(customer_iban: str): ...

    pay.__qualname__ = "pay"
    declared = task(name="tests.right", sensitive=(word,))(pay)
    assert declared.options.sensitive == (word,)


def test_sensitive_value_is_found_however_deep_it_is():
    value = {"password": "correct horse"}
    for _ in range(10_000):  # deeper than calls may be
        value = [value]
    assert list(values_of(value, ("password",))) == ["correct horse"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("123", "********"),
        ("ValueError: 123", "ValueError: ********"),
        ("KeyError: '123'", "KeyError: ********"),
        ("first line\nValueError: 123\n", "first line\nValueError: ********\n"),
        ("row 123 of 4123", "row 123 of 4123"),
        ("at 12:123", "at 12:123"),
        ("", ""),
    ],
)
def test_short_value_is_masked_where_it_stands_alone(text, shown):
    assert hiding('{"pin": 123, "note": "row"}', ("pin",))(text) == shown
