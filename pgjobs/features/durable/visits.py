"""What becomes of a link to what a job asks: who may answer, and what is said.

Both pages ask here, that of `pgjobs.urls` and that of the admin. GET shows and changes
nothing; only POST answers. What a link leads to is looked up each time: it may have
been mailed a week ago.
"""

from typing import Any, NamedTuple

import psycopg
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, transaction
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation import gettext_lazy as _

from ...base.database_choice import database_to_change, database_to_read
from ...exceptions import EncryptionError
from ...models.audit_entry import AuditEntry, Via
from ...tasks.sensitive import sensitive_words
from . import queue
from .answer_form import AnswerForm
from .answering import ANSWER_JOB, answer, audit_refusal, refusal, refuse_user
from .links import Link
from .people import actor_of
from .tables import Wait

OVER = _("This link has expired")
# What is said in each state but that of an open form: a heading, a text, and the HTTP
# status.
STATES = {
    "thanks": (_("Thank you"), _("Your answer is stored."), 200),
    "yours": (_("Thank you"), _("You have answered this already."), 410),
    "answered": (OVER, _("This has been answered already."), 410),
    "over": (OVER, _("The time to answer is over."), 410),
    "ended": (OVER, _("The job has ended and no longer needs an answer."), 410),
    "retried": (
        OVER,
        _("The job has started again, and its old links no longer work."),
        410,
    ),
    "gone": (OVER, _("The job has been deleted."), 410),
    "unasked": (
        _("Nothing to answer yet"),
        _(
            "The job has not asked yet, or does not ask this any more. Open this link "
            "again later."
        ),
        200,
    ),
    "open": (
        _("Your answer is not stored"),
        _("The job has just changed. Open this link again, and answer again."),
        409,
    ),
}
SIGN_IN, FORM, FORBIDDEN = "sign in", "form", "forbidden"
# What a page reads. Templates of the project may read other columns.
COLUMNS = ("life", "name", "label", "asked", "permission", "deadline", "job__task")


class Reply(NamedTuple):
    """What a page says to a visitor: a form, or a heading and a text."""

    state: str  # SIGN_IN, FORM, FORBIDDEN or one of STATES
    status: int = 200  # of HTTP
    heading: Any = ""
    text: Any = ""
    wait: Wait | None = None
    form: AnswerForm | None = None


def answered(request: HttpRequest, link: Link) -> Reply:
    """Take the answer of a request, or return why not, or the form.

    Each refusal of an answer stands in the audit trail, and so does each answer.
    """
    database = database_to_change(database_to_read())
    wait, state = looked_up(database, link, request)
    if wait is None:
        return told(database, link, state, request)
    if not wait.anyone_with_link:
        if signed_in(request) is None:
            return Reply(SIGN_IN)
        if refused := refused_in(request, wait):
            return refused
    form = form_of(wait, request)
    if form.is_valid():
        try:
            is_stored = store(request, wait, form)
        except PermissionDenied:  # what is needed has changed since the look
            return forbidden(request, looked_up(database, link, request)[0] or wait)
        if is_stored:
            return said("thanks", wait)
        if is_stored is False:
            state = looked_up(database, link, request)[1]
            return told(database, link, state, request)
    return Reply(FORM, 400 if form.errors else 200, wait=wait, form=form)


def looked_up(
    database: str, link: Link, request: HttpRequest
) -> tuple[Wait | None, str]:
    """Return the open wait that a link leads to, or None, and its state."""
    state, id, answered_by = queue.link_state(database, *link)
    user = signed_in(request)
    if state == "answered" and user is not None and answered_by == str(user.pk):
        return None, "yours"
    if state != "open":
        return None, state
    waits = Wait.objects.using(database).select_related("job").only(*COLUMNS)
    # Without a row the wait has ended since.
    wait = waits.filter(pk=id).first()
    return wait, "over" if wait is None else state


def signed_in(request: HttpRequest) -> Any:
    """Return the user, or None; the project may have no users."""
    user = getattr(request, "user", None)
    return user if user is not None and user.is_authenticated else None


def refused_in(request: HttpRequest, wait: Wait) -> Reply | None:
    """Return what is said to a user who may not answer, or None."""
    try:
        refuse_user(
            database_of(wait), wait.job_id, wait.answer_name, signed_in(request)
        )
    except PermissionDenied:
        return forbidden(request, wait)
    return None


def forbidden(request: HttpRequest, wait: Wait) -> Reply:
    text = _("You are signed in as %(user)s, who lacks the permission %(needed)s.")
    values = {
        "user": signed_in(request),
        "needed": wait.said("permission") or ANSWER_JOB,
    }
    return Reply(FORBIDDEN, 403, _("You may not answer this"), text % values, wait)


def form_of(wait: Wait, request: HttpRequest) -> AnswerForm:
    words = sensitive_words(wait.job.task)
    data = request.POST if request.method == "POST" else None
    return AnswerForm(wait.said("schema"), wait.answer_name, words, data, wait.title)


def store(request: HttpRequest, wait: Wait, form: AnswerForm) -> bool | None:
    """Store the answer of a form; return if it counts. None: the form has faults."""
    database = database_of(wait)
    user = signed_in(request)
    name = wait.answer_name
    # Of a link that is enough, a user without the permission is anyone.
    by = None if refusal(user, wait.permission) else user
    trail = AuditEntry.objects.db_manager(database)
    with trail.audited(
        actor_of(user), Via.PAGE, "answer", "job", wait.job_id, note=name
    ) as entry:
        entry.number = 0
        try:
            with transaction.atomic(database):
                is_stored = answer(wait.job, name, form.value(), by, wait.life)
        except ValueError as error:
            form.add_faults(error, faults_of(database, form))
            return None
        except EncryptionError as error:  # this process lacks the key
            form.add_error(None, str(error))
            return None
        except OperationalError as error:
            # Of two at once the second, at REPEATABLE READ and above.
            if not isinstance(error.__cause__, psycopg.errors.SerializationFailure):
                raise
            is_stored = False
        entry.number = int(is_stored)
        return is_stored


def faults_of(database: str, form: AnswerForm) -> dict[str, str]:
    if not form.members:
        return {}
    return queue.answer_faults(database, form.schema, form.value())


def database_of(wait: Wait) -> str:
    alias = wait._state.db
    assert alias is not None  # it was read
    return alias


def told(database: str, link: Link, state: str, request: HttpRequest) -> Reply:
    """Return what became of a link; an answer that came is refused."""
    reply = said(state)
    if request.method != "POST":
        return reply
    actor = actor_of(signed_in(request))
    with translation.override(None):
        audit_refusal(database, actor, link.job_id, link.name, str(reply.text))
    return reply._replace(status=409) if state == "unasked" else reply


def said(state: str, wait: Wait | None = None) -> Reply:
    heading, text, status = STATES[state]
    return Reply(state, status, heading, text, wait)
