"""The page of a job names the others of its call."""

import pytest

from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests.operators import page_of, text_of

from .tasks import enqueue_all, index, marking

pytestmark = pytest.mark.django_db(transaction=True)
HEADING = "Jobs of its call"


def test_page_names_the_jobs_of_its_call(admin_client, path):
    jobs = enqueue_all(index, path, range(4))
    run_jobs()
    for job in jobs:
        page = admin_client.get(page_of(job)).content.decode()
        shown = page.partition(HEADING)[2].partition("</ul>")[0]
        assert [each for each in jobs if page_of(each) in shown] == jobs
        assert shown.count("has the log of the call") == 1
        assert shown.count("this job") == (job != jobs[0])


def test_page_of_a_job_that_ran_alone_names_none(admin_client, path):
    (job,) = enqueue_all(index, path, [1])
    run_jobs()
    assert HEADING not in text_of(admin_client.get(page_of(job)))


def test_page_finds_the_others_after_the_first_job_has_run_again(admin_client, path):
    jobs = enqueue_all(marking, path, [6, 1, 2])
    run_jobs()
    first, second, third = jobs
    Job.objects.filter(pk=first.pk).run_now()
    enqueue_all(marking, path, [3])
    run_jobs()
    page = admin_client.get(page_of(second)).content.decode()
    shown = page.partition(HEADING)[2].partition("</ul>")[0]
    assert page_of(third) in shown
    assert page_of(first) not in shown


@pytest.mark.parametrize("chunk", [[1], "x", {"call": "x"}, {"call": 1, "first": []}])
def test_page_bears_whatever_sql_has_stored(chunk, admin_client, path):
    (job,) = enqueue_all(index, path, [1])
    Job.objects.update(chunk=chunk)
    assert admin_client.get(page_of(job)).status_code == 200


def test_long_calls_are_cut(admin_client, path, monkeypatch):
    monkeypatch.setattr("pgjobs.features.chunks.admin.MOST_COMPANIONS", 2)
    jobs = enqueue_all(index, path, range(4))
    run_jobs()
    page = text_of(admin_client.get(page_of(jobs[3])))
    assert "Only the first 2 are shown." in page
