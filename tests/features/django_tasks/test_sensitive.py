"""Of Django's tasks an argument is masked by the name that its place has."""

import json
from io import StringIO

import pytest
import sentry_sdk
from django.core.management import call_command

from pgjobs.contrib import sentry
from pgjobs.features.exporters.scrubbing import Scrubber
from pgjobs.models import Job
from pgjobs.reports.json_text import with_names
from pgjobs.reports.obstacles import lines
from tests import standard_tasks
from tests.actors import Hand, admit
from tests.features.exporters.test_sentry import initialise
from tests.operators import LIST, operator, page_of, text_of
from tests.processes import drain

pytestmark = pytest.mark.django_db(transaction=True)

IBAN, PASSWORD = "DE98765432", "correct horse"


@pytest.fixture
def job(use) -> Job:
    use()
    result = standard_tasks.pay.enqueue(IBAN, 1234, PASSWORD, "fast", how="fail")
    drain()
    return Job.objects.get(pk=result.id)


def leaks(text: str) -> list[str]:
    return [each for each in (IBAN, PASSWORD) if each in text]


def test_stored_texts_hide_it(job):
    assert job.args == [IBAN, 1234, PASSWORD, "fast"]
    attempt = job.attempts_made.get()
    assert job.reason == "ValueError: ******** has no 1234, ********, ('fast',)"
    assert leaks(attempt.message + attempt.traceback) == []


def test_pages_and_commands_hide_it(job):
    client = operator("view_job", "view_job_arguments", "view_taskdefinition")
    page = text_of(client.get(page_of(job)))
    assert "1234" in page
    assert "fast" in page
    for address in (page_of(job), LIST, f"{LIST}export.csv"):
        response = client.get(address)
        text = response.getvalue().decode() if response.streaming else text_of(response)
        assert leaks(text) == []
    for options in ((), ("--json",)):
        output = StringIO()
        call_command("jobs", "show", str(job.pk), *options, stdout=output)
        assert leaks(output.getvalue()) == []


def test_keys_that_are_made_of_it_hide_it(use):
    use()
    Hand()
    for amount in (1, 2):
        standard_tasks.pay.enqueue(IBAN, amount)
    admit()
    assert [each.obstacle.key for each in lines("default")] == ["********"]
    client = operator("view_job", "view_job_arguments")
    for job in Job.objects.all():
        assert leaks(text_of(client.get(page_of(job)))) == []
    assert leaks(text_of(client.get(f"{LIST}?q=lock:{IBAN}"))) == [IBAN]  # the box
    for term in (f"lock:{IBAN}", f"unique:{Job.objects.first().unique_key}"):
        found = client.get(LIST, {"q": term}).context["cl"].result_list
        assert list(found) == []


def test_sentry_hides_it(use):
    use()
    sentry.install()
    sent = initialise(send_default_pii=True)
    try:
        standard_tasks.pay.enqueue(IBAN, 1234, PASSWORD)
        drain()
    finally:
        sentry.uninstall()
        sentry_sdk.get_client().close()
        sentry_sdk.get_global_scope().set_client(None)
    assert sent.items
    for _, item in sent.items:
        assert leaks(json.dumps(item)) == []


def test_words_of_a_job_that_ended_without_a_worker_hide_it(job):
    assert leaks(Scrubber.of_job(job).text(f"{IBAN}, {PASSWORD}")) == []


def test_no_value_without_a_name_is_shown_of_a_task_that_is_not_known(use):
    """Its code is gone, and nobody can tell which one was sensitive."""
    use()
    job = Job.objects.create(task="default:gone.pay", args=[IBAN, {"a": PASSWORD}])
    client = operator("view_job", "view_job_arguments")
    assert leaks(text_of(client.get(page_of(job)))) == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[]", "{}"),
        ("[1]", '{"a":1}'),
        ('[1, "x"]', '{"a":1,"b":"x"}'),
        ('[[1, [2]], {"x": [3, {}]}, 4, [5]]', None),
        ('[1, 2, 3, {"x": 4}]', '{"a":1,"b":2,"rest":[3,{"x":4}]}'),
        ("[1, [2", '{"a":1,"b":[2'),
    ],
)
def test_values_get_the_names_of_their_places(text, shown):
    named = with_names(text, ("a", "b"), "rest")
    if shown is None:
        a, b, *rest = json.loads(text)
        assert json.loads(named) == {"a": a, "b": b, "rest": rest}
    else:
        assert named == shown
