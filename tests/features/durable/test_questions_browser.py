"""What waits for a user in a real browser: on a phone and at a desk, light and dark.

PGJOBS_AXE and PGJOBS_PICTURES are those of tests/admin/test_browser.py.
"""

import pytest
from django.contrib.auth.models import User

from pgjobs.models import Answer
from tests.admin.test_browser import OVERLAPS, VIOLATIONS
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_answer_browser import (
    asks,
    browser,  # noqa: F401
    check_that_it_is_whole,
    press,
    refused,
    shown,  # noqa: F401
)
from tests.features.durable.test_answering_users import allow
from tests.features.durable.test_questions import DAY, OVERVIEW, WAITS, address_of
from tests.operators import page_of
from tests.support.browser import Browser, chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]
WIDTHS = pytest.mark.parametrize("width", [390, 1440])
FORM = ".pgjobs-answer"


def in_admin(job) -> str:
    return address_of(job, "approval")


def check(page: Browser, name: str, width: int) -> None:
    check_that_it_is_whole(page, f"question-{name}", width, VIOLATIONS)
    assert page.evaluate(OVERLAPS) == []


def check_that_nothing_is_cut(page: Browser, selector: str) -> None:
    found = f"document.querySelector({selector!r})"
    assert page.evaluate(f"{found}.scrollWidth <= {found}.clientWidth")


@WIDTHS
def test_list_and_overview_show_what_waits(shown, width):  # noqa: F811
    jobs = [done(asks) for _ in range(7)]
    page = shown(WAITS, width)
    check(page, "list", width)
    assert (
        page.evaluate("document.querySelectorAll('#result_list tbody tr').length") == 7
    )
    page = shown(OVERVIEW, width)
    check(page, "overview", width)
    page = shown(page_of(jobs[0]), width)
    check(page, "job", width)
    page = shown(page_of(done(lambda job: job.sleep("cool-off", DAY))), width)
    check(page, "sleep", width)


@WIDTHS
def test_user_with_the_one_permission_finds_the_form_and_answers(
    shown,  # noqa: F811
    width,
    client,
):
    job = done(lambda job: job.wait_for("approval", bool, title="Go on?"))
    user = allow(User.objects.create_user("bob", is_staff=True), "answer_job")
    client.force_login(user)
    page = shown("/admin/", width, client.cookies["sessionid"].value)
    page.click(f"#content-main a[href='{WAITS}']")
    check(page, "own-list", width)
    page.click("#result_list .field-to_answer a")
    page.evaluate("document.querySelector('[value=true]').click()")
    page.click(f"{FORM} [type=submit]")
    check(page, "stored", width)
    assert "Your answer is stored" in page.evaluate("document.body.textContent")
    assert "Nothing waits for your answer" in page.evaluate("document.body.textContent")
    assert goes_on(job).return_value is True


@WIDTHS
def test_form_is_whole_with_faults_and_when_it_is_over(shown, width):  # noqa: F811
    job = done(asks)
    page = shown(in_admin(job), width)
    check(page, "form", width)
    refused(page, FORM, "[type=submit]")
    assert page.evaluate("document.querySelectorAll('[aria-invalid=true]').length") >= 3
    check(page, "faults", width)
    job.cancel()
    page.go_to(page.evaluate("location.href"))
    check(page, "over", width)


def test_long_german_words_fit_on_a_phone(shown, settings):  # noqa: F811
    settings.LANGUAGE_CODE = "de"
    job = done(asks)
    for address, name in (
        (WAITS, "list"),
        (OVERVIEW, "overview"),
        (in_admin(job), "form"),
    ):
        check(shown(address, 390), f"german-{name}", 390)


def test_form_is_answered_by_the_keyboard_alone(shown):  # noqa: F811
    job = done(lambda job: job.wait_for("approval", bool, title="Go on?"))
    page = shown(in_admin(job), 1440)
    page.evaluate(f"document.querySelector('{FORM} [type=radio]').focus()")
    press(page, " ", " ")
    assert page.evaluate("document.activeElement.checked")
    press(page, "Tab")
    assert page.evaluate("document.activeElement.type") == "submit"
    page.events.clear()
    press(page, "Enter", "\r")
    page.wait_for_page()
    assert Answer.objects.get().value is True
