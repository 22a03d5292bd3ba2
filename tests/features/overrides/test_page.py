"""The form on the page of a task that changes it at run time."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from pgjobs.features.overrides.checks import check_overrides
from pgjobs.features.overrides.page import MOST_KEYS
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.models import AuditEntry, Override, TaskDefinition
from tests.operators import messages_of, operator, text_of

pytestmark = pytest.mark.django_db

MAY = ("view_taskdefinition", "change_taskdefinition")
KEYS = {"max_running": 3, "rate_interval": 0.6, "rate_burst": 100}
FORM = {"max_running": "", "rate": "", "lasts": "0", "note": ""}


def make(name: str = "shop.charge_card", **options) -> TaskDefinition:
    return TaskDefinition.objects.create(
        name=name, options=options, parameters={}, synced_at=timezone.now()
    )


def page_of(task: TaskDefinition) -> str:
    return reverse("admin:pgjobs_taskdefinition_change", args=(task.pk,))


def form_of(task: TaskDefinition) -> str:
    return reverse("admin:pgjobs_taskdefinition_override", args=(task.pk,))


def override(kind: str, key: str, **wishes) -> None:
    set_override("default", kind, key, Wish(**wishes), "ada", "page")


def test_form_needs_its_own_permission():
    task = make()
    client = operator("view_taskdefinition")
    assert client.get(form_of(task)).status_code == 403
    assert client.post(form_of(task), {**FORM, "paused": "on"}).status_code == 403
    assert form_of(task) not in text_of(client.get(page_of(task)))
    assert form_of(task) in text_of(operator(*MAY).get(page_of(task)))
    assert not Override.objects.exists()


def test_task_is_paused_for_a_time_and_the_page_says_so():
    task, client = make(), operator(*MAY)
    assert "as the code says" in text_of(client.get(page_of(task)))
    given = {**FORM, "paused": "on", "lasts": "4", "note": "provider <is> down"}
    response = client.post(form_of(task), given)
    assert messages_of(response) == ["task shop.charge_card is changed."]
    found = Override.objects.get()
    assert found.paused_at is not None
    assert found.until is not None
    text = text_of(client.get(page_of(task)))
    assert "Paused" in text
    assert "provider &lt;is&gt; down" in text
    entry = AuditEntry.objects.get()
    assert (entry.via, entry.act, entry.number) == ("page", "override", 1)
    assert entry.actor == client.user.username


def test_form_begins_with_what_is_in_force_and_keeps_its_time():
    task, client = make(keys=KEYS), operator(*MAY)
    client.post(form_of(task), {**FORM, "rate": "5/hour", "lasts": "4"})
    until = Override.objects.get().until
    text = text_of(client.get(form_of(task)))
    assert 'value="5/hour"' in text
    assert "Empty: 100/minute, as the code says." in text
    client.post(form_of(task), {**FORM, "rate": "6/hour", "lasts": "keep"})
    assert Override.objects.get().until == until
    client.post(form_of(task), FORM)
    assert not Override.objects.exists()
    assert "5/hour" not in text_of(client.get(page_of(task)))


def test_list_says_which_tasks_are_paused_or_changed():
    make()
    make("shop.refund", **KEYS)
    make("shop.ship")
    override("task", "shop.charge_card", paused=True)
    override("task", "shop.refund", max_running=1)
    text = text_of(operator(*MAY).get("/admin/pgjobs/taskdefinition/?q=shop."))
    states = re.findall(r"field-state[^>]*>(.*?)</td>", text)
    assert "Paused" in states[0]
    assert "changed at run time" in states[1]
    assert states[2].endswith("Active</span>")


def test_page_says_where_code_and_operators_differ():
    task = make(keys=KEYS)
    override("task", task.name, max_running=1, rate="5/hour")
    text = text_of(operator(*MAY).get(page_of(task)))
    assert "most running jobs: 1 (in the code: 3)" in text
    assert "rate: 5/hour (in the code: 100/minute)" in text


def test_form_offers_only_what_the_code_declares_and_says_why():
    task, client = make(), operator(*MAY)
    text = text_of(client.get(form_of(task)))
    assert 'name="rate"' not in text
    assert "Its code declares no rate" in text
    given = {**FORM, "kind": "task", "key": "", "rate": "1/minute"}
    sees = operator(*MAY, "view_job_arguments")
    shown = text_of(sees.get(form_of(task)))
    for name in ("rate", "max_running", "kind", "key"):
        assert f'name="{name}"' not in shown
    assert "declares no rate" in text_of(sees.post(form_of(task), given))
    assert not Override.objects.exists()


def test_keys_are_for_those_who_may_see_arguments():
    task = make(keys=KEYS)
    override("lock", "erp-7", paused=True)
    sees, does_not = operator(*MAY, "view_job_arguments"), operator(*MAY)
    assert "erp-7" in text_of(sees.get(page_of(task)))
    assert "erp-7" not in text_of(does_not.get(page_of(task)))
    address = f"{form_of(task)}?kind=lock&key=erp-7"
    assert 'value="erp-7"' in text_of(sees.get(address))
    assert "erp-7" not in text_of(does_not.get(address)).replace(address, "")
    given = {**FORM, "kind": "lock", "key": "erp-7"}
    sees.post(address, given)
    assert not Override.objects.exists()
    sees.post(form_of(task), {**given, "kind": "limit", "max_running": "2"})
    assert Override.objects.get().max_running == 2


@pytest.mark.parametrize(
    "given",
    [
        {"rate": "fast"},
        {"max_running": "0"},
        {"max_running": "x"},
        {"lasts": "9"},
        {"kind": "lock", "key": ""},
        {"kind": "lock", "key": "a", "rate": "1/hour"},
        {"kind": "queue", "key": "a"},
        {"kind": "lock", "key": "a\0", "paused": "on"},
        {"kind": "lock", "key": "x" * 501, "paused": "on"},
        {"note": "\0"},
    ],
)
def test_what_cannot_be_stored_is_an_error_of_the_form(given):
    task = make(keys=KEYS)
    client = operator(*MAY, "view_job_arguments")
    response = client.post(form_of(task), {**FORM, "kind": "task", "key": "", **given})
    assert response.status_code == 200
    assert "errorlist" in text_of(response)
    assert not Override.objects.exists()
    assert client.get(f"{form_of(task)}?kind=lock&key=%00").status_code == 200


def test_check_names_the_tasks_that_differ_from_their_code():
    override("task", "shop.charge_card", paused=True)
    override("lock", "erp-7", paused=True)
    assert check_overrides() == []
    (message,) = check_overrides(databases=["default"])
    assert message.id == "pgjobs.I090"
    assert message.msg == (
        "shop.charge_card differs from its code in the database 'default': paused."
    )
    assert "manage.py tasks lift shop.charge_card" in message.hint


def test_page_reads_no_more_keys_than_it_shows():
    task = make(keys=KEYS)
    Override.objects.bulk_create(
        Override(kind="lock", key=f"erp-{number}", paused_at=timezone.now())
        for number in range(MOST_KEYS + 10)
    )
    client = operator(*MAY, "view_job_arguments")
    with CaptureQueriesContext(connection) as seen:
        text = text_of(client.get(page_of(task)))
    assert text.count("key=erp-") == MOST_KEYS
    assert "There are more. All keys: manage.py tasks" in text
    reading = [each["sql"] for each in seen if "pgjobs_override" in each["sql"]]
    assert reading
    assert all("LIMIT" in sql for sql in reading)
