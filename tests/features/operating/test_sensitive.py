"""What a task calls sensitive is shown by no command, and on no page, of features."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from pgjobs.base.addresses import status_url
from pgjobs.models import ErrorGroup
from tests.admin.test_sensitive import (
    KEYS,
    SECRET,
    TERMS,
    committing,
    refused,
    with_keys,
)
from tests.admin.test_sensitive import job as sensitive_job  # noqa: F401
from tests.operators import operator, text_of
from tests.processes import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def searcher():
    return operator("view_job", "view_job_arguments")


@committing
def test_group_of_errors_has_no_part_of_it():
    jobs = [refused(f"ada.{year}@example.org", "no {}") for year in (1815, 1852)]
    assert len({job.error_group for job in jobs}) == 1
    assert ErrorGroup.objects.get().message == "ValueError: no ********"


@committing
def test_commands_and_the_public_page_mask_it(sensitive_job, searcher):  # noqa: F811
    job = sensitive_job
    for command in (("list", "--json"), ("show", str(job.pk))):
        output = StringIO()
        call_command("jobs", *command, stdout=output)
        assert SECRET not in output.getvalue()
        assert "a guitar" in output.getvalue()
    assert SECRET not in text_of(searcher.get(status_url(job.pk)))


@pytest.mark.parametrize("term", TERMS)
def test_masked_value_cannot_be_searched_within_an_object(term):
    name, _, value = term.partition(":")
    with pytest.raises(CommandError, match="What is masked cannot be searched"):
        call_command("jobs", "list", "--args", f"{name}={value}")


@committing
def test_command_refuses_what_a_task_calls_sensitive(sensitive_job):  # noqa: F811
    with pytest.raises(CommandError, match="What is masked cannot be searched"):
        call_command("jobs", "list", "--args", f"iban={SECRET}")


@committing
@pytest.mark.parametrize("options", KEYS.values(), ids=KEYS)
def test_keys_show_no_sensitive_value(options, searcher):
    with_keys(**options)
    job = with_keys(**options)
    drain()
    assert SECRET not in text_of(searcher.get(reverse("admin:pgjobs_overview")))
    output = StringIO()
    call_command("jobs", "show", str(job.pk), stdout=output)
    for options in ((), ("--json",)):
        call_command("jobstatus", *options, stdout=output)
    assert SECRET not in output.getvalue()
