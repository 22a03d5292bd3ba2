"""The tree of jobs that jobs have enqueued, on the page of each of them."""

import re

import pytest

from pgjobs import enqueue
from pgjobs.features.batches import family
from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests import tasks
from tests.operators import make_job, page_of, text_of

pytestmark = pytest.mark.django_db


def make_tree(*parents: int | None, correlation="c") -> list[Job]:
    """Make jobs; each number is the position of the job that enqueued this one."""
    jobs = []
    for parent in parents:
        meta = {"correlation_id": correlation}
        if parent is not None:
            meta["parent_id"] = jobs[parent].pk
        jobs.append(make_job(meta=meta))
    return jobs


def drawn_for(client, job: Job) -> list[int]:
    """Return the ids in the picture on a job's page, from top to bottom."""
    page = text_of(client.get(page_of(job)))
    picture = re.search(r'<svg class="pgjobs-graph pgjobs-tree".*?</svg>', page, re.S)
    found = re.findall(r"<title>\S+ #(\d+) ", picture[0]) if picture else []
    return [int(each) for each in found]


def test_each_job_of_a_tree_shows_the_whole_tree(admin_client, settings):
    settings.PGJOBS = {"META": ["tests.telemetry.hooks.tenant"]}
    first = enqueue(tasks.enqueue_noop)
    run_jobs()
    (child,) = Job.objects.exclude(pk=first.pk)
    for job in (first, child):
        assert drawn_for(admin_client, job) == [first.pk, child.pk]


def test_job_without_relatives_has_no_tree(admin_client):
    assert drawn_for(admin_client, make_job()) == []
    (lonely, *_) = make_tree(None, None)  # of one request, not of one job
    assert drawn_for(admin_client, lonely) == []


def test_jobs_stand_below_the_job_that_enqueued_them(admin_client):
    a, b, c, d = make_tree(None, 0, 0, 1)
    assert drawn_for(admin_client, d) == [a.pk, b.pk, d.pk, c.pk]


def test_tree_begins_with_the_first_job_that_is_left(admin_client):
    first, second, third = make_tree(None, 0, 1)
    first.delete()
    assert drawn_for(admin_client, third) == [second.pk, third.pk]


def test_tree_is_bounded(admin_client, monkeypatch, django_assert_max_num_queries):
    monkeypatch.setattr(family, "MOST", 40)
    root, *_ = make_tree(None, *[0] * 60)
    with django_assert_max_num_queries(20):
        assert len(drawn_for(admin_client, root)) == family.MOST_SHOWN
    assert "Only the first 30 are shown." in text_of(admin_client.get(page_of(root)))


@pytest.mark.parametrize("parent", ["x", -1, 10**30, None, [1], {"a": 1}, 1.5, True])
def test_rubbish_for_a_parent_is_no_parent(parent, admin_client):
    _first, second = make_tree(None, 0)
    second.meta["parent_id"] = parent
    second.save(update_fields=["meta"])
    assert drawn_for(admin_client, second) == []


@pytest.mark.parametrize("meta", [{"correlation_id": [1]}, {"correlation_id": "job-0"}])
def test_rubbish_in_meta_breaks_no_page(meta, admin_client):
    assert drawn_for(admin_client, make_job(meta=meta)) == []


def test_circle_of_jobs_ends(admin_client):
    first, second = make_tree(None, 0)
    first.meta["parent_id"] = second.pk
    first.save(update_fields=["meta"])
    assert sorted(drawn_for(admin_client, first)) == [first.pk, second.pk]
