"""An answer that comes too late, twice or to another question: on both pages.

Each ends in a page that says why. It changes nothing, and stands in the audit trail.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from django.contrib.auth.models import User
from django.test import Client

from pgjobs import Answer as Asked
from pgjobs.features.durable import visits
from pgjobs.models import Answer, AuditEntry, Job, Wait
from tests.actors import execute, in_thread, overlapping
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_answer_page import OVER, YES
from tests.features.durable.test_answering_users import allow

pytestmark = pytest.mark.django_db(transaction=True)
NO = {"answer-answer": "false"}


@dataclass
class Approval:
    approved: bool
    note: str


def asks(job):
    return job.wait_for("question", bool, title="May it go on?")


def public(job: Job) -> str:
    return job.answer_url("question")


def in_admin(job: Job) -> str:
    return f"/admin/pgjobs/wait/answer/{public(job).split('/')[-2]}/"


PAGES = (public, in_admin)
on_both_pages = pytest.mark.parametrize("page", PAGES)


@pytest.fixture
def user(db) -> User:
    return allow(User.objects.create_user("ada", is_staff=True), "answer_job")


def browser_of(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


@pytest.fixture
def ada(user) -> Client:
    return browser_of(user)


def is_stored(response) -> bool:
    """Whether a page has taken the answer; that of the admin leads back."""
    return response.status_code in (200, 302)


def notes() -> list[tuple[str, int | None, str]]:
    entries = AuditEntry.objects.filter(act="answer").order_by("pk")
    return [(entry.actor, entry.number, entry.note) for entry in entries]


def sent_by(page: Callable[[Job], str], browser: Client, job: Job) -> dict[str, str]:
    """Return what the form of a page sends with an answer."""
    form = browser.get(page(job)).context["form"]
    (hidden,) = form.hidden_fields()
    return {hidden.html_name: hidden.value()}


# Too late


@on_both_pages
@pytest.mark.parametrize(("ends", "text"), OVER)
def test_old_link_says_why_changes_nothing_and_is_audited(ada, page, ends, text):
    job = done(asks)
    url, id = page(job), job.pk
    ends(job)
    before = list(Answer.objects.values())
    AuditEntry.objects.all().delete()
    assert ada.get(url).status_code == 410
    assert notes() == []
    response = ada.post(url, YES)
    assert response.status_code == 410
    assert text in response.content
    assert list(Answer.objects.values()) == before
    ((actor, number, note),) = notes()
    assert (actor, number) == ("ada", 0)
    assert note.startswith("Refused: question: ")
    assert text.decode() in note
    assert AuditEntry.objects.get().object_id == id


@on_both_pages
@pytest.mark.parametrize(("ends", "text"), OVER)
def test_form_that_was_open_meanwhile_says_why_changes_nothing_and_is_audited(
    ada, page, ends, text, monkeypatch
):
    """The wait ends between the look and the answer of one request."""
    job = done(asks)
    url = page(job)
    before = []

    def late(*arguments):
        ends(job)
        before.extend(Answer.objects.values())
        return store(*arguments)

    store = visits.store
    monkeypatch.setattr(visits, "store", late)
    response = ada.post(url, YES)
    assert response.status_code == 410
    assert text in response.content
    assert list(Answer.objects.values()) == before
    assert [note.startswith("Refused: question: ") for *_, note in notes()] == [True]


@on_both_pages
def test_answer_that_comes_before_the_question_is_refused_and_audited(ada, page):
    job = bodies.enqueued(asks)
    response = ada.post(page(job), YES)
    assert response.status_code == 409
    assert "has not asked yet" in response.content.decode()
    assert [note[:38] for *_, note in notes()] == [
        "Refused: question: The job has not ask"
    ]


@on_both_pages
def test_refusal_is_audited_in_english_and_said_in_the_language_of_the_reader(
    ada, page, settings
):
    job = done(asks)
    url = page(job)
    job.cancel()
    settings.LANGUAGE_CODE = "de"
    response = ada.post(url, YES)
    assert "Der Job ist beendet" in response.content.decode()
    assert "The job has ended" in notes()[0][2]


def test_visitor_with_a_link_that_is_over_is_audited_as_the_link():
    job = done(lambda job: job.wait_for("question", bool, anyone_with_link=True))
    url = public(job)
    assert Client().post(url, YES).status_code == 200
    assert Client().post(url, NO).status_code == 410
    assert [(actor, number) for actor, number, _ in notes()] == [
        ("link", 1),
        ("link", 0),
    ]


@on_both_pages
def test_refusal_is_said_where_nothing_can_be_written(page):
    """A page of a replica would lead to itself for ever."""
    browser = browser_of(User.objects.create_user("bob", is_staff=True))
    url = page(done(asks))
    execute("SET default_transaction_read_only = on")
    try:
        response = browser.get(url)
    finally:
        execute("SET default_transaction_read_only = off")
    assert response.status_code == 403
    assert b"lacks the permission" in response.content


# Twice


@on_both_pages
def test_form_that_is_sent_twice_answers_once(ada, page):
    job = done(asks)
    assert is_stored(ada.post(page(job), YES))
    again = ada.post(page(job), NO)
    assert again.status_code == 410
    assert b"You have answered this already" in again.content
    assert goes_on(job).return_value is True
    assert [(number, note) for _, number, note in notes()] == [
        (1, "question"),
        (0, "Refused: question: You have answered this already."),
    ]


def test_answer_by_two_people_in_the_same_second_is_taken_once(user):
    job = done(asks)
    bob = allow(User.objects.create_user("bob", is_staff=True), "answer_job")

    def send(page, who: User, data: dict[str, str]):
        return browser_of(who).post(page(job), data)

    first, second = (public, user, YES), (in_admin, bob, NO)
    with in_thread(send, *first) as one, in_thread(send, *second) as two:
        responses = [one.result(60), two.result(60)]
    (late,) = (each for each in responses if not is_stored(each))
    assert late.status_code == 410
    assert b"This has been answered already" in late.content
    answer = Answer.objects.get()
    assert goes_on(job).return_value is answer.value
    numbers = {actor: number for actor, number, _ in notes()}
    assert numbers == {
        "ada": int(answer.answered_by == str(user.pk)),
        "bob": int(answer.answered_by == str(bob.pk)),
    }


@on_both_pages
@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
def test_second_of_two_waits_for_the_first_at_any_isolation(user, page, level):
    job = done(asks)

    def second():
        execute(f"SET default_transaction_isolation = '{level}'")
        return browser_of(user).post(page(job), NO)

    _, late = overlapping(lambda: job.answer("question", True), second)
    assert late.status_code == 410
    assert b"answered already" in late.content
    assert goes_on(job).return_value is True
    assert len(notes()) == 1


@on_both_pages
def test_answer_to_another_label_at_the_same_time_is_taken_once(user, page):
    ways = {"question": Asked(bool), "stop": Asked(bool)}
    job = done(lambda job: job.wait_for_first(ways))
    _, late = overlapping(
        lambda: job.answer("stop", True), lambda: browser_of(user).post(page(job), YES)
    )
    assert late.status_code == 410
    assert goes_on(job).return_value == ["stop", True]


@on_both_pages
def test_job_that_is_deleted_while_the_answer_waits_for_it_is_said_to_be_gone(
    user, page
):
    job = done(asks)
    url = page(job)
    _, late = overlapping(job.delete, lambda: browser_of(user).post(url, YES))
    assert late.status_code == 410
    assert b"has been deleted" in late.content
    assert not Answer.objects.exists()


@on_both_pages
def test_state_that_changes_with_each_look_asks_to_open_the_link_again(
    ada, page, monkeypatch
):
    job = done(asks)
    monkeypatch.setattr(visits, "store", lambda *arguments: False)
    response = ada.post(page(job), YES)
    assert response.status_code == 409
    assert b"Open this link again" in response.content


# Another question


def wake(job: Job) -> Job:
    """Let a worker run the job again, which asks anew."""
    execute("SELECT pgjobs_let_go_on(ARRAY[%(id)s])", {"id": job.pk})
    return goes_on(job)


@on_both_pages
def test_type_that_a_deploy_has_changed_is_asked_on_the_same_page(ada, page):
    job = done(asks)
    sent = {**sent_by(page, ada, job), **YES}
    bodies.body = lambda job: job.wait_for("question", Approval).note
    wake(job)
    response = ada.post(page(job), sent)
    assert response.status_code == 400
    form = response.context["form"]
    assert "has changed since this page was opened" in form.non_field_errors()[0]
    assert {"approved"} <= form.errors.keys()
    assert not Answer.objects.exists()
    (hidden,) = form.hidden_fields()
    sent = {hidden.html_name: hidden.value(), "answer-approved": "true"}
    assert is_stored(ada.post(page(job), {**sent, "answer-note": "fine"}))
    assert goes_on(job).return_value == "fine"


@on_both_pages
def test_other_question_of_the_same_type_is_not_answered_unseen(ada, page):
    job = done(asks)
    sent = {**sent_by(page, ada, job), **YES}
    bodies.body = lambda job: job.wait_for("question", bool, title="Shall it stop?")
    wake(job)
    response = ada.post(page(job), sent)
    assert response.status_code == 400
    assert b"Shall it stop?" in response.content
    assert not Answer.objects.exists()
    again = {**sent_by(page, ada, job), **NO}
    assert is_stored(ada.post(page(job), again))
    assert goes_on(job).return_value is False


@on_both_pages
def test_same_question_that_is_asked_again_is_the_same(ada, page):
    job = done(asks)
    sent = {**sent_by(page, ada, job), **YES}
    wake(job)
    assert is_stored(ada.post(page(job), sent))


@on_both_pages
def test_page_of_a_project_may_leave_the_hidden_field_out(ada, page):
    assert is_stored(ada.post(page(done(asks)), YES))


@on_both_pages
def test_answer_that_the_new_code_does_not_take_is_dropped_and_asked_again(
    ada, page, user
):
    job = done(lambda job: job.wait_for("question", Literal["yes", "no"]))
    assert is_stored(ada.post(page(job), {"answer-answer": '"yes"'}))
    bodies.body = lambda job: job.wait_for("question", Literal["go", "stop"])
    assert goes_on(job).status == "WAITING"
    assert not Answer.objects.exists()
    assert [note.partition(": ")[0] for *_, note in notes()] == ["question", "Refused"]
    assert {actor for actor, *_ in notes()} == {"ada"}
    assert list(Wait.objects.answerable_by(user)) == list(Wait.objects.all())
    assert is_stored(ada.post(page(job), {"answer-answer": '"go"'}))
    assert goes_on(job).return_value == "go"


@on_both_pages
def test_question_that_a_deploy_has_dropped_is_said_to_be_asked_no_more(ada, page):
    job = done(asks)
    bodies.body = lambda job: job.wait_for("other", bool)
    wake(job)
    response = ada.post(page(job), YES)
    assert response.status_code == 409
    assert "does not ask this any more" in response.content.decode()
    assert not Answer.objects.exists()


@on_both_pages
@pytest.mark.parametrize("when", ["before", "between"])
def test_permission_that_a_deploy_has_changed_is_asked_for(
    ada, page, when, monkeypatch
):
    job = done(asks)
    url = page(job)

    def deploy():
        bodies.body = lambda job: job.wait_for(
            "question", bool, title="May it go on?", permission="auth.add_user"
        )
        wake(job)

    def late(*arguments):
        deploy()
        return store(*arguments)

    store = visits.store
    if when == "before":
        deploy()
    else:
        monkeypatch.setattr(visits, "store", late)
    response = ada.post(url, YES)
    assert response.status_code == 403
    assert b"ada, who lacks the permission auth.add_user" in response.content
    assert not Answer.objects.exists()
    assert [note for *_, note in notes()] == [
        "Refused: question: ada lacks the permission auth.add_user."
    ]


def test_description_of_a_type_is_no_markup(ada):
    job = done(asks)
    schema = '{"type": "boolean", "description": "<b>1</b> & 2"}'
    execute(
        "UPDATE pgjobs_wait SET asked = jsonb_set(asked, '{schema}', %(schema)s)",
        {"schema": schema},
    )
    for page in PAGES:
        content = ada.get(page(job)).content.decode()
        assert "&lt;b&gt;1&lt;/b&gt; &amp; 2" in content
        assert "<b>1</b>" not in content
