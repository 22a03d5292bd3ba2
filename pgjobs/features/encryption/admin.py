"""On the page of a job: that it is encrypted, and a click that opens it."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import TextField
from django.db.models.functions import Cast
from django.http import HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from ...admin.auditing import audited
from ...admin.details import LONGEST_LINE, LONGEST_TEXT, Lineage, Text
from ...admin.links import page
from ...admin.searching import may_see_arguments, search_note
from ...exceptions import EncryptionError
from ...models.job import Job
from ...reports.job_filters import terms_of
from ...reports.json_text import plain
from ...reports.texts import block, excerpt
from ...tasks.registry import registry
from .kept import kept_of, text_at
from .sealing import MARK, NO_MARK, RESULT, open_arguments, seal_of
from .stored import read

TEMPLATE = "admin/pgjobs/job/encrypted.html"
JOB_KEYS = (MARK,)


def job_context(request, job: Any, lineage: Lineage, admin_site) -> dict[str, Any]:
    """Return what the section of the page says: `change_form.html`."""
    if job.encrypted is None:
        return {}
    name = "admin:pgjobs_job_read"
    url = reverse(name, args=(job.pk,), current_app=admin_site.name)
    return {"url_to_read": url if may_see_arguments(request) else "", "is_closed": True}


def list_context(request, changelist, admin) -> dict[str, Any]:
    """Return the note of a search, and that it does not find what is encrypted."""
    if not may_see_arguments(request):
        return {}
    terms = terms_of(changelist.query)
    keys = dict.fromkeys(term.key.partition(".")[0] for term in terms)
    encrypted = {name for task in registry.all_tasks() for name in names_of(task)}
    names = [key for key in keys if key in encrypted]
    if not names:
        return {}
    text = gettext("Encrypted arguments cannot be searched: %(names)s.")
    shown = excerpt(", ".join(names), LONGEST_LINE)
    usual = search_note(request, changelist.query)
    return {"search_note": f"{usual} {text % {'names': shown}}"}


def names_of(task: Any) -> Iterator[str]:
    """Yield the names of the parameters that are encrypted."""
    return filter(task.options.covers, task.signature.parameters)


@never_cache
@require_POST
def read_view(request, admin, pk: int):
    """Show what is encrypted of a job; the audit trail says who has seen it."""
    if not admin.has_view_permission(request) or not may_see_arguments(request):
        raise PermissionDenied
    job = get_object_or_404(rows(), pk=pk)
    url_back = page("job", pk, admin.admin_site)
    with audited(request, "read", "job", pk) as entry:
        entry.number = 0
        try:
            texts = list(texts_of(job))
        except EncryptionError as error:
            admin.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(url_back)
        entry.number = 1
    title = gettext("What is encrypted of job %(id)d") % {"id": pk}
    original = excerpt(str(job), LONGEST_LINE)
    context = {"texts": texts, "original": original, "url_back": url_back}
    return admin.page(request, TEMPLATE, title, context)


def rows():
    """Return the jobs with their JSON as text: SQL may have stored any."""
    columns = {"args": "args", "kwargs": "kwargs", "result": "return_value"}
    texts = {f"{name}_text": Cast(of, TextField()) for name, of in columns.items()}
    names = ("args", "kwargs", "return_value", "keys", "dependencies")
    mark = Cast(f"keys__{MARK}", TextField())
    encrypted = Job.objects.filter(keys__has_key=MARK).defer(*names)
    return encrypted.annotate(mark_text=mark, **texts)


def texts_of(job: Any) -> Iterator[Text]:
    """Yield what is encrypted, opened. Raises EncryptionError."""
    mark = read(job.mark_text)
    seal = seal_of(mark)
    if seal is None:  # SQL has stored the mark null
        raise EncryptionError(NO_MARK)
    args, kwargs = open_arguments(job.args_text, job.kwargs_text, mark)
    yield shown(gettext("Arguments"), kwargs)
    if args != "[]":
        yield shown(gettext("Unnamed arguments"), args)
    if job.result_text is not None:
        yield shown(gettext("Result"), text_at(seal, RESULT, job.result_text))
    titles = {"step": gettext("Step %(name)s"), "answer": gettext("Answer %(name)s")}
    for each in kept_of(job, mark):
        name = excerpt(each.name, LONGEST_LINE)
        yield shown(titles[each.kind] % {"name": name}, each.text)


def shown(title: str, text: str) -> Text:
    return Text(title, block(plain(text), LONGEST_TEXT))


PAGES = (("<int:pk>/read/", "pgjobs_job_read", read_view),)
LIST_CONTEXTS = (list_context,)
JOB_CONTEXTS = (job_context,)
