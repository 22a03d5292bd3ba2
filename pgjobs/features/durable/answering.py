"""Answers to jobs: who may give them, what they must be, and who was refused."""

import threading
from typing import Any

import psycopg
from django.apps import apps
from django.core.exceptions import PermissionDenied
from django.db import DataError, InternalError, connections

from ...base.plain_json import check_text, dump, shortened
from ...base.queue_database import database_of_acts
from ...base.texts import storable
from ...tasks import tables
from ...tasks.hints import json_data
from ..encryption.sealing import step
from ..encryption.stored import sealed_for
from ..steps.running_job import LONGEST_NAME, check_name, storable_result
from . import queue

ANSWER_JOB = "pgjobs.answer_job"  # decides where a task names no permission
LARGEST_ANSWER = 64_000  # bytes of JSON, as of the result of a step


def answer(job: Any, name: str, value: Any, by: Any, life: int | None = None) -> bool:
    """Store an answer to a job; see `Answering.answer`.

    `life`: the only one of the job that it may be stored in. None: whatever it is.
    """
    database = database_of_acts(job)
    text = answer_text(name, value)
    answered_by = None
    if by is not None:
        refuse_user(database, job.pk, name, by)
        answered_by = str(by.pk)
    try:
        text = sealed_for(database, job.pk, step(name), text)
        return queue.answer(database, job.pk, life, name, text, answered_by)
    except DataError as error:
        if isinstance(error.__cause__, psycopg.errors.InvalidParameterValue):
            raise ValueError(str(error).splitlines()[0]) from None
        raise


def answer_text(name: Any, value: Any) -> str:
    """Return an answer as JSON text; raise ValueError if it cannot be one."""
    check_answer_name(name)
    if value is None:
        raise ValueError("An answer cannot be None, which says that the time is over.")
    try:
        text = dump(json_data(value))
    except ValueError as error:
        raise ValueError(f"The answer to {name!r} is no JSON: {error}.") from None
    size = len(text.encode())
    if size > LARGEST_ANSWER:
        raise ValueError(
            f"The answer to {name!r} is {size} bytes of JSON, more than the "
            f"{LARGEST_ANSWER} that are stored. Store it elsewhere and answer its key."
        )
    return text


def check_answer_name(name: Any) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        raise ValueError(
            f"The name of an answer must be 1 to {LONGEST_NAME} characters, got "
            f"{shortened(name)}."
        )
    try:
        check_text(name)
    except ValueError as error:
        raise ValueError(f"The name of answer {name!a} {error}.") from None


def mark_step(job: Any, name: str, value: Any) -> bool:
    """Mark a step as done by hand; see `Answering.mark_step`."""
    check_name(name)
    text = storable_result(name, value)
    database = database_of_acts(job)
    if text is not None:
        text = sealed_for(database, job.pk, step(name), text)
    return queue.mark_step(database, job.pk, name, text or "null")


def refuse_user(database: str, job_id: int, name: str, user: Any) -> None:
    """Raise PermissionDenied for a user who may not answer what the job asks.

    If it has not asked yet, the job itself decides when it takes the answer. But who is
    not signed in may never answer, and has no primary key to be stored.
    """
    if not hasattr(user, "has_perm"):
        raise ValueError(f"by must be a user, got {shortened(user)}.")
    asked = queue.asked(database, job_id, name)
    if asked is None and user.pk is not None and user.is_active:
        return
    if fault := refusal(user, (asked or {}).get("permission")):
        audit_refusal(database, str(user), job_id, name, fault)
        raise PermissionDenied(f"Job {job_id}, {name!r}: {fault}")


def refusal(user: Any, permission: str | None) -> str:
    """Return why a user may not answer, or an empty text."""
    needed = permission or ANSWER_JOB
    if user is None or user.pk is None or not user.is_active:
        return "the user is gone, not signed in, or not active."
    return "" if user.has_perm(needed) else f"{user} lacks the permission {needed}."


def is_permission(name: Any) -> bool:
    """Whether there is such a permission; a backend of the project may know others."""
    if not isinstance(name, str) or name.count(".") != 1:
        return False
    app_label, codename = name.split(".")
    if not apps.is_installed("django.contrib.auth"):
        return False
    permissions = apps.get_model("auth", "Permission")._default_manager
    named = permissions.filter(content_type__app_label=app_label, codename=codename)
    return named.exists()


def audit_refusal(
    database: str, actor: str, job_id: int, name: str, fault: str
) -> None:
    """Write into the audit trail who was refused, also where the caller rolls back.

    In a replica nothing is written, and the refusal stands all the same.
    """

    def write() -> None:
        tables.AuditEntry.objects.using(database).create(
            actor=storable(actor, LONGEST_NAME),
            via="page",
            act="answer",
            model="job",
            object_id=job_id,
            number=0,
            note=storable(f"Refused: {name}: {fault}", 2_000),
        )

    def write_apart() -> None:
        try:
            write()
        finally:
            connections[database].close()

    if not connections[database].in_atomic_block:
        try:
            return write()
        except InternalError as error:
            if not isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):
                raise
            return None
    thread = threading.Thread(target=write_apart)
    thread.start()
    thread.join()
