"""The admin: what waits for the answer of a user, and the page that takes it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from pgjobs import Answer as Asked
from pgjobs.admin.markup import exact
from pgjobs.features.durable import questions
from pgjobs.models import Answer, AuditEntry, Wait
from tests.actors import execute
from tests.admin.test_admin_timeline import moments_of
from tests.features.durable import bodies, test_waits_of_users
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_waits_of_users import DEFAULT, blocks_of, many_waits
from tests.operators import LIST, messages_of, operator, page_of, text_of

pytestmark = pytest.mark.django_db(transaction=True)
WAITS = "/admin/pgjobs/wait/"
OVERVIEW = f"{LIST}overview/"
YES = {"answer-answer": "true"}
DAY = timedelta(days=1)
SCAN = "Seq Scan"


def asks(job):
    return job.wait_for("question", bool, title="May it go on?")


def asks_by_permission(job):
    title = "Refund 30?"
    return job.wait_for("question", bool, title=title, permission="auth.add_user")


def listed(client, **query) -> list[Any]:
    response = client.get(WAITS, query)
    assert response.status_code == 200
    return response.context["cl"].result_list


def address_of(job, name: str = "question") -> str:
    token = job.answer_url(name).split("/")[-2]
    return f"{WAITS}answer/{token}/"


# Who sees what


@pytest.mark.parametrize("body", [asks, asks_by_permission])
def test_user_with_the_one_permission_sees_and_answers(body):
    client = operator("answer_job" if body is asks else "add_user")
    job = done(body)
    (wait,) = listed(client)
    assert wait.answer_at == address_of(job)
    assert wait.job_at == ""
    page = text_of(client.get(WAITS))
    assert "Waits for you" in page
    assert ("May it go on?" if body is asks else "Refund 30?") in page
    assert "May" in text_of(client.get(wait.answer_at)) or body is not asks
    response = client.post(wait.answer_at, YES)
    assert response["Location"] == WAITS
    assert messages_of(response) == ["Your answer is stored."]
    assert Answer.objects.get().answered_by == str(client.user.pk)
    assert goes_on(job).return_value is True
    assert listed(client) == []
    assert "Nothing waits for your answer." in text_of(client.get(WAITS))


def test_user_without_the_permission_sees_nothing_and_is_refused():
    client = operator("add_user")
    job = done(asks)
    assert listed(client) == []
    (wait,) = Wait.objects.all()
    assert client.get(f"{WAITS}{wait.pk}/change/").status_code == 403
    for response in (client.get(address_of(job)), client.post(address_of(job), YES)):
        assert response.status_code == 403
        lacks = f"{client.user}, who lacks the permission pgjobs.answer_job"
        assert lacks in text_of(response)
    assert not Answer.objects.exists()
    assert [entry.note for entry in AuditEntry.objects.all()] == 2 * [
        f"Refused: question: {client.user} lacks the permission pgjobs.answer_job."
    ]


def test_who_may_view_jobs_sees_all_questions_without_a_link():
    client = operator("view_job")
    job = done(asks_by_permission)
    (wait,) = listed(client)
    assert (wait.job_at, wait.answer_at) == (page_of(job), "")
    page = text_of(client.get(WAITS))
    assert "Waits for people" in page
    assert "/answer/" not in page
    assert "Refund 30?" not in page  # it may have values
    assert client.get(f"{WAITS}{wait.pk}/change/")["Location"] == page_of(job)
    assert listed(client, by="you") == []
    assert "Nothing waits for your answer." in text_of(client.get(f"{WAITS}?by=you"))


def test_who_may_view_jobs_and_answer_some_narrows_the_list():
    client = operator("view_job", "answer_job")
    mine, other = done(asks), done(asks_by_permission)
    assert [wait.job for wait in listed(client)] == [mine, other]
    assert [bool(wait.answer_at) for wait in listed(client)] == [True, False]
    assert [wait.job for wait in listed(client, by="you")] == [mine]


def test_superuser_sees_and_answers_all(admin_client):
    jobs = [done(asks), done(asks_by_permission)]
    for wait in listed(admin_client):
        assert admin_client.post(wait.answer_at, YES).status_code == 302
    assert [goes_on(job).return_value for job in jobs] == [True, True]


def test_visitors_and_users_outside_the_staff_are_sent_to_sign_in(client):
    job = done(asks)
    for address in (WAITS, address_of(job)):
        assert client.get(address).status_code == 302
        client.force_login(User.objects.create_user(f"outside{len(address)}"))
        assert client.get(address).status_code == 302
    assert client.post(address_of(job), YES).status_code == 302
    assert not Answer.objects.exists()


def test_index_has_the_list_for_those_whom_something_asks():
    clients = [operator(each) for each in ("add_user", "answer_job", "view_job")]
    outsider = operator("add_user")
    expected = [False, True, True]
    assert [WAITS in text_of(each.get("/admin/")) for each in clients] == expected
    done(asks_by_permission)
    assert all(WAITS in text_of(each.get("/admin/")) for each in clients)
    assert WAITS in text_of(outsider.get("/admin/pgjobs/"))
    assert WAITS not in text_of(operator().get("/admin/"))


def test_link_of_a_row_leads_to_the_page_for_the_answer():
    client = operator("answer_job")
    job = done(asks)
    (wait,) = Wait.objects.all()
    assert client.get(f"{WAITS}{wait.pk}/change/")["Location"] == address_of(job)
    gone = client.get(f"{WAITS}{wait.pk + 1}/change/")
    assert gone["Location"] == WAITS
    assert client.get(f"{WAITS}x/change/")["Location"] == WAITS


@pytest.mark.parametrize("page", ["add/", "1/delete/"])
def test_nobody_adds_or_deletes_a_wait(admin_client, page):
    done(asks)
    Wait.objects.update(id=1)
    assert admin_client.get(WAITS + page).status_code == 403


def test_link_that_nobody_has_signed_is_not_found(admin_client):
    assert admin_client.get(f"{WAITS}answer/x/").status_code == 404


def test_each_label_has_a_row_of_its_own():
    client = operator("answer_job")
    ways = {"paid": "order.paid", "question": Asked(bool), "stop": Asked(str)}
    job = done(lambda job: job.wait_for_first(ways))
    assert [wait.shown_question for wait in listed(client)] == ["question", "stop"]
    client.post(address_of(job), YES)
    assert listed(client) == []


@override_settings(SENSITIVE=["iban"])
def test_sensitive_values_are_masked_in_what_is_asked(admin_client):
    job = bodies.secretive.enqueue("DE02120300000000202051")
    goes_on(job)
    for address in (WAITS, OVERVIEW, address_of(job), page_of(job)):
        page = text_of(admin_client.get(address))
        assert "DE02120300000000202051" not in page
        assert "Pay to ********?" in page


# The page of a job


def test_page_of_the_job_leads_to_the_answer_and_back():
    client = operator("view_job", "answer_job")
    job = done(asks)
    page = text_of(client.get(page_of(job)))
    assert "May it go on?" in page
    assert f'<a href="{address_of(job)}?from=page">Answer this</a>' in page
    response = client.post(f"{address_of(job)}?from=page", YES)
    assert response["Location"] == page_of(job)
    assert LogEntry.objects.get().object_id == str(job.pk)


def test_page_of_the_job_has_no_link_for_who_may_not_answer():
    job = done(asks_by_permission)
    page = text_of(operator("view_job", "answer_job").get(page_of(job)))
    assert "(permission auth.add_user)" in page
    assert "Answer this" not in page


def test_page_of_the_job_shows_until_when_it_sleeps():
    job = done(lambda job: job.sleep("cool-off", DAY))
    page = text_of(operator("view_job").get(page_of(job)))
    table = page.partition('aria-label="What it waits for"')[2].partition("</table>")[0]
    assert "cool-off" in table
    assert "the end of its sleep" in table
    assert exact(job.run_after) in table


def test_timeline_names_who_has_answered():
    client = operator("answer_job")
    job = done(asks)
    client.post(address_of(job), YES)
    assert f"Answered by {client.user}: question" in moments_of(job)
    for gone in ("4711", "no key", "9" * 30):
        Answer.objects.update(answered_by=gone)
        assert f"Answered by user {gone}: question" in moments_of(job)


def test_answer_stands_in_the_audit_trail_which_the_overview_shows(admin_client):
    job = done(asks)
    admin_client.post(address_of(job), YES)
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.act, entry.via) == ("admin", "answer", "page")
    assert (entry.object_id, entry.number, entry.note) == (job.pk, 1, "question")
    assert f"answer job #{job.pk}" in text_of(admin_client.get(OVERVIEW))


# The overview


def test_overview_begins_with_what_waits_for_the_user(monkeypatch):
    monkeypatch.setattr(questions, "MOST_SHOWN", 2)
    client = operator("view_job", "answer_job")
    jobs = [done(asks) for _ in range(3)]
    done(asks_by_permission)
    response = client.get(OVERVIEW)
    (table,) = response.context["first"]
    assert table.title == "Waits for you (3)"
    page = text_of(response)
    assert page.index("Waits for you (3)") < page.index("pgjobs-strip")
    assert [address_of(job) in page for job in jobs] == [True, True, False]
    assert f'<a href="{WAITS}?by=you">Show all</a>' in page


def test_overview_is_silent_where_nothing_waits_for_the_user():
    done(asks)
    assert "Waits for you" not in text_of(operator("view_job").get(OVERVIEW))


def test_overview_and_list_say_if_there_is_more(monkeypatch):
    monkeypatch.setattr(questions, "MOST_LISTED", 2)
    client = operator("view_job", "answer_job")
    for _ in range(3):
        done(asks)
    assert "Waits for you (2+)" in text_of(client.get(OVERVIEW))
    assert len(listed(client)) == 2
    assert "These are the oldest 2; there are more." in text_of(client.get(WAITS))


# Many waits


def statements_of(client, address: str) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return [each["sql"] for each in queries]


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes_of(child)


def plan_of(sql: str) -> dict[str, Any]:
    ((found,),) = execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}")
    return found[0]["Plan"]


@pytest.mark.parametrize("permissions", [["answer_job"], ["answer_job", "view_job"]])
def test_pages_take_as_many_statements_with_many_waits(permissions, monkeypatch):
    client = operator(*permissions)
    job = done(asks)
    pages = [WAITS, address_of(job)]
    if "view_job" in permissions:
        pages += [f"{WAITS}?by=you", OVERVIEW, page_of(job), "/admin/"]
    for address in pages:  # which fills caches of the process
        client.get(address)
    numbers = []
    for many in (10, 10_000):
        monkeypatch.setattr(test_waits_of_users, "MANY", many)
        many_waits([DEFAULT])
        numbers.append([len(statements_of(client, address)) for address in pages])
    assert numbers[0] == numbers[1]
    assert max(numbers[0][:2]) <= 15


def test_pages_read_little_beside_many_waits():
    client = operator("answer_job", "view_job")
    job = done(asks)
    many_waits([DEFAULT])
    for address, most in ((WAITS, 20_000), (OVERVIEW, 20_000), (address_of(job), 300)):
        asking = [sql for sql in statements_of(client, address) if "pgjobs_wait" in sql]
        assert sum(blocks_of(plan_of(sql)) for sql in asking) < most, address
        # A thousand waits of ten thousand may be read by their ids or by a scan. So the
        # scan is made dear here: it is chosen where no index serves.
        execute("SET enable_seqscan = off")
        nodes = [node for sql in asking for node in nodes_of(plan_of(sql))]
        execute("RESET enable_seqscan")
        read = {node["Relation Name"] for node in nodes if node["Node Type"] == SCAN}
        assert read <= {"pgjobs_answer", "pg_sequence"}, address  # which are small
