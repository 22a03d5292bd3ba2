"""Users answer, if they have the permission that the task asks for."""

import pytest
from django.contrib.auth.models import AnonymousUser, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import transaction

from pgjobs.models import Answer, AuditEntry
from tests.features.durable.bodies import done, enqueued, goes_on

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def user(db):
    return User.objects.create_user("ada")


def allow(user, codename: str) -> User:
    user.user_permissions.add(Permission.objects.get(codename=codename))
    return User.objects.get(pk=user.pk)


def asks_by_permission(job):
    return job.wait_for("question", bool, permission="auth.add_user")


def test_user_with_the_permission_answers(user):
    job = done(asks_by_permission)
    assert job.answer("question", True, by=allow(user, "add_user"))
    assert Answer.objects.get().answered_by == str(user.pk)
    assert goes_on(job).return_value is True


def test_user_without_the_permission_is_refused_and_audited(user):
    job = done(asks_by_permission)
    with pytest.raises(
        PermissionDenied, match=r"ada lacks the permission auth\.add_user"
    ):
        job.answer("question", True, by=user)
    assert not Answer.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.act, entry.object_id) == ("ada", "answer", job.pk)


def test_refusal_is_audited_where_the_callers_transaction_is_rolled_back(user):
    job = done(asks_by_permission)
    with pytest.raises(PermissionDenied), transaction.atomic():
        job.answer("question", True, by=user)
    assert AuditEntry.objects.count() == 1


def test_without_a_permission_of_the_task_answer_job_decides(user):
    job = done(lambda job: job.wait_for("question", bool))
    with pytest.raises(PermissionDenied, match=r"pgjobs\.answer_job"):
        job.answer("question", True, by=user)
    assert job.answer("question", True, by=allow(user, "answer_job"))


def test_early_answer_of_a_user_without_the_permission_is_dropped(user):
    job = enqueued(asks_by_permission)
    assert job.answer("question", True, by=user)
    goes_on(job)
    assert job.status == "WAITING"
    assert not Answer.objects.exists()
    assert "lacks the permission" in AuditEntry.objects.get().note


@pytest.mark.parametrize(
    "nobody",
    [AnonymousUser(), User(username="unsaved"), User(pk=5, is_active=False)],
    ids=["anonymous", "unsaved", "inactive"],
)
def test_early_answer_of_nobody_is_refused_and_audited(nobody):
    job = enqueued(asks_by_permission)
    with pytest.raises(PermissionDenied, match="not signed in"):
        job.answer("question", True, by=nobody)
    assert not Answer.objects.exists()
    assert AuditEntry.objects.get().object_id == job.pk


def test_only_a_user_answers(user):
    job = enqueued(asks_by_permission)
    with pytest.raises(ValueError, match=r"by must be a user, got 'ada'\."):
        job.answer("question", True, by="ada")
