"""What docs/telemetry says is so: its examples run, and its queries name metrics."""

import json
import logging.config
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from django.core import mail

from pgjobs import enqueue
from pgjobs.features.desk.counting import Sums
from pgjobs.features.exporters import prometheus
from pgjobs.features.exporters.gauges import Gauge
from pgjobs.features.isolation.pool import Figures
from pgjobs.models import Job
from pgjobs.worker import Loop, WorkerOptions
from tests.processes import drain, shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE = (DOCS / "telemetry.md").read_text()
EXAMPLES = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
# Of the Debian package prometheus.
PROMTOOL = os.environ.get("PROMTOOL") or shutil.which("promtool")
METRIC = re.compile(r"\bpgjobs_\w+")


def example(path: str, containing: str) -> str:
    (text,) = (text for name, text in EXAMPLES if name == path and containing in text)
    return text


@pytest.fixture
def run_example(monkeypatch):
    """Runs an example as the module that it says it is."""

    def run_example(path: str, containing: str) -> ModuleType:
        name = f"documented_{len(sys.modules)}"
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(example(path, containing), path, "exec"), vars(module))
        return module

    return run_example


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example_is_python(number):
    path, text = EXAMPLES[number]
    compile(text, path, "exec")


def test_every_block_of_python_is_an_example():
    assert PAGE.count("```python") == len(EXAMPLES) >= 12


def test_logging_of_the_example_says_which_job(run_example, capsys):
    module = run_example("settings.py", "LOGGING")
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logging.config.dictConfig(module.LOGGING)
        logging.getLogger("shop").info("hello")
    finally:
        root.handlers[:], root.level = before
    assert "INFO job=None None hello" in capsys.readouterr().err


def test_processor_for_structlog_adds_the_job(run_example):
    module = run_example("shop/logs.py", "add_job")
    event = module.add_job(None, "info", {"event": "hello"})
    assert (event["event"], event["job_id"]) == ("hello", None)


def test_context_and_middleware_of_the_examples_work(run_example, settings):
    context = run_example("shop/context.py", "tenant")
    middleware = run_example("shop/middleware.py", "in_language")
    settings.PGJOBS = {
        "META": [f"{context.__name__}.tenant", f"{context.__name__}.locale"],
        "MIDDLEWARE": [f"{middleware.__name__}.in_language"],
    }
    tasks = run_example("shop/tasks.py", "keep_logs")
    token = context.tenant.set("acme")
    try:
        job = enqueue(tasks.ship, 5)
    finally:
        context.tenant.reset(token)
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    assert job.meta == {"tenant": "acme", "locale": "en-us"}


def test_messages_of_the_examples_are_sent(run_example, settings, monkeypatch):
    settings.SLACK_WEBHOOK = "https://hooks.invalid/1"
    settings.ADMINS = [("Anna", "anna@example.com")]
    module = run_example("shop/messages.py", "tell_slack")
    posted = []

    def post(request, timeout):
        posted.append(json.loads(request.data))
        return BytesIO()

    monkeypatch.setattr(module, "urlopen", post)
    store_definitions("default")
    charge = enqueue(module.charge.using(max_attempts=1), 5)
    close = enqueue(module.close_month.using(max_attempts=1), "2026-10")
    drain()
    assert not Job.objects.exclude(pk__in=[charge.pk, close.pk]).exclude(
        status="SUCCESSFUL"
    )
    assert posted == [
        {"text": f"{charge.task} #{charge.pk} failed: ValueError: declined"}
    ]
    assert mail.outbox[0].body == f"Job {close.pk}: ValueError: no figures"


def names_of_metrics() -> set[str]:
    """Return the names of all samples that there can be."""
    sums = Sums()
    sums.failed = 1
    some = [
        Gauge("jobs", "q", "READY", 1, 5.0),
        Gauge("paused", "q", "", 1, None),
        Gauge("workers", "", "alive", 1, None),
        Gauge("remarks", "task_fails", "problem", 1, None),
    ]
    loop = Loop(WorkerOptions())
    families = [
        *prometheus.of_database(some),
        *prometheus.attempts({("q", "t"): sums}, "1"),
        *prometheus.wake_ups(SimpleNamespace(notifications=1, polls=1), "1"),
        *prometheus.of_worker(loop, "1"),
        *prometheus.of_children(Figures(1, 1, 5, Counter(crash=1)), "1"),
    ]
    samples = {sample.name for family in families for sample in family.samples}
    return samples | {"pgjobs_worker_heartbeat_timestamp_seconds"}  # once it has begun


def used_in(text: str) -> set[str]:
    return set(METRIC.findall(text)) - {"pgjobs_enqueue", "pgjobs_publish"}


@pytest.mark.parametrize("name", ["grafana.json", "alerts.yml"])
def test_dashboard_and_alerts_name_metrics_that_exist(name):
    used = used_in((DOCS / "telemetry" / name).read_text())
    assert len(used) > 4
    assert used <= names_of_metrics()


@pytest.mark.skipif(not PROMTOOL, reason="there is no promtool")
@pytest.mark.parametrize("name", ["grafana.json", "alerts.yml"])
def test_prometheus_reads_the_queries(name, tmp_path):
    path = DOCS / "telemetry" / name
    if path.suffix == ".json":
        board = json.loads(path.read_text())
        rules = [
            {"record": f"query:{panel['id']}_{number}", "expr": each["expr"]}
            for panel in board["panels"]
            for number, each in enumerate(panel["targets"])
        ]
        text = json.dumps({"groups": [{"name": "board", "rules": rules}]})
        path = tmp_path / "rules.yml"  # JSON is YAML
        path.write_text(text.replace("$__rate_interval", "5m"))
    checked = subprocess.run(
        [PROMTOOL, "check", "rules", path], capture_output=True, text=True, timeout=60
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_dashboard_is_json():
    board = json.loads((DOCS / "telemetry/grafana.json").read_text())
    assert all(panel["targets"] for panel in board["panels"])


def test_page_lists_all_metrics():
    listed = {
        name.removesuffix(end)
        for name in names_of_metrics()
        for end in ("_bucket", "_count", "_sum", "_created")
        if name.endswith(end)
    }
    plain = {
        name
        for name in names_of_metrics()
        if not name.endswith(("_bucket", "_count", "_sum", "_created"))
    }
    assert listed | plain <= used_in(PAGE)
    assert used_in(PAGE) <= listed | plain


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        name, _, anchor = target.partition("#")
        page = (DOCS / name).read_text() if name else PAGE
        assert not anchor or anchor in anchors_of(page), target


def anchors_of(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in titles}
