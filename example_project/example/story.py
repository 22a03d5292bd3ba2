"""The headless demo: everything the example does, once, with the real processes."""

import time
from io import BytesIO

from django.conf import settings
from django.db import transaction
from django.urls import reverse
from pgjobs.features.events.tables import State
from pgjobs.models import Event, Job
from pyarrow import csv, parquet

from passes.elements import read_elements
from passes.ingest import ingest_elements
from passes.models import Notice, Pass, Satellite

from .browser import Browser

ELEMENTS = settings.BASE_DIR / "data" / "satellites.tle"
NO_ORBIT = settings.BASE_DIR / "data" / "no_orbit.tle"  # two satellites
CORRECTED = settings.BASE_DIR / "data" / "corrected.tle"  # the first of them
CBERS_2 = 28057  # Flies over the poles, so every station sees it.
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.05  # more often than Retry-After asks for: the story tells times
CSV_ROWS = 200_000


class StoryFailed(Exception):
    """Something did not happen as the story tells it."""


class Story:
    """Play it with a web server; say() prints, check() is called while it waits."""

    def __init__(self, address, say, check):
        self.browser = Browser(address)
        self.say = say
        self.check = check
        self.newest_job = newest_job()

    def ingest(self):
        """Tell how elements and jobs are committed together: both, or neither."""
        text = ELEMENTS.read_text(encoding="utf-8")
        numbers = [elements.catalog_number for elements in read_elements(text)]
        forget_satellites(numbers)

        before = newest_job()
        with transaction.atomic():
            ingest_elements(text)
            transaction.set_rollback(True)
        expect(newest_job() == before, "what is rolled back leaves no job")
        self.say("Ingest", f"{ELEMENTS.name}, rolled back: no satellites, no jobs.")

        changed, jobs = self._ingest(text)
        expect(jobs == 2 * changed == 2 * len(numbers), "every event has two handlers")
        self.say("", f"{ELEMENTS.name}: {changed} satellites, {jobs} jobs by event.")
        changed, jobs = self._ingest(text)
        expect(jobs == changed == 0, "the same elements again change nothing")
        self.say("", f"The same file again: {changed} satellites changed, {jobs} jobs.")

    def recompute(self):
        """Tell how the worker does these jobs."""
        jobs = Job.objects.filter(pk__gt=self.newest_job)
        unfinished = jobs.filter(finished_at=None)
        self._wait_until(lambda: not unfinished.exists(), "every job is finished")
        failed = jobs.failed().first()
        expect(not failed, f"no job failed, but {failed}: {failed and failed.reason}")
        passes = Pass.objects.count()
        self.say("Recompute", f"{jobs.count()} jobs done, {passes} passes predicted.")

    def deliver_again(self):
        """Tell what becomes of events whose handlers fail, or are cancelled."""
        text = NO_ORBIT.read_text(encoding="utf-8")
        forget_satellites([elements.catalog_number for elements in read_elements(text)])
        first, second = dead = self._publish(text)
        told = Notice.objects.filter(event__in=[event.pk for event in dead])
        expect(state_of(first) == state_of(second) == State.DEAD, "both are dead")
        expect(told.exists(), "the stations were told all the same")
        self.say("Events", "2 satellites without an orbit: 2 dead letters.")

        (event,) = self._publish(CORRECTED.read_text(encoding="utf-8"), cancel=True)
        expect(state_of(event) == State.CANCELLED, "one delivery was cancelled")
        self.say("", "One corrected, without telling the stations: 1 cancelled.")

        expect(first.redeliver() == (1, 0), "only what has failed runs again")
        self._wait_until(lambda: state_of(first) == State.DELIVERED, "it is delivered")
        expect(state_of(second) == State.DEAD, "the other one is still dead")
        self.say(
            "", "Its dead letter redelivered: the other handler did not run again."
        )

    def press_the_button(self):
        """Tell how a button answers at once, and the page sees the job through."""
        page = reverse("passes:satellite_detail", args=[CBERS_2])
        expect(self.browser.get(page).status == 200, f"{page} is shown")
        pressed = self.browser.press(reverse("passes:recompute", args=[CBERS_2]))
        job = self._follow("Button", pressed)
        shown = self.browser.get(page).content.count(b"<meter")
        expect(shown == job["return_value"]["passes"] > 0, f"{page} shows the passes")
        self.say("", f"{page} shows {shown} passes.")

    def convert(self):
        """Tell how a file is converted, and back, while the web server stays quick."""
        original = sample_csv(CSV_ROWS)
        upload_page = reverse("converter:upload")
        self.browser.get(upload_page)
        uploaded = self.browser.upload(upload_page, "samples.csv", original)
        page, packed = self._download("Upload", uploaded)
        rows = parquet.read_table(BytesIO(packed)).num_rows
        expect(rows == CSV_ROWS, "the Parquet file has every row")
        self.say("", f"{rows} rows: CSV {size(original)}, Parquet {size(packed)}.")

        pressed = self.browser.press(f"{page}back/")
        _, back = self._download("Way back", pressed)
        same = csv.read_csv(BytesIO(back)) == csv.read_csv(BytesIO(original))
        expect(same, "the table survives the round trip")
        self.say("", "The table is the same as before.")

    def refuse(self):
        """Tell what becomes of files that hold no table."""
        page = reverse("converter:upload")
        empty = self.browser.upload(page, "empty.csv", b"")
        expect(empty.status == 400, "an empty file is refused")
        error = empty.json()["errors"]["file"][0]
        self.say("Bad files", f"Empty: {empty.status}. {error}")
        ragged = self.browser.upload(page, "ragged.csv", b"a,b\n1,2\n3\n")
        expect(ragged.status == 202, "a ragged file is accepted")
        job = self._poll(ragged.json()["status_url"])[-1].json()
        expect(job["status"] == "FAILED", "a ragged file fails its job")
        self.say("", f"Ragged: {job['status']}. {job['reason']}")

    def _publish(self, text, cancel=False):
        """Ingest elements; return their events once no delivery is on its way.

        `cancel`: the notification, before any worker can see it.
        """
        newest = Event.objects.order_by("pk").values_list("pk", flat=True).last() or 0
        events = Event.objects.filter(pk__gt=newest).order_by("pk")
        with transaction.atomic():
            ingest_elements(text)
            if cancel:
                jobs = Job.objects.filter(delivery__event__in=events)
                jobs.filter(task="passes.notify_stations").cancel(
                    "Nobody asked for it."
                )
        self._wait_until(lambda: not events.pending().exists(), "all are delivered")
        return list(events)

    def _ingest(self, text):
        before = newest_job()
        changed = ingest_elements(text).changed
        return changed, Job.objects.filter(pk__gt=before).count()

    def _download(self, what, answer):
        """Follow a conversion to its end; return its page and the result."""
        self._follow(what, answer)
        page = answer.json()["result_url"]
        expect(self.browser.get(page).status == 200, f"{page} is shown")
        return page, self.browser.get(f"{page}result/").content

    def _follow(self, what, answer):
        """Poll the job that an answer names until it succeeded, and tell about it."""
        expect(answer.status == 202, f"202 accepted, got {answer.status}")
        started = time.monotonic()
        polled = self._poll(answer.json()["status_url"])
        took = time.monotonic() - started
        job, slowest = polled[-1].json(), max(poll.seconds for poll in polled)
        expect(job["status"] == "SUCCESSFUL", f"{job['status']}: {job['reason']}")
        self.say(
            what,
            f"202 after {milliseconds(answer.seconds)}; "
            f"job {answer.json()['job']} {job['status']} {milliseconds(took)} later "
            f"({len(polled)} polls, the slowest {milliseconds(slowest)}).",
        )
        return job

    def _poll(self, status_url):
        """Return every answer of the status URL, the last one tells of the end."""
        answers = []

        def finished():
            answers.append(self.browser.get(status_url))
            expect(answers[-1].status == 200, f"{status_url} is served")
            return answers[-1].json()["finished"]

        self._wait_until(finished, f"{status_url} tells of the end")
        return answers

    def _wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            self.check()
            expect(time.monotonic() < deadline, f"{what} within {PATIENCE_SECONDS} s")
            time.sleep(POLL_SECONDS)


def newest_job():
    """Return the highest id so far."""
    return Job.objects.order_by("pk").values_list("pk", flat=True).last() or 0


def state_of(event):
    """Return what became of an event."""
    return Event.objects.with_state().get(pk=event.pk).state


@transaction.atomic
def forget_satellites(numbers):
    """Delete what an earlier run has ingested."""
    satellites = Satellite.objects.filter(catalog_number__in=numbers)
    list(satellites.select_for_update())  # First, as in the task: else a deadlock.
    satellites.delete()


def sample_csv(rows):
    """Return a table of several types as CSV."""
    lines = (f"{row},{row * 0.25},sample {row % 97}" for row in range(rows))
    return "\n".join(["id,value,name", *lines, ""]).encode()


def expect(truth, what):
    """Raise StoryFailed unless it is true."""
    if not truth:
        raise StoryFailed(f"Expected: {what}.")


def milliseconds(seconds):
    """Write a duration for people."""
    return f"{seconds * 1000:.0f} ms"


def size(content):
    """Write the size of a file for people."""
    return f"{len(content) / 1024:.0f} KiB"
