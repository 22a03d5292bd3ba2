"""The page for an answer in a real browser: on a phone and a desk, light and dark.

PGJOBS_AXE and PGJOBS_PICTURES are those of tests/admin/test_browser.py.
"""

import os
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User

from pgjobs.models import Answer
from tests.admin.test_browser import add_policy, keep_picture
from tests.features.durable.bodies import done, goes_on
from tests.support.browser import Browser, chromium

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]
TITLE = "May the refund of order 87 be paid? " + "OF_A_LONG_NUMBER_" * 8
VIOLATIONS = """
axe.run({resultTypes: ['violations']}).then(found => found.violations.map(
  each => each.id + ': ' + each.nodes.map(node => node.html.slice(0, 200)).join(' | ')))
"""


@dataclass
class Approval:
    approved: bool
    amount: Decimal
    day: date
    reason: Literal["broken", "late", "never arrived"]
    lines: list[int]
    call_at: datetime | None = None
    note: str = ""
    api_token: str = ""


def asks(job):
    answer = job.wait_for("approval", Approval, title=TITLE)
    return answer.note


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def shown(browser, live_server, client, settings):
    """Open the page of a job that asks, and return the browser."""
    settings.MIDDLEWARE = [f"{add_policy.__module__}.add_policy", *settings.MIDDLEWARE]
    client.force_login(User.objects.create_superuser("ada"))
    cookie = client.cookies["sessionid"].value

    def show(path: str, width: int, cookie: str = cookie) -> Browser:
        browser.open(live_server.url + path, width=width, cookie=cookie)
        return browser

    yield show
    browser.leave()


def refused(page: Browser, form: str = "form", button: str = "button") -> None:
    """Send the form as it must not be sent."""
    page.evaluate(f"document.querySelector('{form}').noValidate = true")
    page.click(f"{form} {button}")


def check_that_it_is_whole(
    page: Browser, name: str, width: int, violations: str = VIOLATIONS
) -> None:
    if "PGJOBS_AXE" in os.environ:
        page.evaluate(Path(os.environ["PGJOBS_AXE"]).read_text())
    for is_dark in (False, True):
        page.show(is_dark)
        keep_picture(page, f"answer-{name}-{width}-{'dark' if is_dark else 'light'}")
        if "PGJOBS_AXE" in os.environ:
            assert page.evaluate(violations) == []
    own = [each for each in page.complaints if "favicon" not in each]
    assert [each for each in own if "status of 4" not in each] == []
    scrolled = page.evaluate("document.documentElement.scrollWidth")
    assert scrolled <= width, "the page scrolls sideways"


@pytest.mark.parametrize("width", [390, 1440])
def test_page_is_whole_in_light_and_dark(shown, width):
    job = done(asks)
    page = shown(job.answer_url("approval"), width)
    check_that_it_is_whole(page, "form", width)
    refused(page)
    assert page.evaluate("document.querySelectorAll('[aria-invalid=true]').length") >= 3
    check_that_it_is_whole(page, "faults", width)
    job.cancel()
    page.go_to(page.evaluate("location.href"))
    check_that_it_is_whole(page, "over", width)


def test_long_german_words_fit_on_a_phone(shown, settings):
    settings.LANGUAGE_CODE = "de"
    page = shown(done(asks).answer_url("approval"), 390)
    assert "Antwort senden" in page.evaluate("document.body.textContent")
    check_that_it_is_whole(page, "german", 390)


def press(page: Browser, key: str, text: str = "") -> None:
    for kind in ("keyDown", "keyUp"):
        code = {"Tab": 9, " ": 32, "Enter": 13}.get(key, 0)
        page.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            windowsVirtualKeyCode=code,
            **({"text": text} if kind == "keyDown" and text else {}),
        )


def test_form_is_answered_by_the_keyboard_alone(shown):
    job = done(lambda job: job.wait_for("approval", bool, title="Go on?"))
    page = shown(job.answer_url("approval"), 1440)
    press(page, "Tab")
    press(page, " ", " ")
    assert page.evaluate("document.activeElement.value") == "true"
    assert page.evaluate("document.activeElement.checked")
    press(page, "Tab")
    assert page.evaluate("document.activeElement.type") == "submit"
    page.events.clear()
    press(page, "Enter", "\r")
    page.wait_for_page()
    assert "Your answer is stored" in page.evaluate("document.body.textContent")
    assert Answer.objects.get().value is True
    assert goes_on(job).return_value is True


def test_dates_and_numbers_arrive_as_the_browser_writes_them(shown):
    job = done(asks)
    page = shown(job.answer_url("approval"), 390)
    entered = {
        "amount": "12.50",
        "day": "2026-11-30",
        "reason": '"late"',
        "lines": "[1, 2]",
        "call_at": "2026-11-30T12:30",
        "note": "fine",
    }
    for name, value in entered.items():
        page.evaluate(f"document.forms[0]['answer-{name}'].value = {value!r}")
    page.evaluate("document.querySelector('[value=true]').click()")
    page.click("button")
    assert "Your answer is stored" in page.evaluate("document.body.textContent")
    assert goes_on(job).return_value == "fine"
