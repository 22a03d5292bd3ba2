"""The admin says that a job is encrypted, and opens it by a click that is audited."""

import json
import re
from io import StringIO

import pytest
from django.core.management import call_command

from pgjobs import chain, enqueue, result
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.features.durable.tables import Answer
from pgjobs.models import AuditEntry, Job
from tests.features.desk.test_desk import link_to_run_again
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.features.encryption.keys import SECOND, keys
from tests.features.encryption.rows import whole_database
from tests.operators import ALL_PERMISSIONS, LIST, operator, page_of, text_of, url_of
from tests.processes import drain

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]
MAY = ("view_job", "view_job_arguments")
CLICK = "Show them, and note that in the audit trail"


def keeps(job, iban):
    job.step("look", lambda: {"step": iban})
    return {"result": iban}


@pytest.fixture
def job(monkeypatch) -> Job:
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", keeps)
    job = enqueue(bodies.pay, IBAN)
    drain()
    return Job.objects.get(pk=job.pk)


def address(job: Job) -> str:
    return f"{LIST}{job.pk}/read/"


def test_page_says_that_the_job_is_encrypted_and_shows_nothing_of_it(job):
    page = text_of(operator(*MAY).get(page_of(job)))
    assert "Encrypted" in page
    assert CLICK in page
    assert IBAN not in page
    assert job.kwargs["iban"] not in page
    assert job.keys["encrypted"]["by"] not in page


def test_click_shows_all_and_is_audited(job):
    client = operator(*MAY)
    response = client.post(address(job))
    page = text_of(response)
    assert page.count(IBAN) == 3  # argument, result and step
    assert "no-store" in response["Cache-Control"]
    entry = AuditEntry.objects.get()
    assert (entry.act, entry.object_id, entry.number) == ("read", job.pk, 1)
    assert entry.actor == client.user.username
    assert IBAN not in whole_database()


def test_it_needs_the_permission_and_a_post(job):
    watching = operator("view_job")
    page = text_of(watching.get(page_of(job)))
    assert "Encrypted" in page
    assert CLICK not in page
    assert watching.post(address(job)).status_code == 403
    assert operator(*MAY).get(address(job)).status_code == 405
    assert not AuditEntry.objects.exists()


def test_plain_job_has_nothing_to_open():
    job = enqueue(bodies.takes.using(queue_name="later"), "plain")
    client = operator(*MAY)
    assert CLICK not in text_of(client.get(page_of(job)))
    assert client.post(address(job)).status_code == 404


def test_process_without_the_key_says_so(job):
    with keys(SECOND):
        response = operator(*MAY).post(address(job), follow=True)
    assert "has no key with the id" in text_of(response)
    assert not AuditEntry.objects.exists()


def test_labelled_answer_is_shown(monkeypatch):
    from pgjobs import Answer as Way

    ways = {"yes": Way(str)}
    monkeypatch.setattr(bodies, "body", lambda job, iban: job.wait_for_first(ways))
    job = enqueue(bodies.pay, "x")
    drain()
    job.answer("yes", IBAN)
    drain()
    assert IBAN in text_of(operator(*MAY).post(address(job)))


def test_lists_exports_and_commands_show_nothing_of_it(job):
    client = operator(*MAY)
    output = StringIO()
    call_command("jobs", "show", str(job.pk), "--json", stdout=output)
    call_command("jobs", "show", str(job.pk), stdout=output)
    call_command("jobs", "list", "--json", stdout=output)
    call_command("jobstatus", "--json", stdout=output)
    texts = [text_of(client.get(LIST)), output.getvalue()]
    for kind in ("csv", "json"):
        exported = client.get(f"{LIST}export.{kind}")
        texts.append(b"".join(exported.streaming_content).decode())
    shown = "\n".join(texts)
    assert bodies.pay.name in shown
    assert IBAN not in shown
    assert job.kwargs["iban"] not in shown


@pytest.mark.parametrize("is_deep", [False, True])
def test_search_by_an_encrypted_argument_finds_nothing_and_says_so(job, is_deep):
    text = f"iban{'.x' * is_deep}:{job.kwargs['iban']}"
    page = text_of(operator(*MAY).get(LIST, {"q": text}))
    assert "0 jobs" in page
    assert "Searched in" in page  # another task may have a plain one of this name
    assert "Encrypted arguments cannot be searched: iban." in page
    watching = text_of(operator("view_job").get(LIST, {"q": text}))
    assert "cannot be searched" not in watching


def test_search_by_another_argument_is_as_ever(job):
    page = text_of(operator(*MAY).get(LIST, {"q": "order_id:87"}))
    assert "Searched in" in page
    assert "cannot be searched" not in page


def test_argument_of_a_job_whose_option_went_stays_masked(job):
    Job.objects.filter(pk=job.pk).update(task=bodies.takes.name)
    page = text_of(operator(*MAY).get(page_of(job)))
    assert job.kwargs["iban"] not in page
    assert "Encrypted" in page


def test_run_again_encrypts_the_arguments_for_the_new_job(job):
    client = operator(*MAY, *ALL_PERMISSIONS[1:])
    client.post(url_of("run_again", job))
    other = Job.objects.latest("pk")
    assert other.pk != job.pk
    assert other.keys["encrypted"]["by"] != job.keys["encrypted"]["by"]
    drain()
    assert [iban for iban, _ in bodies.got] == [IBAN, IBAN]


def test_run_again_without_the_key_says_so_and_enqueues_nothing(job):
    client = operator(*MAY, *ALL_PERMISSIONS[1:])
    with keys(SECOND):
        response = client.post(url_of("run_again", job), follow=True)
    assert "has no key with the id" in text_of(response)
    assert Job.objects.count() == 1


def test_run_again_with_changes_keeps_a_value_whose_field_is_empty(job):
    sync("default", declared())
    client = operator(*ALL_PERMISSIONS, "view_taskdefinition")
    url = link_to_run_again(text_of(client.get(page_of(job))))
    page = text_of(client.get(url))
    assert IBAN not in page
    assert job.kwargs["iban"] not in page
    client.post(url, {"argument-iban": "", "argument-amount": "9.5"})
    drain()
    assert [iban for iban, _ in bodies.got] == [IBAN, IBAN]
    assert str(bodies.got[-1][1]) == "9.5"


def test_page_of_a_job_that_got_an_encrypted_result_shows_nothing_of_it(monkeypatch):
    monkeypatch.setattr(bodies, "body", lambda job, iban: iban)
    jobs = enqueue(chain(bodies.pay.bind(IBAN), bodies.takes.bind(result)))
    drain()
    last = jobs[-1]
    client = operator(*MAY)
    page = text_of(client.get(page_of(last)))
    assert IBAN not in page
    assert IBAN in text_of(client.post(address(last)))


def test_status_address_shows_nothing_of_it(job):
    page = operator(*MAY).get(job.get_status_url(), headers={"accept": "*/*"})
    assert IBAN not in page.content.decode()
    assert "pgjobs_encrypted" not in json.dumps(page.content.decode())


def test_result_that_cannot_be_encrypted_is_refused_for_one_and_for_many(job):
    job = enqueue(bodies.pay.using(queue_name="later"), IBAN)
    client = operator(*MAY, *ALL_PERMISSIONS[1:])
    many = {
        "action": "succeed_selected",
        "_selected_action": [job.pk],
        "confirmed": "1",
        "return_value": '"x"',
    }
    with keys():
        one = client.post(url_of("succeed", job), {"return_value": '"x"'}, follow=True)
        assert "has no key" in text_of(one)
        assert "has no key" in text_of(client.post(LIST, many, follow=True))
    job.refresh_from_db()
    assert job.status == "READY"


def test_answer_that_cannot_be_encrypted_is_refused_on_its_page(monkeypatch):
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", lambda job, iban: job.wait_for("to", str))
    job = enqueue(bodies.pay, "x")
    drain()
    client = operator("answer_job")
    url = job.answer_url("to")
    field = "answer-question.seen"
    page = text_of(client.get(url))
    (seen,) = re.findall(rf'name="{field}" value="([^"]+)"', page)
    with keys():
        response = client.post(url, {"answer-answer": "x", field: seen})
    assert response.status_code == 400
    assert "has no key" in text_of(response)
    assert not Answer.objects.exists()


@pytest.mark.parametrize(
    "mark",
    [
        *(5, [], {}, {"by": 5}, {"by": "x", "names": 5}, {"by": "x"}),
        *({"by": "x", "names": [{}]}, {"by": "x", "names": {"iban": 1}}),
        {"by": "x", "rest": True},
    ],
)
def test_mark_that_cannot_be_read_breaks_no_page(job, mark):
    sync("default", declared())
    Job.objects.filter(pk=job.pk).update(keys={"encrypted": mark})
    client = operator(*ALL_PERMISSIONS, "view_taskdefinition")
    page = text_of(client.get(page_of(job)))
    assert client.get(link_to_run_again(page)).status_code == 200
    assert client.post(address(job), follow=True).status_code == 200


@pytest.mark.parametrize("mark", [None, 5, "x", []])
def test_what_cannot_be_read_is_said_by_the_click_and_at_a_terminal(job, mark):
    Job.objects.filter(pk=job.pk).update(keys={"encrypted": mark})
    client, output = operator(*MAY), StringIO()
    assert client.get(page_of(job)).status_code == 200
    response = client.post(address(job), follow=True)
    assert "cannot be read" in text_of(response)
    call_command("jobs", "show", str(job.pk), stdout=output)
    assert "SUCCESSFUL" in output.getvalue()
