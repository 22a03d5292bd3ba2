"""What operators come for, and in how many clicks from the admin's start page.

A click follows a link that is on the page, presses a button that is on it, or sends its
form, as a browser does. To type is no click.
"""

import html
import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from pgjobs import enqueue, publish
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.features.events.tables import Delivery
from pgjobs.models import (
    AuditEntry,
    ErrorGroup,
    Event,
    Job,
    Override,
    Queue,
    Schedule,
    Worker,
)
from tests import tasks
from tests.operators import make_job, make_worker

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_schedules")]

LINK = re.compile(r'<a\b[^>]*\bhref="([^"]*)"[^>]*>(.*?)</a>', re.S)
FORM = re.compile(r"<form\b([^>]*)>(.*?)</form>", re.S)
FIELD = re.compile(r"<input\b([^>]*)>")
TAGS = re.compile(r"<[^>]+>")


def attribute(tag: str, name: str) -> str:
    found = re.search(rf'\b{name}="([^"]*)"', tag)
    return html.unescape(found[1]) if found else ""


class Person:
    """An operator who begins at the admin's start page and counts clicks."""

    def __init__(self, client: Client):
        self.client = client
        self.clicks = 0
        self.see(client.get("/admin/"))

    def see(self, response) -> None:
        while response.status_code == 302:
            response = self.client.get(self.address_of(response.url))
        assert response.status_code == 200
        self.address = response.wsgi_request.get_full_path()
        self.text = response.content.decode()

    def address_of(self, link: str) -> str:
        """Return where a link of the page leads."""
        path = self.address.partition("?")[0] if hasattr(self, "address") else ""
        return path + link if link.startswith("?") or not link else link

    def click(self, words: str, within: str = "") -> None:
        """Follow the first link that says so, behind a text of the page."""
        part = self.text[self.text.index(within) :]
        links = [
            html.unescape(address)
            for address, label in LINK.findall(part)
            if html.unescape(TAGS.sub("", label)).strip().startswith(words)
        ]
        assert links, f"no link says {words!r}"
        self.clicks += 1
        self.see(self.client.get(self.address_of(links[0])))

    def submit(self, holds: str, **typed) -> None:
        """Send the first form that holds a text."""
        form, body = next(each for each in FORM.findall(self.text) if holds in each[1])
        fields = {
            attribute(each, "name"): attribute(each, "value")
            for each in FIELD.findall(body)
            if attribute(each, "name") and attribute(each, "type") != "checkbox"
        }
        address = self.address_of(attribute(form, "action") or self.address)
        send = self.client.post if 'method="post"' in form else self.client.get
        self.clicks += 1
        self.see(send(address, {**fields, **typed}))

    def sees(self, *texts: str) -> bool:
        return all(each in html.unescape(self.text) for each in texts)


CONFIRM = 'name="confirmed"'
BUTTON = 'class="submit-row"'


def waiting_job(person: Person) -> bool:
    make_job("WAITING")
    person.click("Jobs")
    person.click("Waiting")
    return person.sees("no worker is alive")


def ready_job(person: Person) -> bool:
    Queue.objects.create(name="mail").pause()
    make_job("READY", queue_name="mail")
    person.click("Jobs")
    person.click("Ready")
    return person.sees("its queue has been paused since")


def retry_of_one_error(person: Person) -> bool:
    ErrorGroup.objects.create(id=7, task="tests.noop", exception_class="shop.Gone")
    jobs = [make_job(error_group=7), make_job(error_group=7)]
    other = make_job()
    person.click("Background jobs")
    person.click("Overview")
    person.submit('value="retry_selected"')
    person.submit(CONFIRM)
    return set(Job.objects.ready()) == set(jobs) and other in Job.objects.failed()


def cancel_of_a_running_job(person: Person) -> bool:
    job = make_job("RUNNING")
    person.click("Jobs")
    person.click("Running", within="pgjobs-tabs")
    person.click("Cancel", within='id="result_list"')
    person.submit(BUTTON)
    job.refresh_from_db()
    return job.cancel_requested_at is not None


def other_arguments(person: Person) -> bool:
    sync("default", declared())
    enqueue(tasks.add, 41)
    person.click("Jobs")
    person.click("tests.add", within='id="result_list"')
    person.click("Run again with changes")
    person.submit("argument-a", **{"argument-a": "5"})
    return Job.objects.filter(kwargs={"a": 5, "b": 1}).exists()


def history(person: Person) -> bool:
    make_job("SUCCESSFUL", attempts=1, last_attempted_at=timezone.now())
    person.click("Jobs")
    person.click("tests.noop", within='id="result_list"')
    return person.sees("Timeline", "Attempt 1: Successful after")


def pause(person: Person) -> bool:
    Queue.objects.create(name="mail")
    person.click("Queues")
    person.click("Pause", within='id="result_list"')
    person.submit('name="note"', note="The server moves.")
    queue = Queue.objects.get()
    return queue.paused_at is not None and queue.note == "The server moves."


def next_run(person: Person) -> bool:
    made = Schedule(name="night", task="tests.noop", cron="0 3 * * *")
    made.plan_again(timezone.now())
    made.save()
    person.click("Schedules")
    return person.sees("night", "03:00:00")


def dead_letter(person: Person) -> bool:
    event: Event = publish("tests.clicked", {})
    job = make_job()
    Delivery.objects.create(job=job, event=event, task="tests.noop")
    Event.objects.filter(pk=event.pk).update(handlers=1)
    person.click("Events")
    person.click("Redeliver failed", within='id="result_list"')
    person.submit(BUTTON)
    job.refresh_from_db()
    return job.status == "READY"


def workers(person: Person) -> bool:
    make_worker("station", memory=3 << 20)
    person.click("Workers")
    return person.sees("station", "Alive", "3.0\xa0MB")


def search(person: Person) -> bool:
    job = make_job(kwargs={"order_id": 87})
    make_job(kwargs={"order_id": 88})
    person.click("Jobs")
    person.submit('id="searchbar"', q="order_id:87")
    return person.sees(f"/{job.pk}/change/", "1 job")


def live_job(person: Person) -> bool:
    make_job("RUNNING", last_attempted_at=timezone.now() - timedelta(minutes=4))
    person.click("Jobs")
    person.click("Running", within="pgjobs-tabs")
    person.click("tests.noop", within='id="result_list"')
    return person.sees("data-pgjobs-live", "has been running for 4 min")


def what_is_wrong(person: Person) -> bool:
    hours = timezone.now() - timedelta(hours=2)
    Queue.objects.create(name="mail", paused_at=hours, note="The server moves.")
    person.click("Overview")
    return person.sees("Queue mail has been paused for 2 h", "The server moves.")


def limit_of_a_queue(person: Person) -> bool:
    Queue.objects.create(name="mail")
    person.click("Queues")
    person.click("mail", within='id="result_list"')
    person.submit('name="max_running"', max_running="5")
    return Queue.objects.get().max_running == 5


def pause_of_a_task(person: Person) -> bool:
    sync("default", declared())
    person.click("Tasks")
    person.submit('id="searchbar"', q="tests.add")
    person.click("tests.add", within='id="result_list"')
    person.click("Change at run time")
    person.submit('name="note"', paused="on", lasts="0")
    return Override.objects.filter(key="tests.add").exists()


def quiet_worker(person: Person) -> bool:
    make_worker("station")
    person.click("Workers")
    person.click("station", within='id="result_list"')
    person.click("Quiet")
    person.submit(BUTTON)
    return Worker.objects.get().wanted == "quiet"


def who_did_it(person: Person) -> bool:
    AuditEntry.objects.create(actor="ada", via="page", act="retry", model="job")
    person.click("Audit entries")
    return person.sees("ada", "retry")


# The review's table: what it takes at most.
CLICKS: dict[Callable[[Person], bool], int] = {
    waiting_job: 2,
    ready_job: 2,
    retry_of_one_error: 4,
    cancel_of_a_running_job: 4,
    other_arguments: 4,
    history: 2,
    pause: 3,
    next_run: 1,
    dead_letter: 4,
    workers: 1,
    search: 2,
    live_job: 3,
    what_is_wrong: 2,
    limit_of_a_queue: 3,
    pause_of_a_task: 5,
    quiet_worker: 4,
    who_did_it: 2,
}


@pytest.mark.parametrize(
    ("task", "most"), CLICKS.items(), ids=lambda each: getattr(each, "__name__", "")
)
def test_operator_gets_there_within_so_many_clicks(task, most, admin_client):
    person = Person(admin_client)
    assert task(person), person.text
    assert person.clicks <= most
