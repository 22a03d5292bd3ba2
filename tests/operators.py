"""Operators and jobs for the tests of the admin."""

from django.contrib.auth.models import Permission, User
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from pgjobs.conf import FINISHED
from pgjobs.models import Job, Status, Worker

LIST = "/admin/pgjobs/job/"
STATUSES = tuple(Status.values)
ALL_PERMISSIONS = (
    "view_job",
    "retry_job",
    "add_job",
    "cancel_job",
    "fail_job",
    "run_job_now",
    "delete_job",
    "view_job_arguments",
)


def operator(*permissions: str, **client_options) -> Client:
    """Return the client of a new member of the staff with these permissions only."""
    user = User.objects.create_user(f"staff{User.objects.count()}", is_staff=True)
    for codename in permissions:
        user.user_permissions.add(Permission.objects.get(codename=codename))
    client = Client(**client_options)
    client.force_login(user)
    client.user = user
    return client


def make_worker(name: str = "worker", **columns) -> Worker:
    now = timezone.now()
    values = {
        "host": "host",
        "pid": 1234,
        "queues": "*",
        "slots": 4,
        "started_at": now,
        "heartbeat_at": now,
        "beating_since": now,
        "lease_until": now + timezone.timedelta(seconds=30),
        "heartbeat_interval": 5,
        "holds_session_lock": False,
    }
    return Worker.objects.create(name=name, **values | columns)


def make_job(status: str = "FAILED", **columns) -> Job:
    """Insert a job in any status, with what its constraints ask for."""
    now = timezone.now()
    if status in FINISHED:
        columns.setdefault("finished_at", now)
    if status == "SCHEDULED":
        columns.setdefault("run_after", now + timezone.timedelta(hours=1))
    if status == "RUNNING" and "worker_id" not in columns:
        columns["worker_id"] = make_worker().pk
        columns.setdefault("attempts", 1)
    columns.setdefault("task", "tests.noop")
    if status == "WAITING":
        columns = {"waiting_for": "lock", "keys": {"lock": "l"}, **columns}
    if status in ("WAITING", "RUNNING"):  # no row is inserted in these
        job = Job.objects.create(task=columns.pop("task"))
        Job.objects.filter(pk=job.pk).update(status=status, **columns)
    else:
        job = Job.objects.create(status=status, **columns)
    return Job.objects.get(pk=job.pk)


def insert(**columns: str) -> int:
    """Insert a row of SQL expressions, as any client of the database may."""
    columns = {"task": "'tests.noop'"} | columns
    names, values = ", ".join(columns), ", ".join(columns.values())
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO pgjobs_job ({names}) VALUES ({values}) RETURNING id"
        )
        return cursor.fetchone()[0]


def found(client, **query) -> list[int]:
    """Return the ids of the jobs that a list shows."""
    response = client.get(LIST, query)
    assert response.status_code == 200
    return [job.pk for job in response.context["cl"].result_list]


def statements_of(client, query: str = "") -> list[str]:
    """Return the statements that a list runs."""
    with CaptureQueriesContext(connection) as queries:
        client.get(f"{LIST}?{query}")
    return [each["sql"] for each in queries]


def statement_of_rows(client, query: str = "") -> str:
    """Return the statement with which a list reads the rows of its page."""
    (rows,) = [each for each in statements_of(client, query) if "reason_start" in each]
    return rows


def plan_of(sql: str, *without: str) -> str:
    """Return the plan of a statement; `without`: what PostgreSQL must do without."""
    with connection.cursor() as cursor:
        for each in without:
            cursor.execute(f"SET LOCAL enable_{each} = off")
        cursor.execute(f"EXPLAIN {sql}")
        return "\n".join(line for (line,) in cursor.fetchall())


def page_of(job) -> str:
    return reverse("admin:pgjobs_job_change", args=(getattr(job, "pk", job),))


def url_of(verb: str, job) -> str:
    return f"{LIST}{verb}/{getattr(job, 'pk', job)}/"


def text_of(response) -> str:
    return response.content.decode()


def messages_of(response) -> list[str]:
    """Return the messages that the next page shows."""
    return [str(each) for each in get_messages(response.wsgi_request)]


def status_of(job) -> str:
    return Job.objects.get(pk=job.pk).status
