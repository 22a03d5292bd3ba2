"""A fuzzer plants secrets wherever a project may put them, and looks for them
in everything that comes out.

Each seed makes other secrets: with quotes, line breaks, letters of other alphabets,
markup, and what URLs and regular expressions take for their own.
"""

import json
import logging
import random
from base64 import b64encode
from dataclasses import dataclass
from datetime import timedelta
from io import StringIO
from itertools import chain
from urllib.parse import quote, urlencode

import pytest
import sentry_sdk
from django.core.management import call_command
from django.db import connection, transaction
from django.test import RequestFactory
from django.urls import reverse
from django.utils.timezone import now
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pgjobs import Dependency, current_job, enqueue, publish, subscribe, task
from pgjobs.base.addresses import status_url
from pgjobs.contrib import sentry
from pgjobs.contrib.otel import PgJobsInstrumentor
from pgjobs.contrib.prometheus import metrics
from pgjobs.features.dependencies.declare import Same
from pgjobs.models import Event, Job, Schedule, TaskDefinition
from tests import harness
from tests.actors import execute
from tests.features.exporters.test_sentry import initialise
from tests.features.exporters.test_sentry_by_default import texts_of
from tests.features.roles.test_role_that_watches import COLUMNS
from tests.features.roles.test_roles import PASSWORD
from tests.operators import ALL_PERMISSIONS, LIST, operator, page_of, text_of
from tests.processes import drain
from tests.support.declared import store_subscriptions
from tests.support.leaks import leaks_of

pytestmark = pytest.mark.django_db(transaction=True)

ALPHABET = "abcXYZ0189 '\"\\/+&=<>%?#:;,.|*()[]{}$^é߀ñ漢🙂\n\t"
SEEDS = range(4)


def secret(chance: random.Random) -> str:
    length = chance.randint(10, 30)
    text = "".join(chance.choice(ALPHABET) for _ in range(length))
    return f"{chance.randint(10**8, 10**9)}{text.strip()}x"


class Planted:
    """The secrets of one run, by where they are."""

    def __init__(self, seed: int):
        self.chance = random.Random(seed)
        self.all: dict[str, str] = {}

    def __call__(self, where: str) -> str:
        self.all[where] = secret(self.chance)
        return self.all[where]

    def leaks(self, output: str) -> list[tuple[str, str]]:
        """Return which secrets stand in an output, and how."""
        return [
            (where, form)
            for where, value in self.all.items()
            for form in leaks_of(value, output)
        ]


@task(name="leaks.pay", sensitive=("iban",), max_attempts=1, unique=True)
def pay(iban: str, customer: dict, how: str) -> dict:
    job = current_job()
    everything = [iban, customer["password"], *customer["tokens"]]
    for value in everything:
        logging.getLogger("shop").warning("value %s", value)
        job.log(f"to {value!r}, {json.dumps(value)}")
        job.log(f"https://bank.example/?iban={quote(value)}&{urlencode({'a': value})}")
        job.log(b64encode(f"user:{value}".encode()).decode())
    job.progress(1, 2, f"to {iban}")
    job.step("ask", lambda: {"password": customer["password"], "iban": iban})
    if how == "fail":
        texts = [*everything, *map(repr, everything), json.dumps(customer), quote(iban)]
        raise ValueError(f"{texts} at https://bank.example/{quote(iban, safe='')}")
    return {"iban": iban, "secret": customer["password"]}


@dataclass
class Card:
    number: str
    pin_token: str


def lock_of(card: Card, iban: str, how: str) -> str:
    if how == "no lock":
        raise ValueError(f"{card!r} of {iban} has no lock")
    return iban


@task(name="leaks.charge", sensitive=("iban", "card"), lock=lock_of, max_attempts=1)
def charge(card: Card, iban: str, how: str) -> None:
    raise ValueError(f"{card!r} of {iban} is refused; {card.number!r}")


def refuse(iban: str) -> str:
    raise ValueError(f"{iban} has no account")


@task(
    name="leaks.transfer",
    sensitive=("iban",),
    dependencies=Dependency(
        pay, hours=1, iban=Same("iban", (refuse,)), customer={}, how=""
    ),
)
def transfer(iban: str) -> None: ...


@subscribe("leaks.paid")
@task(name="leaks.hear", sensitive=("iban",), max_attempts=1)
def hear(iban: str, tokens: list): ...


@pytest.fixture
def sent():
    sentry.install()
    yield initialise(send_default_pii=True)
    sentry.uninstall()
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
def spans():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    instrumentor = PgJobsInstrumentor()
    instrumentor.instrument(
        tracer_provider=provider, meter_provider=MeterProvider([reader])
    )
    yield exporter, reader
    instrumentor.uninstrument()


def plant(planted: Planted) -> list[Job]:
    """Put secrets into jobs, a schedule and an event; run what runs."""

    def customer(where: str) -> dict:
        return {
            "password": planted(f"{where} nested"),
            "tokens": [planted(f"{where} list")],
            "api_key": {planted(f"{where} key"): planted(f"{where} deep")},
        }

    jobs = [
        enqueue(pay, planted(f"{how} argument"), customer(how), how)
        for how in ("fail", "succeed")
    ]
    meta = {"token": planted("meta"), "user": {"password": planted("nested meta")}}
    Job.objects.filter(pk__in=[job.pk for job in jobs]).update(meta=meta)
    waiting = [
        Job.objects.create(
            task=pay.name,
            kwargs={"iban": iban, "customer": {}, "how": "succeed"},
            keys={"lock": f"acct-{iban}"},
        )
        for iban in [planted("lock")] * 2
    ]
    Schedule.objects.create(
        name="leaks",
        task=pay.name,
        every=timedelta(days=1),
        kwargs={"iban": planted("schedule"), "customer": customer("schedule")},
    )
    charged = plant_typed(planted)
    store_subscriptions("default")
    publish(
        "leaks.paid",
        {"iban": planted("event"), "tokens": [planted("nested event")]},
    )
    drain()
    return [*jobs, *charged, *waiting, *Job.objects.filter(task=hear.name)]


def plant_typed(planted: Planted) -> list[Job]:
    """Put secrets into objects: of a job that fails, and of what cannot be a job."""
    card = Card(planted("number"), planted("pin"))
    job = enqueue(charge, card, planted("typed"), "fail")
    unfit = Job.objects.create(
        task=charge.name,
        kwargs={"card": [planted("unfit")], "iban": {"a": planted("unfit object")}},
        max_attempts=1,
    )
    dependent = Job.objects.create(
        task=transfer.name, kwargs={"iban": planted("dependent")}
    )
    kwargs = {
        "card": {"number": planted("no lock"), "pin_token": planted("no lock pin")},
        "iban": planted("no lock iban"),
        "how": "no lock",
    }
    made = Schedule.objects.create(
        name="no lock", task=charge.name, every=timedelta(days=1), kwargs=kwargs
    )
    Schedule.objects.filter(pk=made.pk).update(next_run_at=now(), origin_at=now())
    return [job, unfit, dependent]


def act(jobs: list[Job]) -> None:
    """Leave entries in the audit trail."""
    Job.objects.filter(pk=jobs[0].pk).retry()
    Job.objects.filter(pk=jobs[0].pk).fail("by hand")
    for schedule in Schedule.objects.all():
        schedule.paused = True
        schedule.save()


def pages(jobs: list[Job]) -> list[str]:
    lists = [
        reverse(f"admin:pgjobs_{name}_changelist")
        for name in ("schedule", "event", "taskdefinition", "queue")
    ]
    lists += [
        f"{reverse('admin:pgjobs_taskdefinition_add_job', args=(definition.pk,))}"
        f"?like={job.pk}"
        for job in jobs
        for definition in TaskDefinition.objects.filter(name=job.task)
    ]
    lists += [reverse("admin:pgjobs_job_history", args=(job.pk,)) for job in jobs]
    found = [page_of(each) for each in (*Schedule.objects.all(), *Event.objects.all())]
    exports = [f"{LIST}export.csv", f"{LIST}export.json"]
    own = [page_of(job) for job in jobs]
    return [LIST, reverse("admin:pgjobs_overview"), *lists, *found, *exports, *own]


COMMANDS = (
    ("jobstatus",),
    ("jobstatus", "--json"),
    ("jobs", "list", "--json"),
    ("jobs", "list"),
    ("schedules", "list"),
)


@pytest.mark.filterwarnings("ignore:The send_default_pii option")
@pytest.mark.parametrize("seed", SEEDS)
def test_secrets_stand_in_no_output(seed, sent, spans, caplog, settings):
    settings.PGJOBS = {"KEEP_LOGS": "INFO"}
    planted = Planted(seed)
    with caplog.at_level(logging.DEBUG, "pgjobs"):
        jobs = plant(planted)
    assert Schedule.objects.get(name="no lock").error
    assert "no account" in Job.objects.get(task=transfer.name).reason
    act(jobs)
    assert {job.status for job in Job.objects.all()} >= {"FAILED", "SUCCESSFUL"}
    outputs = {
        "log": "\n".join(
            logging.Formatter().format(each)
            for each in caplog.records
            if each.name.startswith("pgjobs")
        )
    }
    clients = {
        "viewer": operator("view_job", "view_schedule", "view_event"),
        "reader": operator(
            "view_job",
            "view_job_arguments",
            "view_schedule",
            "view_event",
            "view_taskdefinition",
            "view_queue",
        ),
        "editor": operator(
            *ALL_PERMISSIONS,
            "view_taskdefinition",
            "change_schedule",
            "view_auditentry",
        ),
    }
    for who, client in clients.items():
        for address in pages(jobs):
            response = client.get(address)
            content = (
                response.getvalue().decode()
                if response.streaming
                else text_of(response)
            )
            outputs[f"{who} {address}"] = content
    for job in jobs:
        outputs[f"status {job.pk}"] = without_result_of_looks(client, job)
        outputs[f"show {job.pk}"] = printed("jobs", "show", str(job.pk))
        outputs[f"show {job.pk} json"] = printed("jobs", "show", str(job.pk), "--json")
    outputs["role"] = seen_by_the_role_that_watches()
    for command in COMMANDS:
        outputs[" ".join(command)] = printed(*command)
    exporter, reader = spans
    outputs["spans"] = "\n".join(
        each.to_json() for each in exporter.get_finished_spans()
    )
    outputs["metrics"] = str(reader.get_metrics_data())
    outputs["prometheus"] = metrics(RequestFactory().get("/")).content.decode()
    for number, (kind, item) in enumerate(sent.items):
        outputs[f"sentry {kind} {number}"] = json.dumps(item, ensure_ascii=False)
        for text in texts_of(item):
            outputs.setdefault(f"sentry {kind} {number} texts", "")
            outputs[f"sentry {kind} {number} texts"] += f"{text}\n"
    found = {name: planted.leaks(output) for name, output in outputs.items()}
    assert {name: leaks for name, leaks in found.items() if leaks} == {}


def seen_by_the_role_that_watches() -> str:
    """Return all that a role of dashboards may read, also by `jobstatus`."""
    attributes = f"LOGIN PASSWORD '{PASSWORD}'"
    with harness.role("dashboard", attributes) as role, transaction.atomic():
        execute(printed("pgjobsroles", f"dashboard={role}"))
        columns = execute(COLUMNS, {"role": role})
        assert len(columns) > 100
        execute(f"SET LOCAL ROLE {connection.ops.quote_name(role)}")
        rows = [
            execute(f'SELECT "{column}"::text FROM {table}')
            for table, column in columns
        ]
        transaction.set_rollback(True)
    return "\n".join(str(each) for each, *_ in chain.from_iterable(rows))


def printed(*command: str) -> str:
    output = StringIO()
    call_command(*command, stdout=output)
    return output.getvalue()


def without_result_of_looks(client, job: Job) -> str:
    """Return what the status address says, but for what only looks secret.

    It is made for the project's own pages, which may hand out a token.
    """
    told = client.get(status_url(job.pk)).json()
    if isinstance(told["return_value"], dict):
        told["return_value"].pop("secret", None)
    return json.dumps(told, ensure_ascii=False) + "".join(texts_of(told))
