"""The pages in a real browser: on a phone and a desk, light and dark, strict CSP.

PGJOBS_AXE names the file axe.min.js of the npm package axe-core, for the rules of
accessibility. PGJOBS_PICTURES names a folder for pictures of the pages.
"""

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from pgjobs import chain, enqueue, group, publish
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.models import (
    Event,
    Figure,
    Job,
    Predecessor,
    Progress,
    Queue,
    Schedule,
    Subscription,
    TaskDefinition,
)
from pgjobs.sql.columns import BUCKETS
from tests.operators import LIST, insert, make_job, make_worker
from tests.support.browser import Browser, chromium
from tests.tasks import add

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="There is no Chromium here."),
    pytest.mark.django_db(transaction=True),
]

CSP = "default-src 'self'"
LONG = "shop.orders.import_all_the_orders_of_the_previous_business_day"
PAGES = (
    "overview",
    "list",
    "failed",
    "running",
    "job",
    "long",
    "chain",
    "confirmation",
    "queues",
    "queue",
    "pause",
    "workers",
    "worker",
    "schedules",
    "schedule",
    "new_schedule",
    "tasks",
    "task",
    "add",
    "batches",
    "batch",
    "events",
    "event",
    "subscriptions",
    "index",
)
# Boxes of cells of one row that cover each other.
OVERLAPS = """
[...document.querySelectorAll('#content-main tr')].flatMap(row => {
  const boxes = [...row.children].map(cell => [cell, cell.getBoundingClientRect()])
    .filter(([, box]) => box.width && box.height);
  return boxes.flatMap(([cell, one], at) => boxes.slice(at + 1)
    .filter(([, two]) => one.left + 1 < two.right && two.left + 1 < one.right
      && one.top + 1 < two.bottom && two.top + 1 < one.bottom)
    .map(([other]) => cell.className + ' and ' + other.className));
})
"""
# The box of the search is Django's, with a picture as its label.
VIOLATIONS = """
axe.run(
  {include: '#content', exclude: '#searchbar'}, {resultTypes: ['violations']}
).then(found => found.violations.map(
  each => each.id + ': ' + each.nodes.map(
    node => node.html.slice(0, 200) + ' ' + node.any.map(
      check => check.message).join(' ')).slice(0, 3).join(' | ')))
"""

APPEARS = """
new Promise(resolve => setInterval(() => {
  if (document.body.textContent.includes('came_later')) resolve(true);
}, 100) && setTimeout(resolve, 60000, false))
"""


def add_policy(get_response):
    """Let the pages of tests have a strict policy."""

    def respond(request):
        response = get_response(request)
        response["Content-Security-Policy"] = CSP
        return response

    return respond


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def addresses() -> dict[str, str]:
    """Return the pages of a desk where something of everything goes on."""
    worker = make_worker("machine-7.example.org:4242", queues="", memory=87 << 20)
    now = timezone.now()
    job = make_job(
        "SUCCESSFUL",
        task=LONG,
        kwargs={"order_id": 87, "note": "x" * 300},
        attempts=2,
        last_attempted_at=now - timedelta(seconds=3),
        return_value={"rows": 12},
    )
    failed = make_job(reason="OSError: " + "the-card-was-declined" * 20, task=LONG)
    for each in (job, failed):
        each.attempts_made.create(
            life=1,
            number=1,
            worker_name=worker.name,
            started_at=now - timedelta(seconds=50),
            finished_at=now - timedelta(seconds=45),
            outcome="FAILED",
            exception_class="builtins.OSError",
            message="declined " * 50,
            traceback="Traceback (most recent call last):\n" + "  line\n" * 40,
        )
    running = make_job(
        "RUNNING", worker_id=worker.pk, attempts=1, last_attempted_at=now, task=LONG
    )
    Progress.objects.create(
        job=running, done=3, total=4, message="rows of the file", updated_at=now
    )
    insert(task=f"'{LONG}'")
    Queue.objects.create(name="reports").pause()
    insert(queue_name="'reports'")
    make_job("WAITING")
    make_job("SCHEDULED")
    for minutes in range(0, 50, 3):
        Figure.objects.create(
            start=now.replace(second=0, microsecond=0) - timedelta(minutes=minutes),
            span=1,
            queue_name="default",
            task=LONG,
            successful=minutes % 7 * 10,
            failed=minutes % 3,
            run_times=[1] * BUCKETS,
            wait_times=[minutes] * BUCKETS,
        )
    schedule = Schedule(name="nightly", task="tests.add", cron="0 3 * * *")
    schedule.kwargs = {"a": 1}
    schedule.plan_again(now)
    schedule.save()
    sync("default", declared())
    definition = TaskDefinition.objects.get(name="tests.noop")
    first, second, third = chain(add.bind(1), add.bind(2), add.bind(3)).enqueue()
    # As an admission links them.
    Predecessor.objects.create(job_id=second.pk, predecessor_id=first.pk)
    Predecessor.objects.create(job_id=third.pk, predecessor_id=second.pk)
    # Its argument was the masked result of the first.
    taken = {"a": {"of": "result", "jobs": [first.pk]}}
    keys = {"after": [first.pk], "results_taken": taken, "masked": ["a"]}
    Job.objects.filter(pk=second.pk).update(keys=keys)
    batch = enqueue(group([add.bind(1), add.bind(2)], description=LONG))
    event = dead_letter()
    app = "/admin/pgjobs/"
    queue = Queue.objects.get(name="reports")
    return {
        "overview": f"{LIST}overview/",
        "list": LIST,
        "failed": f"{LIST}?status=FAILED",
        "running": f"{LIST}?status=RUNNING",
        "job": f"{LIST}{running.pk}/change/",
        "long": f"{LIST}{job.pk}/change/",
        "chain": f"{LIST}{second.pk}/change/",
        "confirmation": f"{LIST}cancel/{running.pk}/",
        "queues": f"{app}queue/",
        "queue": f"{app}queue/{queue.pk}/change/",
        "pause": f"{app}queue/pause/{Queue.objects.create(name=LONG).pk}/",
        "workers": f"{app}worker/",
        "worker": f"{app}worker/{worker.pk}/change/",
        "schedules": f"{app}schedule/",
        "schedule": f"{app}schedule/{schedule.pk}/change/",
        "new_schedule": f"{app}schedule/add/",
        "tasks": f"{app}taskdefinition/",
        "task": f"{app}taskdefinition/{definition.pk}/change/",
        "add": f"{app}taskdefinition/add_job/{definition.pk}/",
        "batches": f"{app}batch/",
        "batch": f"{app}batch/{batch.pk}/change/",
        "events": f"{app}event/",
        "event": f"{app}event/{event.pk}/change/",
        "subscriptions": f"{app}subscription/",
        "index": app,
    }


def dead_letter() -> Event:
    """Return an event that one handler could not take."""
    Subscription.objects.create(task=LONG, event="orders.imported")
    event = publish("orders.imported", {"order_id": 87, "note": "x" * 300})
    job = Job.objects.get(delivery__event=event.pk)
    job.fail("OSError: " + "the-mail-server-is-away" * 9)
    return event


@pytest.fixture
def shown(browser, live_server, admin_client, addresses, settings):
    """Open a page and return the browser."""
    settings.MIDDLEWARE = [f"{__name__}.add_policy", *settings.MIDDLEWARE]
    cookie = admin_client.cookies["sessionid"].value

    def show(name: str, width: int) -> Browser:
        browser.open(live_server.url + addresses[name], width=width, cookie=cookie)
        return browser

    yield show
    if browser.session is not None:
        browser.leave()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_whole_in_light_and_dark(name, width, shown):
    page = shown(name, width)
    for is_dark in (False, True):
        page.show(is_dark)
        keep_picture(page, f"{name}-{width}-{'dark' if is_dark else 'light'}")
        check_that_it_is_whole(page, width)


@pytest.mark.parametrize("width", [390, 1440])
def test_confirmation_of_many_jobs_is_whole(width, shown):
    page = shown("list", width)
    page.evaluate("document.querySelectorAll('.action-select').forEach(e => e.click())")
    page.evaluate("document.querySelector('[name=action]').value = 'cancel_selected'")
    page.click("#changelist-form [name=index]")
    keep_picture(page, f"many-{width}")
    assert page.evaluate("document.querySelector('.pgjobs-tasks') !== null")
    check_that_it_is_whole(page, width)


@pytest.mark.parametrize("name", ["overview", "list", "long", "queues", "schedules"])
def test_long_german_words_fit_on_a_phone(name, shown, settings):
    settings.LANGUAGE_CODE = "de"
    page = shown(name, 390)
    keep_picture(page, f"{name}-390-german")
    assert "Hintergrundjobs" in page.evaluate("document.body.textContent")
    check_that_it_is_whole(page, 390)


def check_that_it_is_whole(page: Browser, width: int) -> None:
    own = [each for each in page.complaints if "favicon" not in each]
    assert own == []
    assert page.evaluate("document.querySelector('#content') !== null")
    # Not innerWidth, which grows with what is too wide for a phone.
    shown_width = page.evaluate("document.documentElement.scrollWidth")
    assert shown_width <= width, "the page scrolls sideways"
    assert page.evaluate(OVERLAPS) == []


ROWS = """
[...document.querySelectorAll('#result_list tbody tr')]
  .map(row => row.getBoundingClientRect())
"""


@pytest.mark.parametrize(
    ("width", "height", "least", "highest"), [(1440, 900, 17, 32), (390, 844, 6, 54)]
)
def test_job_is_one_line_of_the_list(width, height, least, highest, shown):
    for number in range(30):
        make_job(task=LONG, reason="declined " * 40, kwargs={"number": number})
    page = shown("list", width)
    page.resize(width, height)
    bottoms = page.evaluate(f"{ROWS}.map(box => box.bottom)")
    assert sum(bottom <= height for bottom in bottoms) >= least
    assert max(page.evaluate(f"{ROWS}.map(box => box.height)")) <= highest


def test_overview_is_short_on_a_phone(shown):
    page = shown("overview", 390)
    assert page.evaluate("document.documentElement.scrollHeight") <= 2_600


def test_acts_on_many_appear_with_the_first_tick(shown):
    page = shown("list", 1440)
    display = "getComputedStyle(document.querySelector('.actions')).display"
    assert page.evaluate(display) == "none"
    page.evaluate("document.querySelector('.action-select').click()")
    assert page.evaluate(display) != "none"


def test_acts_on_many_stand_below_the_list_where_there_are_no_scripts(shown):
    page = shown("list", 1440)
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    page.go_to(page.evaluate("location.href"))
    display = "getComputedStyle(document.querySelector('.actions')).display"
    assert page.evaluate(display) != "none"


def test_menu_of_a_row_closes_when_its_reader_goes_on(shown):
    page = shown("list", 1440)
    page.evaluate("document.querySelector('.pgjobs-menu summary').click()")
    assert page.evaluate("document.querySelectorAll('.pgjobs-menu[open]').length") == 1
    page.evaluate("document.querySelector('h1').click()")
    assert page.evaluate("document.querySelectorAll('.pgjobs-menu[open]').length") == 0


def test_filter_takes_effect_when_it_is_chosen(shown):
    page = shown("failed", 1440)
    page.choose("[name=queue_name]", "default")
    query = page.evaluate("location.search")
    assert query in ("?status=FAILED&queue_name=default",)


def test_search_box_completes_what_is_known(shown):
    page = shown("list", 1440)
    page.evaluate("document.querySelector('#searchbar').focus()")
    assert page.evaluate(COMPLETES) is True
    page.choose("#searchbar", "queue:reports", "input")
    assert page.evaluate("location.search") == "?queue_name=reports"


def test_page_of_a_small_job_fits_on_a_screen(shown, addresses):
    ended = timezone.now()
    columns = {"attempts": 1, "last_attempted_at": ended, "worker_name": "web4"}
    job = make_job("SUCCESSFUL", kwargs={"order_id": 7}, return_value=6, **columns)
    addresses["small"] = f"{LIST}{job.pk}/change/"
    page = shown("small", 1440)
    ends = "document.querySelector('#content-main').getBoundingClientRect().bottom"
    assert page.evaluate(ends) <= 900


LINES = "".join(f"2026-11-27 11:00:00.000+00:00 line {i}\n" for i in range(200))


def test_log_opens_at_its_end_and_keeps_place_and_selection(shown, addresses):
    job = make_job("RUNNING")
    Progress.objects.create(job=job, log=LINES, updated_at=timezone.now())
    addresses["logging"] = f"{LIST}{job.pk}/change/"
    page = shown("logging", 1440)
    assert page.evaluate(f"{FROM_TOP} > 1000 && {LOG}.scrollTop > -1")
    page.evaluate(
        f"{LOG}.scrollTop = -500; {LOG}.focus(); getSelection()"
        f".selectAllChildren({LOG}.querySelector('pre')), null"
    )
    before = page.evaluate(FROM_TOP)
    Progress.objects.filter(pk=job.pk).update(log=LINES + "came_later\n" * 9)
    page.evaluate("document.querySelector('[data-pgjobs-live]').dataset.pgjobsLive = 1")
    assert page.evaluate(APPEARS) is True
    assert abs(page.evaluate(FROM_TOP) - before) <= 1
    assert "line 0" in page.evaluate("getSelection().toString()")


LOG = "document.querySelector('.pgjobs-end')"
FROM_TOP = f"({LOG}.scrollHeight - {LOG}.clientHeight + {LOG}.scrollTop)"
COMPLETES = """
new Promise(resolve => setInterval(() => {
  if (document.querySelector('#pgjobs-suggestions option[value="tests.add"]')) {
    resolve(true);
  }
}, 100) && setTimeout(resolve, 60000, false))
"""


def test_chain_is_drawn_with_links(shown):
    page = shown("chain", 1440)
    assert page.evaluate("document.querySelectorAll('.pgjobs-graph a').length") == 2


@pytest.mark.skipif("PGJOBS_AXE" not in os.environ, reason="PGJOBS_AXE is not set.")
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_in_light_and_dark(name, shown):
    page = shown(name, 1440)
    page.evaluate(Path(os.environ["PGJOBS_AXE"]).read_text())
    for is_dark in (False, True):
        page.show(is_dark)
        assert page.evaluate(VIOLATIONS) == []


def test_page_refreshes_by_itself(shown):
    page = shown("overview", 1440)
    insert(queue_name="'came_later'")
    page.evaluate("document.querySelector('[data-pgjobs-live]').dataset.pgjobsLive = 1")
    assert page.evaluate("document.querySelector('.pgjobs-live input').checked")
    assert page.evaluate(APPEARS) is True


def test_page_refreshes_although_it_shows_a_traceback(shown, addresses):
    job = make_job("SCHEDULED")
    job.attempts_made.create(
        life=1,
        number=1,
        worker_name="worker",
        finished_at=timezone.now(),
        outcome="FAILED",
        traceback="Traceback (most recent call last):",
    )
    addresses["retried"] = f"{LIST}{job.pk}/change/"
    page = shown("retried", 1440)
    assert page.evaluate("document.querySelector('details[open]') !== null")
    Job.objects.filter(pk=job.pk).update(reason="came_later")
    page.evaluate("document.querySelector('[data-pgjobs-live]').dataset.pgjobsLive = 1")
    assert page.evaluate(APPEARS) is True


def test_refreshing_can_be_switched_off_for_good(shown):
    page = shown("overview", 1440)
    page.evaluate("document.querySelector('.pgjobs-live input').click()")
    page.go_to(page.evaluate("location.href"))
    assert not page.evaluate("document.querySelector('.pgjobs-live input').checked")
    page.evaluate("localStorage.clear()")


def keep_picture(page: Browser, name: str) -> None:
    if "PGJOBS_PICTURES" in os.environ:
        page.picture(Path(os.environ["PGJOBS_PICTURES"]) / f"{name}.png")
