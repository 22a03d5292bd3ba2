"""The commands `queues`, `pausejobs` and `resumejobs`."""

import json
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from pgjobs import enqueue_many
from pgjobs.models import AuditEntry, Queue
from tests import tasks
from tests.actors import Hand, running_job
from tests.operators import insert
from tests.processes import shared_queue

pytestmark = shared_queue

MAIL = tasks.noop.using(queue_name="mail")


def printed(*arguments: str, **options) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, **options)
    return out.getvalue()


def test_commands_pause_and_resume():
    Queue.objects.create(name="known")
    running_job(MAIL)
    enqueue_many([MAIL.bind() for _ in range(2)])
    assert printed("pausejobs", "mail", "known", "--note", "moving").splitlines() == [
        "Paused mail: 2 ready jobs held back, 1 running job left to end.",
        "Paused known: 0 ready jobs held back, 0 running jobs left to end.",
    ]
    assert not Queue.objects.filter(paused_at=None).exists()
    assert set(Queue.objects.values_list("note", flat=True)) == {"moving"}
    assert printed("pausejobs", "mail") == "mail was paused already.\n"
    assert printed("resumejobs", "mail") == "Resumed mail.\n"
    assert printed("resumejobs", "mail") == "mail was not paused.\n"
    assert printed("resumejobs", "known", verbosity=0) == ""
    assert not Queue.objects.exclude(paused_at=None).exists()


def test_queue_that_no_worker_has_served_can_be_paused_by_its_name():
    MAIL.enqueue()
    assert not Queue.objects.exists()
    text = printed("pausejobs", "mial")
    assert text.endswith("No job has used this queue yet. Did you mean 'mail'?\n")
    assert printed("pausejobs", "mail").startswith("Paused mail: 1 ready job held back")
    assert Hand().claim() == []


@pytest.mark.parametrize("command", ["pausejobs", "resumejobs"])
@pytest.mark.parametrize("name", ["", "a,b", "x" * 201, "a\nb"])
def test_commands_refuse_what_no_queue_is_called(command, name):
    with pytest.raises(CommandError, match="must be 1 to 200 characters"):
        call_command(command, name)


def test_resuming_an_unknown_queue_is_refused_before_another_is_resumed():
    Queue.objects.create(name="mail").pause()
    with pytest.raises(CommandError, match=r"'mial'\. Did you mean 'mail'\?") as caught:
        call_command("resumejobs", "mail", "mial")
    assert caught.value.returncode == 1
    assert Queue.objects.exclude(paused_at=None).exists()


def test_acts_on_queues_are_audited_with_their_names():
    call_command("pausejobs", "mail", verbosity=0)
    call_command("resumejobs", "mail", verbosity=0)
    call_command("resumejobs", "mail", verbosity=0)  # it changes nothing
    printed("queues", "limit", "mail", "5", "--note", "5 connections")
    printed("queues", "limit", "mail", "5")  # neither does this
    entries = AuditEntry.objects.order_by("pk")
    assert list(entries.values_list("via", "act", "model", "number", "chosen")) == [
        ("command", "pause", "queue", 1, "mail"),
        ("command", "resume", "queue", 1, "mail"),
        ("command", "limit", "queue", 1, "mail: at most 5"),
    ]
    assert "@" in entries[0].actor
    assert entries[2].note == "5 connections"


def test_limit_is_set_and_lifted_also_of_a_queue_without_a_row():
    insert(queue_name="'mail'")
    assert printed("queues", "limit", "mail", "1") == "mail is now limited to 1 job.\n"
    assert Queue.objects.get().max_running == 1
    assert printed("queues", "limit", "mail", "none") == "mail is now unlimited.\n"
    assert Queue.objects.get().max_running is None
    assert "No job has used this queue yet" in printed("queues", "limit", "mial", "2")


@pytest.mark.parametrize("limit", ["0", "-1", "many", ""])
def test_limit_that_is_no_number_is_refused(limit):
    with pytest.raises(CommandError, match="whole number of at least 1"):
        call_command("queues", "limit", "mail", limit)
    assert not Queue.objects.exists()


def test_queues_are_listed_with_and_without_rows():
    Queue.objects.create(name="idle")
    Queue.objects.create(name="mail", max_running=2, note="slow").pause()
    insert(queue_name="'mail'")
    insert(queue_name="'reports'")
    head, idle, mail, note, reports = printed("queues").splitlines()
    assert head.split()[:2] == ["queue", "ready"]
    assert (idle.split()[0], mail.split()[:2]) == ("idle", ["mail", "1"])
    assert note.startswith("  paused for ")
    assert note.endswith("at most 2 running, slow")
    assert reports.split()[0] == "reports"
    listed = json.loads(printed("queues", "list", "--json"))
    assert [each["name"] for each in listed] == ["idle", "mail", "reports"]


def test_status_shows_what_is_held_back_below_the_queue():
    Queue.objects.create(name="mail", max_running=2, note="moving\nto Kiel").pause()
    insert(queue_name="'mail'")
    lines = printed("jobstatus").splitlines()
    row = next(n for n, line in enumerate(lines) if line.startswith("mail "))
    pattern = r"  paused for [\d.]+ m?s, at most 2 running, moving to Kiel"
    assert re.fullmatch(pattern, lines[row + 1])
    data = json.loads(printed("jobstatus", "--json"))
    assert data["queues"][0]["note"] == "moving\nto Kiel"


def test_command_that_refuses_leaves_no_entry():
    with pytest.raises(CommandError):
        call_command("enqueuejob", "shop.no_such_task")
    assert not AuditEntry.objects.exists()
