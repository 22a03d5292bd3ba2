"""The page for an answer: who may open it, what it stores, and when it is over."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client, override_settings
from django.urls import NoReverseMatch
from django.utils.http import urlencode
from pydantic import BaseModel, Field

from pgjobs import Answer as Asked
from pgjobs.features.durable import visits
from pgjobs.models import Answer, AuditEntry, Job, Wait
from tests.actors import execute, in_thread
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.features.durable.test_answering_users import allow

pytestmark = pytest.mark.django_db(transaction=True)
urlpatterns: list[Any] = []  # of a project without pgjobs.urls
YES = {"answer-answer": "true"}


@dataclass
class Approval:
    approved: bool
    note: str = ""


class Amount(BaseModel):
    euros: int = Field(ge=1)
    tags: list[str] = Field(default=[], max_length=1)


def asks(job):
    return job.wait_for("question", bool, title="May it go on?")


def asks_anyone(job):
    return job.wait_for("question", bool, anyone_with_link=True)


def asks_by_permission(job):
    return job.wait_for("question", bool, permission="auth.add_user")


@pytest.fixture
def user(db) -> User:
    return allow(User.objects.create_user("ada"), "answer_job")


@pytest.fixture
def ada(client, user) -> Client:
    client.force_login(user)
    return client


def url_of(job: Job) -> str:
    return job.answer_url("question")


# Who may open it


def test_visitor_has_to_sign_in_first_and_comes_back(client):
    job = done(asks)
    response = client.get(url_of(job))
    assert response.status_code == 302
    assert (
        response["Location"] == f"/accounts/login/?{urlencode({'next': url_of(job)})}"
    )
    assert client.post(url_of(job), YES).status_code == 302
    assert not Answer.objects.exists()


@pytest.mark.parametrize(
    ("login_url", "back"),
    [
        ("/in/?by=card", "/in/?by=card&next=%2Fjobs%2Fanswer%2F"),
        ("admin:login", "/admin/login/?next=%2Fjobs%2Fanswer%2F"),
        ("https://id.test/", "https://id.test/?next=http%3A%2F%2Ftestserver%2Fjobs"),
    ],
)
def test_sign_in_may_be_anywhere(client, settings, login_url, back):
    settings.LOGIN_URL = login_url
    assert client.get(url_of(done(asks)))["Location"].startswith(back)


def test_user_with_the_permission_sees_the_form_and_answers(ada, user):
    job = done(asks)
    page = ada.get(url_of(job))
    assert page.status_code == 200
    assert b"May it go on?" in page.content
    assert not Answer.objects.exists()
    assert ada.post(url_of(job), YES).status_code == 200
    assert Answer.objects.get().answered_by == str(user.pk)
    assert goes_on(job).return_value is True


def test_user_without_the_permission_reads_why_and_is_audited(ada):
    job = done(asks_by_permission)
    for response in (ada.get(url_of(job)), ada.post(url_of(job), YES)):
        assert response.status_code == 403
        assert b"ada, who lacks the permission auth.add_user" in response.content
    assert not Answer.objects.exists()
    notes = AuditEntry.objects.values_list("actor", "act", "object_id", "note")
    assert list(notes) == 2 * [
        (
            "ada",
            "answer",
            job.pk,
            "Refused: question: ada lacks the permission auth.add_user.",
        )
    ]


def test_anyone_with_the_link_answers_if_the_task_says_so(client):
    job = done(asks_anyone)
    assert client.get(url_of(job)).status_code == 200
    assert client.post(url_of(job), YES).status_code == 200
    assert Answer.objects.get().answered_by is None
    assert goes_on(job).return_value is True


def test_user_without_the_permission_is_anyone_with_the_link(client):
    client.force_login(User.objects.create_user("bob"))
    job = done(asks_anyone)
    assert client.post(url_of(job), YES).status_code == 200
    assert goes_on(job).return_value is True


def test_link_is_not_enough_for_code_that_answers_by_a_user():
    job = done(asks_anyone)
    bob = User.objects.create_user("bob")
    with pytest.raises(PermissionDenied):
        job.answer("question", True, by=bob)


def test_answer_stands_in_the_audit_trail(client, ada):
    for body, browser in ((asks, ada), (asks_anyone, Client())):
        browser.post(url_of(done(body)), YES)
    entries = AuditEntry.objects.order_by("pk")
    assert [(e.actor, e.act, e.number, e.note) for e in entries] == [
        ("ada", "answer", 1, "question"),
        ("link", "answer", 1, "question"),
    ]


def test_project_without_users_serves_whoever_has_the_link(client):
    job = done(asks_anyone)
    with override_settings(
        MIDDLEWARE=[], TEMPLATES=without_processors(), INSTALLED_APPS=["pgjobs"]
    ):
        response = client.get(url_of(job))
    assert response.status_code == 200


def without_processors() -> list[dict[str, Any]]:
    return [
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
        }
    ]


# What may be sent


@pytest.mark.parametrize("method", ["get", "head"])
def test_only_a_post_answers(ada, method):
    job = done(asks)
    assert getattr(ada, method)(url_of(job), YES).status_code == 200
    assert not Answer.objects.exists()


@pytest.mark.parametrize("method", ["put", "delete", "patch"])
def test_other_methods_are_refused(ada, method):
    job = done(asks)
    assert getattr(ada, method)(url_of(job)).status_code == 405


@pytest.mark.parametrize("middleware", [True, False])
def test_post_of_another_site_is_refused(settings, middleware):
    if not middleware:
        settings.MIDDLEWARE = [m for m in settings.MIDDLEWARE if "csrf" not in m]
    job = done(asks_anyone)
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(url_of(job), YES).status_code == 403
    assert not Answer.objects.exists()
    strict.get(url_of(job))
    token = strict.cookies["csrftoken"].value
    sent = strict.post(url_of(job), {**YES, "csrfmiddlewaretoken": token})
    assert sent.status_code == 200


def test_page_is_kept_by_no_cache_and_in_no_frame(ada):
    response = ada.get(url_of(done(asks)))
    assert "no-store" in response["Cache-Control"]
    assert response["X-Frame-Options"] == "DENY"


def test_faults_of_the_form_are_said_beside_their_fields(ada):
    job = done(lambda job: job.wait_for("question", Approval) and None)
    response = ada.post(url_of(job), {"answer-approved": "", "answer-note": "why"})
    assert response.status_code == 400
    assert response.context["form"].errors.keys() == {"approved"}
    assert b"why" in response.content
    assert not Answer.objects.exists()
    assert not AuditEntry.objects.exists()


def test_faults_that_the_database_finds_are_said_beside_their_fields(ada):
    job = done(lambda job: job.wait_for("question", Amount) and None)
    response = ada.post(url_of(job), {"answer-euros": "5", "answer-tags": '["a", "b"]'})
    assert response.status_code == 400
    assert "at most 1 items" in response.context["form"].errors["tags"][0]
    assert not AuditEntry.objects.exists()


def test_too_long_answer_is_said_on_the_page(ada):
    job = done(lambda job: job.wait_for("question", str))
    response = ada.post(url_of(job), {"answer-answer": "x" * 70_000})
    assert response.status_code == 400
    assert "more than the 64000" in response.context["form"].errors["answer"][0]


@override_settings(SENSITIVE=["iban"])
def test_sensitive_values_are_masked_in_what_is_asked(client):
    job = bodies.secretive.enqueue("DE02120300000000202051")
    goes_on(job)
    page = client.get(url_of(job)).content
    assert b"DE02120300000000202051" not in page
    assert b"Pay to ********?" in page


# When it is over


def test_link_works_before_the_task_asks_and_says_so(client, ada):
    job = enqueued(asks)
    url = url_of(job)
    assert b"has not asked yet" in client.get(url).content
    assert client.post(url, YES).status_code == 409
    goes_on(job)
    assert ada.post(url, YES).status_code == 200


def test_task_makes_its_own_link():
    job = done(lambda job: job.answer_url("question"))
    assert job.return_value == url_of(job)


def answered(job):
    job.answer("question", True)


def taken(job):
    job.answer("question", True)
    goes_on(job)


def cancelled(job):
    job.cancel()


def retried(job):
    job.cancel()
    job.retry()
    goes_on(job)


def retried_with_steps(job):
    job.cancel()
    job.retry(keep_steps=True)
    goes_on(job)


def deleted(job):
    job.delete()


def marked(job):
    job.mark_step("question", True)


def out_of_time(job):
    execute("UPDATE pgjobs_wait SET deadline = now() - interval '1 hour'")
    execute("UPDATE pgjobs_waitnote SET due_at = now()")
    bodies.body = lambda job: (asks(job), job.sleep("on", timedelta(days=1)))
    goes_on(job)


OVER = [
    (answered, b"answered already"),
    (taken, b"answered already"),
    (cancelled, b"The job has ended"),
    (retried, b"started again"),
    (retried_with_steps, b"started again"),
    (deleted, b"has been deleted"),
    (marked, b"time to answer is over"),
    (out_of_time, b"time to answer is over"),
]


@pytest.mark.parametrize(("ends", "text"), OVER)
def test_old_link_says_why_and_changes_nothing(ada, ends, text):
    job = done(asks)
    url = url_of(job)
    ends(job)
    before = list(Answer.objects.values())
    for response in (ada.get(url), ada.post(url, YES)):
        assert response.status_code == 410
        assert text in response.content
    assert list(Answer.objects.values()) == before


@pytest.mark.parametrize(("ends", "text"), OVER)
def test_form_that_was_open_meanwhile_says_why_and_changes_nothing(
    ada, ends, text, monkeypatch
):
    """The wait ends between the look and the answer of one request."""
    job = done(asks)
    url = url_of(job)
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


def test_link_of_a_new_life_works(ada):
    job = done(asks)
    retried(job)
    assert ada.post(url_of(job), YES).status_code == 200
    assert goes_on(job).return_value is True


def test_user_who_sends_the_form_twice_reads_that_it_is_answered(ada):
    job = done(asks)
    ada.post(url_of(job), YES)
    again = ada.post(url_of(job), {"answer-answer": "false"})
    assert again.status_code == 410
    assert b"You have answered this already" in again.content
    assert goes_on(job).return_value is True


def test_of_two_who_answer_at_once_one_is_told_that_it_is_answered(user):
    job = done(asks)
    url = url_of(job)

    def send(value: str) -> int:
        browser = Client()
        browser.force_login(user)
        return browser.post(url, {"answer-answer": value}).status_code

    with in_thread(send, "true") as one, in_thread(send, "false") as two:
        assert sorted((one.result(60), two.result(60))) == [200, 410]
    assert Answer.objects.count() == 1


@pytest.mark.parametrize("token", ["x", "x.y", "eyJ.x", "é", "." * 500])
def test_link_that_nobody_has_signed_is_not_found(ada, token):
    assert ada.get(f"/jobs/answer/{token}/").status_code == 404


def test_link_of_another_name_is_another_one(ada):
    job = done(asks)
    assert b"has not asked yet" in ada.get(job.answer_url("other")).content


def test_address_of_the_status_is_no_link_to_an_answer(ada):
    job = done(asks)
    token = job.get_status_url().split("/")[-2]
    assert ada.get(f"/jobs/answer/{token}/").status_code == 404


def test_way_of_several_has_its_own_link(ada):
    def asks_twice(job):
        job.wait_for_first({"question": Asked(bool), "stop": Asked(bool)})
        job.sleep("on", timedelta(days=1))

    job = done(asks_twice)
    assert ada.post(job.answer_url("stop"), YES).status_code == 200
    assert goes_on(job).status == "SCHEDULED"
    assert b"time to answer is over" in ada.get(url_of(job)).content


def test_other_answer_of_several_settles_all_at_once(ada, user):
    ways = {"question": Asked(bool), "stop": Asked(bool)}
    job = done(lambda job: job.wait_for_first(ways))
    url = url_of(job)
    assert ada.post(job.answer_url("stop"), YES).status_code == 200
    for response in (ada.get(url), ada.post(url, YES)):
        assert response.status_code == 410
        assert b"answered already" in response.content
    assert not Wait.objects.answerable_by(user)


@override_settings(ROOT_URLCONF=__name__)
def test_link_without_the_urls_says_what_to_add():
    job = enqueued(asks)
    with pytest.raises(NoReverseMatch, match=r"include\('pgjobs.urls'\)"):
        url_of(job)


@pytest.mark.parametrize("name", ["", "x" * 201, None, 5])
def test_link_needs_a_name_that_an_answer_may_have(name):
    with pytest.raises(ValueError, match="must be 1 to 200 characters"):
        enqueued(asks).answer_url(name)


def test_longest_name_has_a_link(ada):
    name = "🦆" * 200
    job = done(lambda job: job.wait_for(name, bool, timeout=60))
    assert ada.get(job.answer_url(name)).status_code == 200


@pytest.mark.parametrize("asked", ["[]", "null", '{"schema": 5, "title": []}'])
def test_question_that_sql_has_stored_is_a_page(ada, asked):
    job = done(asks)
    execute(f"UPDATE pgjobs_wait SET asked = '{asked}'")
    assert ada.get(url_of(job)).status_code == 200
