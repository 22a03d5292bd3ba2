"""The acts on jobs with steps in a real browser: on a phone and at a desk.

PGJOBS_AXE and PGJOBS_PICTURES are those of tests/admin/test_browser.py.
"""

import pytest

from pgjobs.models import Job
from tests.admin.test_browser import VIOLATIONS
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_answer_browser import (
    browser,  # noqa: F401
    check_that_it_is_whole,
    shown,  # noqa: F401
)
from tests.operators import LIST, page_of, url_of
from tests.support.browser import chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]
LONG = "send_the_letter_to_the_customer_" * 6
WIDTHS = pytest.mark.parametrize("width", [390, 1440])


def fails_behind_steps(job):
    for name in ("count", "reserve", LONG, "pay"):
        job.step(name, str, name)
    if job.life == 1:
        raise RuntimeError("the bank is closed")


def waits(job):
    job.step("count", int)
    return job.wait_for("approval", int)


@WIDTHS
def test_job_goes_on_after_its_last_step(shown, width):  # noqa: F811
    job = done(fails_behind_steps)
    page = shown(page_of(job), width)
    check_that_it_is_whole(page, "steps-page", width, VIOLATIONS)
    page = shown(url_of("retry", job), width)
    check_that_it_is_whole(page, "steps-retry", width, VIOLATIONS)
    page = shown(url_of("go_on", job) + "?from=page", width)
    check_that_it_is_whole(page, "steps-go-on", width, VIOLATIONS)
    page.click("input[type=submit].default")
    check_that_it_is_whole(page, "steps-gone-on", width, VIOLATIONS)
    assert goes_on(job).status == "SUCCESSFUL"


@WIDTHS
def test_step_is_marked(shown, width):  # noqa: F811
    job = done(waits)
    page = shown(url_of("mark_step", job) + "?from=page", width)
    assert page.evaluate("document.querySelector('[name=name]').value") == "approval"
    page.evaluate("document.querySelector('[name=value]').value = '{'")
    page.click("input[type=submit].default")
    check_that_it_is_whole(page, "steps-mark", width, VIOLATIONS)
    page.evaluate("document.querySelector('[name=value]').value = '42'")
    page.click("input[type=submit].default")
    check_that_it_is_whole(page, "steps-marked", width, VIOLATIONS)
    assert goes_on(job).return_value == 42


@WIDTHS
def test_list_offers_both(shown, width):  # noqa: F811
    done(fails_behind_steps)
    page = shown(f"{LIST}?status=FAILED", width)
    check_that_it_is_whole(page, "steps-list", width, VIOLATIONS)
    options = page.evaluate("document.querySelector('[name=action]').innerText")
    assert options.index("go on after") < options.index("Retry selected")
    assert Job.objects.failed().count() == 1
