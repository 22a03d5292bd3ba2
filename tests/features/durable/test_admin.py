"""The page of a job shows what it waits for."""

import pytest

from pgjobs import Answer
from tests.features.durable.bodies import done, enqueued, goes_on, secretive
from tests.operators import make_job, operator, page_of, text_of

pytestmark = pytest.mark.django_db(transaction=True)
HEADING = "What it waits for"


def test_question_is_shown_with_the_permission_that_its_answer_needs(admin_client):
    job = done(lambda job: job.wait_for("approval", bool, title="Refund 30?"))
    page = text_of(admin_client.get(page_of(job)))
    assert HEADING in page
    assert "Refund 30?" in page
    assert "(permission pgjobs.answer_job)" in page


def test_question_is_a_name_for_who_may_not_see_values():
    job = done(lambda job: job.wait_for("approval", bool, title="Refund 30?"))
    page = text_of(operator("view_job").get(page_of(job)))
    assert "approval" in page
    assert "Refund 30?" not in page


def test_each_of_several_ways_is_shown(admin_client):
    ways = {"paid": ("order.paid", "o-7"), "stop": Answer(bool, title="Stop it?")}
    job = done(lambda job: job.wait_for_first(ways))
    page = text_of(admin_client.get(page_of(job)))
    assert all(each in page for each in ("order.paid", "o-7", "Stop it?"))


def test_jobs_that_it_waits_for_are_links(admin_client):
    child = make_job("SCHEDULED")
    job = done(lambda job: job.wait_for_jobs("children", [child.pk]))
    page = admin_client.get(page_of(job)).content.decode()
    shown = page.partition(f'aria-label="{HEADING}"')[2].partition("</table>")[0]
    assert f'<a href="{page_of(child)}">' in shown


def test_sensitive_values_are_masked_in_the_question(admin_client):
    job = secretive.enqueue(iban="DE-secret-1")
    page = text_of(admin_client.get(page_of(goes_on(job))))
    assert "Pay to" in page
    assert "DE-secret-1" not in page


def test_what_is_over_and_what_has_not_begun_is_not_shown(admin_client):
    over = done(lambda job: job.wait_for("approval", bool))
    over.cancel()
    fresh = enqueued(lambda job: job.wait_for("approval", bool))
    for job in (over, fresh):
        assert HEADING not in text_of(admin_client.get(page_of(job)))
