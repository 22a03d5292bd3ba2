"""`pausejobs` and `resumejobs`, and what `jobstatus` says of such queues."""

import json
import re

import pytest
from django.core.management import CommandError, call_command

from pgjobs import enqueue_many
from pgjobs.models import AuditEntry, Queue
from tests.actors import Hand, running_job
from tests.admin.test_admin_audit import entries
from tests.operators import make_job
from tests.processes import shared_queue
from tests.queue.test_queues import MAIL, make_queue, paused, printed

pytestmark = shared_queue


def test_commands_pause_and_resume():
    make_queue("known")
    running_job(MAIL)
    enqueue_many([MAIL.bind() for _ in range(2)])
    assert printed("pausejobs", "mail", "known", "--note", "moving").splitlines() == [
        "Paused mail: 2 ready jobs held back, 1 running job left to end.",
        "Paused known: 0 ready jobs held back, 0 running jobs left to end.",
    ]
    assert not Queue.objects.filter(paused_at=None).exists()
    assert set(Queue.objects.values_list("note", flat=True)) == {"moving"}
    assert printed("pausejobs", "mail") == "mail was paused already.\n"
    assert printed("resumejobs", "mail", "nothing").splitlines() == [
        "Resumed mail.",
        "nothing was not paused.",
    ]
    assert printed("resumejobs", "known", verbosity=0) == ""
    assert not Queue.objects.exclude(paused_at=None).exists()


def test_queue_that_no_worker_has_served_can_be_paused_by_its_name():
    MAIL.enqueue()
    assert not Queue.objects.exists()
    text = printed("pausejobs", "mial")
    assert text.endswith("No job has used this queue yet. Known queues: mail.\n")
    assert printed("pausejobs", "mail").startswith("Paused mail: 1 ready job held back")
    assert Hand().claim() == []


@pytest.mark.parametrize("command", ["pausejobs", "resumejobs"])
@pytest.mark.parametrize("name", ["", "a,b", "x" * 201, "a\nb"])
def test_commands_refuse_what_no_queue_is_called(command, name):
    with pytest.raises(CommandError, match="must be 1 to 200 characters"):
        call_command(command, name)


def test_commands_are_audited():
    call_command("pausejobs", "mail", verbosity=0)
    call_command("resumejobs", "mail", verbosity=0)
    call_command("resumejobs", "mail", verbosity=0)  # it changes nothing
    assert [(via, act, model, number) for via, act, model, _, number in entries()] == [
        ("command", "pause", "queue", 1),
        ("command", "resume", "queue", 1),
    ]
    assert "@" in AuditEntry.objects.order_by("pk")[0].actor


def test_command_that_refuses_leaves_no_entry():
    for arguments in (("tests.noop", "no pair"), ("tests.nobody_knows",)):
        with pytest.raises(CommandError):
            call_command("enqueuejob", *arguments)
    assert entries() == []


def test_status_shows_what_is_held_back():
    paused("idle")
    make_queue(max_running=2, note="moving\nto Kiel").pause()
    make_job("READY", queue_name="mail", enqueued_at="2020-01-01T00:00Z")
    lines = printed("jobstatus").splitlines()
    assert re.search(
        r"paused for [\d.]+ m?s, at most 2 running, moving to Kiel$", lines[2]
    )
    data = json.loads(printed("jobstatus", "--json"))
    assert data["queues"][1]["note"] == "moving\nto Kiel"
