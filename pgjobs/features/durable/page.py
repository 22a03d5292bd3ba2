"""The page on which people answer what a job asks, by a signed link.

GET shows and changes nothing; only POST answers. What a link leads to is looked up each
time: it may have been mailed a week ago.
"""

from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import cache_control
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from ...base.database_choice import database_to_change, database_to_read
from ...models.audit_entry import AuditEntry, Via
from ...tasks.sensitive import sensitive_words
from . import queue
from .answer_form import AnswerForm
from .answering import ANSWER_JOB, answer, refusal, refuse_user
from .links import Link, link_of
from .tables import Wait

OVER = _("This link is over")
# What the page says in each state but "open": a heading, a text, and its HTTP status.
STATES = {
    "thanks": (_("Thank you"), _("Your answer is stored."), 200),
    "yours": (_("Thank you"), _("You have answered this already."), 410),
    "answered": (OVER, _("This has been answered already."), 410),
    "over": (OVER, _("The time to answer is over."), 410),
    "ended": (OVER, _("The job has ended, and needs no answer any more."), 410),
    "retried": (OVER, _("The job has begun anew, and its old links ended."), 410),
    "gone": (OVER, _("The job has been deleted."), 410),
    "unasked": (
        _("Nothing to answer yet"),
        _("The job has not asked yet. Open this link again later."),
        200,
    ),
}
# What the page reads. Templates of the project may read other columns.
COLUMNS = ("life", "name", "label", "asked", "permission", "deadline", "job__task")


@csrf_protect
@xframe_options_deny
@cache_control(no_store=True, private=True)
@require_http_methods(["GET", "HEAD", "POST"])
def answer_job(request: HttpRequest, token: str) -> HttpResponse:
    """Show what a job asks by the link of `job.answer_url`, and take the answer.

    `token`: the last part of the link. People have to sign in and need the permission,
    unless the task says `anyone_with_link`. Returns 404 for a link that pgjobs has not
    signed, 410 for one that is over, 403 without the permission, and 400 with the form
    if the answer does not fit. `request` is that of a browser.
    """
    link = link_of(token)
    if link is None:
        raise Http404("There is no such link.")
    database = database_to_change(database_to_read())
    wait, state = looked_up(database, link, request)
    if wait is None:
        return told(request, state)
    refused = None if wait.anyone_with_link else refused_in(request, wait)
    if refused is not None:
        return refused
    words = sensitive_words(wait.job.task)
    data = request.POST if request.method == "POST" else None
    form = AnswerForm(wait.said("schema"), wait.answer_name, words, data)
    if form.is_valid() and (is_stored := store(request, wait, form)) is not None:
        state = "thanks" if is_stored else looked_up(database, link, request)[1]
        return told(request, state)
    status = 400 if form.errors else 200
    context = {"wait": wait, "job": wait.job, "form": form}
    return render(request, "pgjobs/answer.html", context, status=status)


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


def refused_in(request: HttpRequest, wait: Wait) -> HttpResponse | None:
    """Return the page for a visitor who may not answer, or None."""
    user = signed_in(request)
    if user is None:
        return to_sign_in(request)
    try:
        refuse_user(database_of(wait), wait.job_id, wait.answer_name, user)
    except PermissionDenied:
        text = _("You are signed in as %(user)s, who lacks the permission %(needed)s.")
        values = {"user": user, "needed": wait.permission or ANSWER_JOB}
        return message(request, _("You may not answer this"), text % values, 403)
    return None


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Lead to LOGIN_URL, and back. Django's own function needs its app of users."""
    url = resolve_url(django_settings.LOGIN_URL)
    is_elsewhere = url.startswith(("http:", "https:", "//"))
    back = request.build_absolute_uri() if is_elsewhere else request.get_full_path()
    mark = "&" if "?" in url else "?"
    return redirect(f"{url}{mark}{urlencode({'next': back})}")


def store(request: HttpRequest, wait: Wait, form: AnswerForm) -> bool | None:
    """Store the answer of a form; return if it counts. None: the form has faults."""
    database = database_of(wait)
    user = signed_in(request)
    name = wait.answer_name
    # Of a link that is enough, a user without the permission is anyone.
    by = None if refusal(user, wait.permission) else user
    trail = AuditEntry.objects.db_manager(database)
    actor = "link" if user is None else user.get_username()
    with trail.audited(
        actor, Via.PAGE, "answer", "job", wait.job_id, note=name
    ) as entry:
        entry.number = 0
        try:
            with transaction.atomic(database):
                is_stored = answer(wait.job, name, form.value(), by, wait.life)
        except ValueError as error:
            form.add_faults(error, faults_of(database, form))
            return None
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


def told(request: HttpRequest, state: str) -> HttpResponse:
    """Return the page that says what became of a link."""
    heading, text, status = STATES[state]
    if state == "unasked" and request.method == "POST":
        status = 409
    return message(request, heading, text, status)


def message(request: HttpRequest, heading: Any, text: Any, status: int) -> HttpResponse:
    context = {"heading": heading, "text": text}
    return render(request, "pgjobs/message.html", context, status=status)
