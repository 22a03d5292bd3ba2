"""`jobs errors`: the failed jobs by their error."""

import json
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from pgjobs.models import ErrorGroup
from tests.operators import make_job

pytestmark = pytest.mark.django_db


def errors(*options: str) -> tuple[str, str]:
    output, said = StringIO(), StringIO()
    call_command("jobs", "errors", *options, stdout=output, stderr=said)
    return output.getvalue(), said.getvalue()


@pytest.fixture
def failed():
    ErrorGroup.objects.create(
        id=7,
        task="shop.charge",
        exception_class="urllib3.Timeout",
        place="shop.tasks.charge",
        message="no #",
    )
    for number in range(3):
        reason = f"no {number}\nroute"
        make_job(task="shop.charge", error_group=7, reason=reason)
    make_job(task="shop.mail", reason="by hand")


def test_errors_are_counted_by_task_the_most_frequent_first(failed):
    head, first, second = errors()[0].splitlines()
    assert head.split()[:4] == ["failed", "latest", "task", "error"]
    assert first.split()[0] == "3"
    assert "shop.charge" in first
    assert "urllib3.Timeout  no 2 route" in first
    assert second.split()[0] == "1"
    assert second.endswith("shop.mail    -                by hand")


def test_errors_of_one_task_and_their_number_can_be_chosen(failed):
    assert "shop.mail" not in errors("--task", "shop.charge")[0]
    output, said = errors("--limit", "1")
    assert "shop.mail" not in output
    assert said == "There are more than 1: --limit shows more.\n"


def test_unknown_task_is_refused_with_the_one_that_was_meant(failed):
    with pytest.raises(CommandError, match=r"Did you mean 'shop\.charge'") as caught:
        errors("--task", "shop.chrage")
    assert caught.value.returncode == 1
    assert errors("--task", "tests.noop")[0] == "No jobs have failed.\n"


def test_programs_read_json(failed):
    first, second = json.loads(errors("--json")[0])
    assert (first["task"], first["failed"], first["group"]) == ("shop.charge", 3, 7)
    assert first["error"] == "urllib3.Timeout"
    assert (second["error"], second["failed"]) == (None, None)
    assert sum(first["by_hour"]) == 3


def test_nothing_has_failed():
    assert errors()[0] == "No jobs have failed.\n"
