"""The plain text stands in no table, page, log, event, span or metric."""

import json
import logging
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from traceback import format_exception
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse

from pgjobs import Answer, Chunk, chain, current_job, enqueue, result, task
from pgjobs.base.addresses import status_url
from pgjobs.contrib.prometheus import metrics
from pgjobs.exceptions import AlreadyEnqueued, InvalidArguments
from pgjobs.features.definitions.definitions import declared, sync
from pgjobs.models import Job
from tests.features.encryption.keys import FIRST, keys
from tests.features.encryption.rows import whole_database
from tests.features.exporters.test_sentry_by_default import texts_of
from tests.operators import ALL_PERMISSIONS, operator, text_of, url_of
from tests.processes import drain
from tests.test_leaks import (
    COMMANDS,
    Planted,
    pages,
    printed,
    seen_by_the_role_that_watches,
    sent,
    spans,
)

__all__ = ["sent", "spans"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)
MORE_COMMANDS = (
    ("jobs", "errors"),
    ("jobs", "waits"),
    ("tasks", "list"),
    ("queues", "list"),
    ("dumpdata",),
    ("dumpdata", "--format=jsonl"),
)
OPTIONS = {"max_attempts": 1, "keyed_hash": True}


@task(
    name="leaks.encrypted",
    encrypted=("iban", "owner"),
    lock="{iban}",
    unique=("iban",),
    **OPTIONS,
)
def pay(iban: str, owner: dict, how: str) -> dict:
    job = current_job()
    for value in (iban, owner["name"]):
        logging.getLogger("shop").warning("value %s", value)
        job.log(f"to {value!r}, {json.dumps(value)} {quote(value)}")
        job.log(b64encode(value.encode()).decode())
    job.progress(1, 2, f"to {iban}")
    kept = job.step("ask", lambda: {"of": owner["name"], "iban": iban})
    if how == "fail":
        raise ValueError(f"{iban!r} of {kept} at https://bank.example/{quote(iban)}")
    return {"iban": iban, "kept": kept}


@task(name="leaks.gets", max_attempts=1)
def gets(given: dict, how: str) -> str:
    current_job().log(f"got {given}")
    if how == "fail":
        raise ValueError(f"no {given['iban']}")
    return given["iban"]


@dataclass
class Given:
    given: dict
    how: str


@task(name="leaks.gets_many", chunk=9, max_attempts=1)
def gets_many(calls: Chunk[Given]) -> list[str]:
    ibans = [call.args.given["iban"] for call in calls]
    current_job().log(f"all get {ibans}")
    for call, iban in zip(calls, ibans, strict=True):
        call.job.log(f"gets {iban}")
        call.job.progress(1, 2, f"to {iban}")
    if any(call.args.how == "fail" for call in calls):
        raise ValueError(f"no {ibans}")
    return ibans


@task(name="leaks.asks", encrypted=True, max_attempts=1)
def asks(iban: str) -> str:
    ways = {"yes": Answer(str, title=f"Pay to {iban}?")}
    _, answer = current_job().wait_for_first(ways, name="ask")
    code = current_job().wait_for("code", str)
    raise ValueError(f"{answer} and {code} of {iban}")


@task(name="leaks.waits", max_attempts=1)
def waits(number: int) -> str:
    (end,) = current_job().wait_for_jobs("end", [number])
    current_job().log(f"it was {end.value}")
    raise ValueError(f"no {end.value}")


def plant(planted: Planted) -> list[Job]:
    jobs = [
        enqueue(pay, planted(f"{how} argument"), {"name": planted(f"{how} deep")}, how)
        for how in ("fail", "succeed")
    ]
    for how in ("fail", "succeed"):
        owner = {"name": planted(f"{how} owner in a chain")}
        first = pay.bind(planted(f"{how} in a chain"), owner, "succeed")
        jobs += enqueue(chain(first, gets.bind(result, how=how)))
        first = pay.bind(planted(f"{how} in a call"), owner, "succeed")
        jobs += enqueue(chain(first, gets_many.bind(given=result, how=how)))
        drain()
    asking = enqueue(asks, planted("asks"))
    drain()
    asking.answer("yes", planted("labelled answer"))
    asking.answer("code", planted("answer"))
    jobs += [asking, enqueue(waits, jobs[1].pk)]
    drain()
    for job in jobs:
        job.refresh_from_db()
    assert {job.status for job in jobs} == {"SUCCESSFUL", "FAILED"}
    return jobs


@pytest.mark.filterwarnings("ignore:The send_default_pii option")
@pytest.mark.parametrize("seed", range(2))
def test_plain_text_stands_nowhere(seed, sent, spans, caplog, settings):
    settings.PGJOBS = {**settings.PGJOBS, "KEEP_LOGS": "INFO"}
    planted = Planted(seed)
    with keys(FIRST):
        sync("default", declared())
        with caplog.at_level(logging.DEBUG, "pgjobs"):
            jobs = plant(planted)
        assert len(planted.all) == 13
        outputs = {"database": whole_database(), "log": told(caplog)}
        outputs |= pages_of(jobs) | acted_on(jobs)
        outputs |= {"refusals": refusals(planted)}
        outputs["database after all"] = whole_database()
    for command in (*COMMANDS, *MORE_COMMANDS):
        outputs[" ".join(command)] = printed(*command)
    for job in jobs:
        outputs[f"show {job.pk}"] = printed("jobs", "show", str(job.pk), "--json")
    outputs["role"] = seen_by_the_role_that_watches()
    exporter, reader = spans
    outputs["spans"] = "\n".join(
        each.to_json() for each in exporter.get_finished_spans()
    )
    outputs["metrics"] = str(reader.get_metrics_data())
    outputs["prometheus"] = metrics(RequestFactory().get("/")).content.decode()
    for number, (kind, item) in enumerate(sent.items):
        texts = "\n".join(texts_of(item))
        outputs[f"sentry {kind} {number}"] = f"{json.dumps(item)}\n{texts}"
    found = {name: planted.leaks(output) for name, output in outputs.items()}
    assert {name: leaks for name, leaks in found.items() if leaks} == {}


def told(caplog) -> str:
    """Return the records of all loggers but the one that a body uses by itself."""
    return "\n".join(
        logging.Formatter().format(each)
        for each in caplog.records
        if each.name != "shop"
    )


def acted_on(jobs: list[Job]) -> dict[str, str]:
    """Return what is told of acts of somebody who may see no argument opened."""
    client = operator(*ALL_PERMISSIONS)
    found = {}
    for job in jobs:
        for act in ("run_again", "retry"):
            response = client.post(url_of(act, job), follow=True)
            found[f"{act} {job.pk}"] = text_of(response)
    drain()
    return found


def refusals(planted: Planted) -> str:
    """Return the errors, with tracebacks, of what cannot be enqueued."""
    again = pay.using(on_conflict="raise", queue_name="later")
    owner = {"name": planted("refused owner")}
    iban = planted("refused")
    enqueue(again, iban, owner, "succeed")
    calls: list[Callable[[], Any]] = [
        lambda: enqueue(again, iban, owner, "succeed"),
        lambda: enqueue(pay, iban, [owner["name"]], "succeed"),
        lambda: enqueue(pay, [iban], owner, "succeed", iban),
        lambda: enqueue(pay, iban, owner, how=5),
        lambda: enqueue(asks, {iban: iban}),
    ]
    told = []
    for call in calls:
        with pytest.raises((AlreadyEnqueued, InvalidArguments)) as caught:
            call()
        told += [repr(caught.value), *format_exception(caught.value)]
    return "\n".join(told)


def pages_of(jobs: list[Job]) -> dict[str, str]:
    """Return what who may do everything sees without a click that opens a job."""
    client = Client()
    client.force_login(User.objects.create_superuser("all"))
    found = {}
    lists = [
        reverse(f"admin:pgjobs_{model._meta.model_name}_changelist")
        for model in admin.site._registry
        if model._meta.app_label == "pgjobs"
    ]
    answering = [job.answer_url("code") for job in jobs if job.task == asks.name]
    own = (*pages(jobs), *(status_url(job.pk) for job in jobs))
    for address in (*own, *lists, *answering):
        response = client.get(address)
        found[address] = (
            response.getvalue().decode() if response.streaming else text_of(response)
        )
    return found
