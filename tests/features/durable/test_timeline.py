"""The timeline of a job in the admin: its waits, and who answered."""

import pytest

from pgjobs import Answer
from pgjobs.testing import run_jobs
from tests.admin.test_admin_timeline import moments_of
from tests.features.durable import bodies
from tests.features.durable.bodies import enqueued
from tests.operators import operator, page_of, text_of

pytestmark = pytest.mark.django_db


def test_timeline_names_a_wait_once():
    ways = {"approve": Answer(bool)}
    job = enqueued(lambda job: job.wait_for_first(ways))
    run_jobs()
    assert "Waits for an answer: approve" in moments_of(job)


def test_timeline_has_waits_and_answers():
    job = enqueued(lambda job: job.wait_for("approval", bool))
    run_jobs()
    page = operator("view_job").get(page_of(job))
    assert "its task waits for an answer" in text_of(page)
    job.answer("approval", True)
    run_jobs()
    texts = moments_of(job)
    assert "Waits for an answer: approval" in texts
    assert texts.index("Answered: approval") < texts.index("Has waited: approval")


def test_page_leads_to_the_jobs_for_which_and_as_which_a_job_goes_on():
    bodies.body = lambda job, number: number == 2 or job.continue_as(number + 1)
    bodies.numbered.enqueue()
    first, second, last = run_jobs()
    client = operator("view_job")
    for job, others in [(first, [second, last]), (second, [first, last])]:
        links = client.get(page_of(job)).context["succession"]
        assert [link.url for link in links] == [page_of(each) for each in others]
    assert f"Goes on for job {first.pk}" in moments_of(second)
    assert f"Goes on as job {last.pk}" in moments_of(second)
