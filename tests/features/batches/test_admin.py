"""The admin of batches, and what the page of a job shows of those tied to it."""

import re
from itertools import pairwise

import pytest

from pgjobs import chain, enqueue, group
from pgjobs.features.batches.graph import Node, placed
from pgjobs.models import Batch, Job, Predecessor
from tests.actors import admit
from tests.admin.test_admin_ended import counts_of
from tests.operators import messages_of, operator, page_of, text_of
from tests.tasks import noop

pytestmark = pytest.mark.django_db

LIST = "/admin/pgjobs/batch/"


def make_batch(**options) -> Batch:
    return enqueue(group([noop.bind(), noop.bind(), noop.bind()], **options))


def page_of_batch(batch: Batch) -> str:
    return f"{LIST}{batch.pk}/change/"


def test_list_shows_counts_with_the_same_few_queries(django_assert_max_num_queries):
    client = operator("view_batch")
    for number in range(10):
        make_batch(description=f"<b>{number}")
    Job.objects.filter(pk__in=Job.objects.order_by("pk")[:2]).fail()
    client.get(LIST)
    with django_assert_max_num_queries(8):
        text = text_of(client.get(LIST))
    assert "&lt;b&gt;9" in text
    assert "2 of 3" in text
    assert "0 of 3" in text


def test_page_shows_the_callbacks_and_links_to_the_jobs():
    batch = make_batch(then=noop.bind(), on_failure=noop.bind())
    admit()
    text = text_of(operator("view_batch", "view_job").get(page_of_batch(batch)))
    for callback in Job.objects.filter(batch=None):
        assert page_of(callback) in text
    assert "needs its end" in text
    assert "needs its failure" in text
    assert f"?batch={batch.pk}&amp;status=READY" in text


def test_list_of_jobs_can_be_narrowed_to_a_batch():
    batch = make_batch()
    other = enqueue(noop)
    client = operator("view_job")
    text = text_of(client.get("/admin/pgjobs/job/", {"batch": batch.pk}))
    assert page_of(batch.jobs.all()[0]) in text
    assert page_of(other) not in text
    response = client.get("/admin/pgjobs/job/", {"batch": "x"})
    assert response.status_code == 302


def test_button_cancels_the_unfinished_jobs_after_a_confirmation():
    batch = make_batch()
    batch.jobs.filter(pk=batch.jobs.all()[0].pk).succeed()
    client = operator("view_batch", "cancel_job")
    address = f"{LIST}cancel/{batch.pk}/"
    assert address in text_of(client.get(page_of_batch(batch)))
    assert "csrfmiddlewaretoken" in text_of(client.get(address))
    assert batch.progress().ready == 2
    response = client.post(address, {"reason": "Not needed."})
    assert "Cancelled 2 jobs" in messages_of(response)[0]
    assert batch.progress().cancelled == 2
    assert set(batch.jobs.values_list("reason", flat=True)) == {"", "Not needed."}


def test_button_retries_the_failed_jobs_and_no_others():
    batch = make_batch()
    first, second, _ = batch.jobs.order_by("pk")
    first.fail()
    second.cancel()
    response = operator("view_batch", "retry_job").post(f"{LIST}retry/{batch.pk}/")
    assert "Retried 1 job." in messages_of(response)[0]
    assert batch.progress().cancelled == 1


@pytest.mark.parametrize("verb", ["cancel", "retry"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_acts_need_their_own_permission(verb, method):
    batch = make_batch()
    batch.jobs.all()[:1].fail()
    client = operator("view_batch")
    assert f"/{verb}/{batch.pk}/" not in text_of(client.get(page_of_batch(batch)))
    assert getattr(client, method)(f"{LIST}{verb}/{batch.pk}/").status_code == 403
    assert batch.progress().ready == 2


def test_batch_is_not_edited_or_deleted():
    batch = make_batch()
    client = operator("view_batch")
    assert client.post(page_of_batch(batch), {"description": "x"}).status_code == 403
    assert client.post(f"{LIST}{batch.pk}/delete/").status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403


@pytest.mark.parametrize("id", ["abc", "-1", "99999999999999999999", "%00"])
def test_address_of_no_batch_is_no_error(id):
    client = operator("view_batch", "cancel_job")
    assert client.get(f"{LIST}{id}/change/").status_code in (302, 404)
    assert client.get(f"{LIST}cancel/{id}/").status_code in (302, 404)


def test_page_of_a_job_shows_what_comes_before_and_after_it():
    first, second, third = enqueue(chain(*[noop.bind() for _ in range(3)]))
    admit()
    client = operator("view_job")
    text = text_of(client.get(page_of(second)))
    assert page_of(first) in text
    assert page_of(third) in text
    assert "Runs after" in text
    assert "What comes after it" in text
    text = text_of(client.get(page_of(first)))
    assert "Runs after" not in text


def test_predecessors_are_shown_as_keys_only_until_there_are_links():
    first, second = enqueue(chain(noop.bind(), noop.bind()))
    client = operator("view_job", "view_job_arguments")
    assert "after" in keys_on(client, second)
    admit()
    assert "Runs after" in text_of(client.get(page_of(second)))
    assert keys_on(client, first) == keys_on(client, second) == ""
    locked = noop.using(lock="shop", after=[first]).enqueue()
    admit()
    assert "shop" in keys_on(client, locked)
    assert "after" not in keys_on(client, locked)


def keys_on(client, job: Job) -> str:
    """Return the keys that the page of a job shows as JSON."""
    page = text_of(client.get(page_of(job)))
    return page.partition("Lock, limit, rate and predecessors")[2].partition("</pre>")[
        0
    ]


def drawn_on(page: str) -> list[str]:
    """Return the names in the boxes of the picture of a chain."""
    picture = page.partition('class="pgjobs-graph"')[2].partition("</svg>")[0]
    return re.findall(r"<text[^>]*>tests.noop (#\d+)", picture)


def link(job: Job, predecessor: Job) -> None:
    Predecessor.objects.create(job_id=job.pk, predecessor_id=predecessor.pk)


def test_page_of_a_job_draws_the_whole_chain():
    jobs = enqueue(chain(*[noop.bind() for _ in range(6)]))
    for earlier, later in pairwise(jobs):
        Predecessor.objects.get_or_create(job_id=later.pk, predecessor_id=earlier.pk)
    page = text_of(operator("view_job").get(page_of(jobs[2])))
    assert sorted(drawn_on(page)) == sorted(f"#{job.pk}" for job in jobs)
    assert "There are more jobs" not in page


def test_page_of_a_job_in_the_middle_of_many_draws_some_and_says_so():
    first, middle = enqueue(chain(noop.bind(), noop.bind()))
    admit()
    for _ in range(40):
        link(enqueue(noop), middle)
    page = text_of(operator("view_job").get(page_of(middle)))
    assert len(drawn_on(page)) == 12  # ten of those that follow
    assert f"#{first.pk}" in drawn_on(page)
    assert "There are more jobs" in page


def test_page_of_jobs_that_sql_has_put_in_a_circle_is_shown():
    first, second, third = enqueue(chain(*[noop.bind() for _ in range(3)]))
    admit()
    Predecessor.objects.get_or_create(job_id=third.pk, predecessor_id=second.pk)
    link(first, third)
    page = text_of(operator("view_job").get(page_of(second)))
    assert len(drawn_on(page)) == 3


def test_link_leads_to_the_right_even_past_another_job():
    one, two, three = (Node(id) for id in (1, 2, 3))
    links = [(one, two), (one, three), (two, three)]
    assert placed(one, links) == {one: 0, two: 1, three: 2}


def test_page_of_a_job_says_that_a_predecessor_is_gone():
    first, second = enqueue(chain(noop.bind(), noop.bind()))
    Job.objects.filter(pk=first.pk).discard()
    admit()
    text = text_of(operator("view_job").get(page_of(second)))
    assert f"#{first.pk}" in text
    assert "gone" in text


def test_page_of_a_job_links_to_its_batch_and_to_the_one_it_waits_for():
    _, last = enqueue(chain(group([noop.bind()]), noop.bind()))
    batch = Batch.objects.get()
    admit()
    client = operator("view_job")
    assert page_of_batch(batch) in text_of(client.get(page_of(batch.jobs.get())))
    assert page_of_batch(batch) in text_of(client.get(page_of(last)))


def test_empty_list_says_what_to_do_next():
    client = operator("view_batch")
    address = "/admin/pgjobs/batch/"
    assert "when a group of jobs is enqueued" in text_of(client.get(address))
    shown = text_of(client.get(address, {"q": "no such"}))
    assert "when a group of jobs is enqueued" not in shown


def test_jobs_of_a_row_are_counted_by_the_index_of_the_row():
    (count,) = counts_of(operator("view_job"), "status=FAILED&batch=1")
    assert "ORDER BY" not in count
