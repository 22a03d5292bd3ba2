"""Which waits a user may answer: the query behind lists of what is to be done."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User

from pgjobs import Answer as Asked
from pgjobs.models import Wait
from pgjobs.sql import statement
from tests.actors import execute
from tests.features.durable.bodies import done, goes_on
from tests.features.durable.test_answering_users import allow
from tests.plans import scans

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 10_000
DEFAULT, OWN = "pgjobs.answer_job", "auth.add_user"


def asks(job):
    return job.wait_for("approval", bool, title="Refund?")


def asks_by_permission(job):
    return job.wait_for("approval", bool, permission="auth.add_user")


@pytest.fixture
def user(db) -> User:
    return allow(User.objects.create_user("ada"), "answer_job")


def jobs_for(user: Any) -> list[int]:
    return list(Wait.objects.answerable_by(user).values_list("job_id", flat=True))


def test_user_has_the_waits_whose_permission_she_has(user):
    with_default, with_own = done(asks), done(asks_by_permission)
    assert jobs_for(user) == [with_default.pk]
    assert jobs_for(allow(user, "add_user")) == [with_default.pk, with_own.pk]


def test_superuser_has_all_waits_and_others_have_none():
    jobs = [done(asks), done(asks_by_permission)]
    root = User.objects.create_superuser("root")
    gone = User.objects.create_superuser("gone", is_active=False)
    assert jobs_for(root) == [job.pk for job in jobs]
    assert [jobs_for(each) for each in (gone, AnonymousUser(), None)] == [[], [], []]


def test_own_backend_of_the_project_decides_about_its_permissions(user, settings):
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Everything"]
    job = done(asks_by_permission)
    assert jobs_for(user) == [job.pk]


class Everything:
    def has_perm(self, user, permission, obj=None):
        return permission == "auth.add_user"


def test_what_is_answered_or_over_is_in_no_list(user):
    answered, cancelled, marked, retried = (done(asks) for _ in range(4))
    answered.answer("approval", True)
    cancelled.cancel()
    marked.mark_step("approval", True)
    retried.cancel()
    retried.retry()
    assert jobs_for(user) == []
    goes_on(retried)
    assert jobs_for(user) == [retried.pk]


def test_waits_for_events_are_in_no_list(user):
    done(lambda job: job.wait_for_event("order.paid"))
    assert jobs_for(user) == []


def test_each_way_of_one_job_is_answered_by_its_own_name(user):
    ways = {"yes": Asked(bool, title="Go on?"), "no": Asked(str)}
    job = done(lambda job: job.wait_for_first(ways))
    waits = Wait.objects.answerable_by(user)
    assert [(wait.answer_name, wait.title) for wait in waits] == [
        ("yes", "Go on?"),
        ("no", "no"),
    ]
    assert [wait.answer_url() for wait in waits] == [
        job.answer_url("yes"),
        job.answer_url("no"),
    ]


def many_waits(permissions: list[str]) -> None:
    """Let 10,000 jobs ask, by these permissions in turn."""
    job = done(asks)
    execute(
        """
        WITH job AS (
            INSERT INTO pgjobs_job (task, queue_name, status, waiting_for, line, args)
            SELECT task, queue_name, status, waiting_for, line, args
            FROM pgjobs_job, generate_series(1, %(many)s) WHERE id = %(id)s
            RETURNING id
        )
        INSERT INTO pgjobs_wait (job_id, life, name, kind, asked, permission, deadline)
        SELECT id, 1, 'approval', 'answer', '{"title": "?"}',
            (%(permissions)s::text[])[1 + id %% %(number)s], now() + interval '1 day'
        FROM job
        """,
        {
            "many": MANY,
            "id": job.pk,
            "permissions": permissions,
            "number": len(permissions),
        },
    )
    job.delete()
    execute("VACUUM ANALYZE pgjobs_wait, pgjobs_job, pgjobs_answer")


def plan_of(name: str, **parameters: Any) -> dict[str, Any]:
    ((plan,),) = execute(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement(name)}", parameters
    )
    (found,) = plan
    return found["Plan"]


def blocks_of(plan: dict[str, Any]) -> int:
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize(
    "permissions",
    [[DEFAULT], [OWN, *[DEFAULT] * 99], [DEFAULT, OWN], ["x.y"] * 98 + [DEFAULT, OWN]],
    ids=len,
)
@pytest.mark.parametrize("has_history", [False, True])
def test_page_of_a_user_reads_little_beside_many_waits(permissions, has_history):
    if has_history:
        many_waits(permissions)
        execute("UPDATE pgjobs_wait SET ended_at = now()")
    many_waits(permissions)
    for asked_for in ([OWN], [OWN, DEFAULT]):
        plan = plan_of("answerable", permissions=asked_for, limit=20)
        assert {scan["Index Name"] for scan in scans(plan)} >= {"pgjobs_wait_asked"}
        assert blocks_of(plan) < 500
    plan = plan_of("asked_permissions")
    assert blocks_of(plan) < 100


def test_no_more_waits_are_looked_for_than_asked(user):
    jobs = [done(asks) for _ in range(3)]
    waits = Wait.objects.answerable_by(user, most=2)
    assert [wait.job for wait in waits] == jobs[:2]


def test_list_of_a_user_takes_three_queries(user, django_assert_num_queries):
    done(asks)
    user.has_perm("x.y")  # Django reads all permissions once
    with django_assert_num_queries(3):
        list(Wait.objects.answerable_by(user).select_related("job"))
