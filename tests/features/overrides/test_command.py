"""`manage.py tasks`: what operators change of tasks and keys, at a terminal."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs.features.overrides import command
from pgjobs.models import AuditEntry, Override, TaskDefinition
from tests.features.operating.test_jobstatus import terminal  # noqa: F401

pytestmark = pytest.mark.django_db

KEYS = {"max_running": 3, "rate_interval": 0.6, "rate_burst": 100}
CHARGE = "shop.charge_card"


@pytest.fixture(autouse=True)
def definitions():
    TaskDefinition.objects.all().delete()
    make("shop.mail", {"queue_name": "mail"})
    make(CHARGE, {"queue_name": "default", "keys": KEYS})


def make(name: str, options: dict) -> None:
    TaskDefinition.objects.create(
        name=name, options=options, parameters={}, synced_at=timezone.now()
    )


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("tasks", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def refused(*arguments: str) -> CommandError:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    return caught.value


def test_task_is_paused_with_a_note_and_resumed():
    said = run("pause", CHARGE, "--note", "provider is down")
    assert said == f"{CHARGE} is now paused.\n"
    assert run("pause", CHARGE) == f"{CHARGE} was already paused.\n"
    override = Override.objects.get()
    assert (override.kind, override.key) == ("task", CHARGE)
    assert override.note == "provider is down"
    assert run("resume", CHARGE) == f"{CHARGE} is now as the code says.\n"
    assert run("resume", CHARGE) == f"{CHARGE} was already as the code says.\n"
    assert not Override.objects.exists()
    entries = AuditEntry.objects.order_by("pk").values_list("via", "act", "note")
    assert list(entries) == [
        ("command", "override", "provider is down"),
        ("command", "lift", ""),
    ]


def test_limit_and_rate_are_set_for_a_time_and_lifted():
    said = run("set", CHARGE, "--max-running", "1", "--rate", "5/hour", "--for", "4h")
    assert said.startswith(f"{CHARGE} is now max_running 1, rate 5/hour, until 20")
    override = Override.objects.get()
    assert (override.max_running, override.rate) == (1, "5/hour")
    hours = (override.until - timezone.now()) / timedelta(hours=1)
    assert 3.9 < hours < 4.1
    run("pause", CHARGE)
    assert Override.objects.get().max_running == 1
    assert "max_running 1" in run("resume", CHARGE)
    run("lift", CHARGE)
    assert not Override.objects.exists()


def test_keys_are_paused_and_changed_without_a_task():
    assert run("pause", "--lock-key", "erp-7") == "lock erp-7 is now paused.\n"
    run("set", "--rate-key", "mailgun", "--rate", "20/minute")
    run("set", "--limit-key", "mail", "--max-running", "2")
    assert sorted(Override.objects.values_list("kind", "key")) == [
        ("limit", "mail"),
        ("lock", "erp-7"),
        ("rate", "mailgun"),
    ]
    assert "rate mailgun: rate 20/minute\n" in run()


def test_what_the_code_does_not_declare_cannot_be_changed():
    error = refused("set", "shop.mail", "--rate", "1/minute")
    assert "declares no rate" in str(error)
    assert error.returncode == 1
    assert "declares no max_running" in str(
        refused("set", "shop.mail", "--max-running", "1")
    )
    assert "no max_running" in str(
        refused("set", "--lock-key", "a", "--max-running", "1")
    )
    assert not Override.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("pause", "shop.chrage_card"), 1, f"Did you mean '{CHARGE}'"),
        (("list", "shop.chrage_card"), 1, f"Did you mean '{CHARGE}'"),
        (("pause",), 2, "Name one task, or one key"),
        (("pause", CHARGE, "--lock-key", "a"), 2, "Name one task, or one key"),
        (("set", CHARGE), 2, "Say what to set"),
        (("set", CHARGE, "--rate", "fast"), 1, "rate must be like '100/minute'"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, code, text):
    error = refused(*arguments)
    assert text in str(error)
    assert error.returncode == code
    assert not Override.objects.exists()


def test_list_says_where_tasks_differ_from_their_code():
    run("set", CHARGE, "--rate", "5/hour", "--note", "new contract")
    run("pause", "shop.mail")
    head, charge, note, mail, paused = run().splitlines()
    assert head.split() == ["task", "queue", "max_running", "rate", "state"]
    assert charge.split()[:3] == [CHARGE, "default", "3"]
    assert "5/hour (code: 100/minute)" in charge
    assert charge.endswith("active")
    assert note.endswith(", new contract")
    assert mail.split() == ["shop.mail", "mail", "-", "-", "paused"]
    assert paused.startswith("  changed ")
    first, second = json.loads(run("list", "--json"))
    assert first["declared"] == {"max_running": 3, "rate": "100/minute"}
    assert first["override"]["rate"] == "5/hour"
    assert second["override"]["paused"] is True


def test_list_fits_a_terminal(terminal):  # noqa: F811
    make("shop." + "very_long_" * 9, {"queue_name": "q" * 50, "keys": KEYS})
    call_command("tasks", stdout=terminal)
    assert max(map(len, terminal.getvalue().splitlines())) <= 80


def test_list_is_bounded_and_says_how_to_see_the_rest():
    for key in ("a", "b", "c"):
        run("pause", "--lock-key", key)
    output, errors = StringIO(), StringIO()
    how = {"stdout": output, "stderr": errors, "no_color": True}
    call_command("tasks", "list", "--limit", "1", **how)
    assert CHARGE in output.getvalue()
    assert "shop.mail" not in output.getvalue()
    assert output.getvalue().endswith("\nlock c: paused\n  " + changed_now())
    assert errors.getvalue().splitlines() == [
        "And 1 more task: --limit shows more.",
        "And 2 more keys: --limit shows more.",
    ]
    errors.truncate(0)
    call_command("tasks", "list", "--limit", "3", **how)
    assert errors.getvalue() == ""


def changed_now() -> str:
    at = Override.objects.get(key="c").changed_at
    return f"changed {command.moment(at)}\n"
