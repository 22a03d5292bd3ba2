"""`manage.py workers`: quiet, resume and stop workers at a terminal."""

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from pgjobs.models import AuditEntry, Worker
from tests.operators import make_worker

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    output = StringIO()
    call_command("workers", *arguments, stdout=output, no_color=True)
    return output.getvalue()


def wanted() -> list[str]:
    return list(Worker.objects.order_by("name").values_list("wanted", flat=True))


@pytest.fixture(autouse=True)
def workers():
    for number in (1, 2):
        make_worker(f"web{number}", queues="")
    before = timezone.now() - timedelta(minutes=5)
    make_worker("web3", queues="", lease_until=before, heartbeat_at=before)


def test_list_shows_the_state_of_each_worker():
    run("quiet", "web1")
    run("stop", "web2")
    lines = run().splitlines()
    assert lines[0].startswith("worker  state")
    assert [line.split()[:2] for line in lines[1:]] == [
        ["web1", "quiet"],
        ["web2", "stopping"],
        ["web3", "lost"],
    ]
    shown = json.loads(run("list", "--json"))
    assert [each["state"] for each in shown] == ["quiet", "stopping", "lost"]


def test_list_says_how_many_workers_it_leaves_out(capsys):
    assert len(run("list", "--limit", "1").splitlines()) == 2
    said = "And 2 more workers: --limit shows more.\n"
    assert capsys.readouterr().err == said
    assert len(json.loads(run("list", "--limit", "1", "--json"))) == 1
    assert capsys.readouterr().err == said
    run("list", "--limit", "3")
    assert capsys.readouterr().err == ""


def test_worker_is_quieted_and_resumed_with_entries_of_the_audit_trail():
    assert run("quiet", "web1", "--note", "disk") == "Asked 1 worker to be quiet.\n"
    assert wanted() == ["quiet", "", ""]
    said = (
        "Asked 0 workers to be quiet. 1 other had been asked so before, or to stop.\n"
    )
    assert run("quiet", "web1") == said
    assert run("resume", "web1") == "Asked 1 worker to go on.\n"
    entries = AuditEntry.objects.order_by("pk").values_list("via", "act", "chosen")
    assert list(entries) == [
        ("command", "quiet", "web1"),
        ("command", "resume", "web1"),
    ]
    assert AuditEntry.objects.order_by("pk").first().note == "disk"


def test_all_living_workers_are_stopped_at_once():
    assert run("stop", "--all") == "Asked 2 workers to stop.\n"
    assert wanted() == ["stop", "stop", ""]


def test_worker_is_named_by_its_id_too():
    run("stop", f"#{Worker.objects.get(name='web2').pk}")
    assert wanted() == ["", "stop", ""]


def test_name_that_is_the_id_of_another_worker_stops_neither():
    web1 = Worker.objects.get(name="web1")
    named = make_worker(str(web1.pk), queues="")
    with pytest.raises(CommandError) as refused:
        run("stop", str(web1.pk))
    assert str(refused.value) == (
        f"'{web1.pk}' is the name of one worker, and the id of 'web1'. Say which one "
        f"by its id: #{named.pk} or #{web1.pk}."
    )
    assert refused.value.returncode == 1
    assert set(wanted()) == {""}
    run("stop", f"#{web1.pk}")
    assert wanted() == ["", "stop", "", ""]
    run("stop", f"#{named.pk}")
    assert wanted() == ["stop", "stop", "", ""]


def test_name_that_looks_like_an_id_is_the_name_where_no_worker_has_this_id():
    make_worker("4711", queues="")
    make_worker("#4712", queues="")
    run("stop", "4711", "#4712")
    assert wanted() == ["stop", "stop", "", "", ""]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("stop",), 2, "Name workers, or say --all."),
        (("stop", "web1", "--all"), 2, "Name workers, or say --all."),
        (("stop", "wep1"), 1, "No worker 'wep1' is alive. Did you mean 'web1'?"),
        (("stop", "web1", "web3"), 1, "No worker 'web3' is alive."),
    ],
)
def test_order_to_nobody_is_an_error_and_nothing_is_asked(arguments, code, said):
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert caught.value.returncode == code
    assert said in str(caught.value)
    assert wanted() == ["", "", ""]
