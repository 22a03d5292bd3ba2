"""What commands do at a terminal and in a pipe, and what their help ends with."""

import shlex
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import OutputWrapper
from django.utils import timezone

from pgjobs.features import entries
from pgjobs.management.speaking import CLOSED_PIPE
from pgjobs.management.tables import cut, print_table
from pgjobs.models import Queue
from tests.features.operating.test_jobstatus import terminal  # noqa: F401
from tests.operators import insert, make_job, make_worker
from tests.processes import ROOT, process_environment, shared_queue

OURS = sorted(name for name, app in get_commands().items() if app == "pgjobs")


def manage(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-W", "ignore", "-m", "django", *arguments]
    environment = process_environment(None)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    )


@shared_queue
@pytest.mark.parametrize("arguments", [("jobstatus",), ("jobs", "list")])
def test_pipe_that_closes_is_no_error(arguments):
    make_job("READY")
    process = manage(*arguments)
    assert process.stdout is not None
    process.stdout.close()  # as `head` does when it has enough
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == CLOSED_PIPE


@shared_queue
def test_problems_of_a_check_are_printed_as_they_are():
    insert(queue_name="'mail'", enqueued_at="now() - interval '90 seconds'")
    process = manage("jobstatus", "--check")
    output, errors = process.communicate()
    assert (output, process.returncode) == ("", 1)
    assert "Queue mail has 1 job to run, but no worker serves it.\n" in errors
    assert "CommandError" not in errors


@pytest.mark.parametrize("command", OURS)
def test_help_ends_with_examples_that_the_command_takes(command):
    examples = dict(entries("examples", "EXAMPLES"))
    made = load_command_class("pgjobs", command)
    parser = made.create_parser("manage.py", command)
    assert examples[command]
    for name in [each for each in examples if each.split()[0] == command]:
        for line in examples[name]:
            first, *arguments = shlex.split(line)
            assert first == command
            parser.parse_args(arguments)
    last = parser.format_help().split("Examples:\n")[1].splitlines()
    assert last == [f"  manage.py {line}" for line in examples[command]]


@pytest.mark.django_db
def test_status_fits_a_terminal_whatever_names_and_notes_are_long(terminal):  # noqa: F811
    queue = Queue.objects.create(name="q" * 80, note="the provider is down " * 5)
    queue.pause()
    insert(queue_name=f"'{queue.name}'")
    make_worker("web1-" + "7f9c" * 10, queues="mail,reports," + "q" * 80)
    make_job("FAILED", task="shop." + "charge_card" * 6, finished_at=timezone.now())
    call_command("jobstatus", stdout=terminal, no_color=True)
    lines = terminal.getvalue().splitlines()
    (note,) = [line for line in lines if line.startswith("  paused for ")]
    tables = [line for line in lines if not line.endswith(".") and line != note]
    assert max(map(len, tables)) <= 80
    assert [line.split()[0] for line in lines if line.endswith("state")] == ["worker"]


def test_cut_texts_keep_what_says_most():
    assert cut("shop.charge_card", 16) == "shop.charge_card"
    assert cut("shop.billing.charge_card", 12) == "shop.…e_card"
    assert cut("the provider is down", 12) == "the provide…"


def test_notes_stand_below_their_rows():
    out = StringIO()
    rows = [("a", 1), ("b", 2)]
    print_table(OutputWrapper(out), ("name", "n"), rows, "", notes=["", "why"])
    assert out.getvalue() == "name  n\na     1\nb     2\n  why\n"


def test_argument_that_is_no_utf_8_is_an_error_and_no_traceback():
    process = manage("jobs", "list", "--task", b"caf\xe9")
    output, errors = process.communicate()
    assert errors == "Error: the argument 'caf\\udce9' is not UTF-8.\n"
    assert (output, process.returncode) == ("", 2)
