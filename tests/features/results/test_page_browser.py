"""The page of a job that gets results, on a phone and at a desk, light and dark.

PGJOBS_AXE and PGJOBS_PICTURES are those of tests/admin/test_browser.py.
"""

import pytest

from pgjobs import chain, enqueue, group, outcomes, result, results
from pgjobs.models import Job
from tests.actors import Hand, admit
from tests.admin.test_browser import OVERLAPS, VIOLATIONS
from tests.features.durable.test_answer_browser import (
    browser,  # noqa: F401
    check_that_it_is_whole,
    shown,  # noqa: F401
)
from tests.operators import page_of
from tests.processes import drain
from tests.support.browser import chromium
from tests.tasks import add, echo, pair

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]
EDGES = """
[...document.querySelectorAll('.pgjobs-graph a')].map(each => each.textContent.trim())
"""


def graph() -> Job:
    """Return a job after two named ones, which gives its result to a group."""
    user, cart = enqueue(add.bind(1, 2)), enqueue(add.bind(3, 4))
    both = pair.using(after={"user": user, "cart": cart})
    joined = enqueue(both.bind(result.user, result.cart))
    pages = enqueue(group([echo.using(after=joined).bind(result[0])] * 3))
    enqueue(echo.using(after=pages, after_failure="run").bind(outcomes))
    return joined


def after_a_group() -> Job:
    *_, last = enqueue(
        chain(group([add.bind(1, 2), add.bind(3, 4)]), echo.bind(results))
    )
    return last


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("make", [graph, after_a_group])
def test_page_draws_whose_results_a_job_gets(make, is_done, shown, width):  # noqa: F811
    job = make()
    if is_done:
        drain()
    else:
        Hand()
        admit()
    page = shown(page_of(job), width)
    name = f"results-{make.__name__}-{'done' if is_done else 'waiting'}"
    check_that_it_is_whole(page, name, width, VIOLATIONS)
    assert page.evaluate(OVERLAPS) == []
    text = page.evaluate("document.querySelector('#content').textContent")
    names = ["first", "second"] if make is graph else ["value"]
    for each in names:
        assert f"gives the argument {each}" in text
    assert len(page.evaluate(EDGES)) >= len(names)
