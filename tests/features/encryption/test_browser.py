"""The page of an encrypted job, and what a click on it opens, in a real browser."""

import os
from pathlib import Path

import pytest

from pgjobs import enqueue
from tests.admin.test_browser import VIOLATIONS, browser, check_that_it_is_whole
from tests.features.encryption import bodies
from tests.features.encryption.bodies import IBAN
from tests.operators import operator, page_of
from tests.processes import drain
from tests.support.browser import Browser, chromium

__all__ = ["browser"]  # a fixture
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("first_key"),
]
BUTTON = "input[formaction*='/read/']"
WAY_BACK = "#content .closelink"
TEXT = "document.querySelector('#content').textContent"


def is_seen(page: Browser, selector: str) -> bool:
    element = f'document.querySelector("{selector}")'
    return page.evaluate(f"{element}.getBoundingClientRect().height > 0")


def check_rules(page: Browser) -> None:
    """Check the rules of accessibility, if the file that knows them is there."""
    if "PGJOBS_AXE" not in os.environ:
        return
    page.evaluate(Path(os.environ["PGJOBS_AXE"]).read_text())
    for is_dark in (False, True):
        page.show(is_dark)
        assert page.evaluate(VIOLATIONS) == []


@pytest.mark.parametrize("width", [390, 1440])
def test_job_is_opened_by_a_click_from_which_a_way_leads_back(
    width, browser, live_server, monkeypatch
):
    monkeypatch.setattr(bodies, "got", [])
    monkeypatch.setattr(bodies, "body", lambda job, iban: job.step("a", lambda: iban))
    job = enqueue(bodies.pay, IBAN)
    drain()
    client = operator("view_job", "view_job_arguments")
    address = f"{live_server.url}{page_of(job)}"
    cookie = client.cookies["sessionid"].value
    browser.open(address, width=width, cookie=cookie)
    check_that_it_is_whole(browser, width)
    assert is_seen(browser, BUTTON)
    assert IBAN not in browser.evaluate(TEXT)
    check_rules(browser)
    browser.click(BUTTON)
    check_that_it_is_whole(browser, width)
    assert browser.evaluate(TEXT).count(IBAN) == 3
    assert is_seen(browser, WAY_BACK)
    check_rules(browser)
    browser.click(WAY_BACK)
    assert browser.evaluate("location.pathname") == page_of(job)
    browser.leave()
