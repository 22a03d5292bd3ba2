"""The one way from a button or a bulk action to its effect: ask, act, log, report.

A GET shows what would happen; only a POST of the page's form makes it happen.
"""

from types import MethodType
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import DELETION, LogEntry
from django.contrib.admin.views.main import PAGE_VAR
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import BadRequest
from django.http import HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.ids import read_id
from ..exceptions import AlreadyEnqueued, EncryptionError
from ..models.job import Job
from ..models.job_choices import Status
from ..queue.acts import Changed
from ..reports.texts import excerpt
from .acts import Act, Noted
from .auditing import audited
from .buttons import ButtonsAdmin, button
from .listing import count_up_to

TEMPLATE = "admin/pgjobs/confirmation.html"
LONGEST_NAME = 250
HOW_MANY = "how_many"  # of a selection, the first so many; all if it is empty

LIMITED = _("No more than %(count)d are handled at once: repeat it for the others.")


def permitted(codename: str):
    """Return a `has_..._permission` that asks for a permission of this app."""

    def has_permission(self, request) -> bool:
        return request.user.has_perm(f"pgjobs.{codename}")

    return has_permission


class ActingAdmin(ButtonsAdmin):
    """An admin that carries out acts on its rows."""

    acts: tuple[Act, ...] = ()  # behind buttons
    bulk_acts: tuple[Act, ...] = ()
    # The request must end before the web server cuts it off. The operator repeats the
    # act for the other rows.
    most_at_once = 100_000

    def __init__(self, model, admin_site):
        super().__init__(model, admin_site)
        names = {act: f"pgjobs_{self.opts.model_name}_{act.verb}" for act in self.acts}
        for act, name in names.items():
            setattr(self, name, MethodType(act_button(act), self))
        self.actions_detail = tuple(names.values())
        self.actions_row = tuple(names[act] for act in self.acts if act.is_in_rows)
        self.actions = [bulk_action(act) for act in self.bulk_acts] or None

    # What subclasses override

    def preview(self, act: Act, row) -> dict:
        """Return what the confirmation page shows of a row."""
        return {"subject": name_of(row), "is_possible": act.is_offered(row)}

    def preview_of_many(self, act: Act, rows) -> dict:
        """Return what the confirmation page shows of a selection."""
        number = rows.count()
        return {
            "subject": counted(self.model, number),
            "is_possible": number > 0,
            "most_at_once": at_most(self.model, self.most_at_once, number),
        }

    def context_of_many(self, request, act: Act, rows) -> dict:
        """Return what else the confirmation page shows of a selection."""
        return {}

    def where_they_went(self, request, act: Act) -> str:
        """Return the address of the list that has rows after an act, if another."""
        return ""

    def part_of(self, act: Act, rows):
        """Return as many rows as one request can bear."""
        return rows.order_by("pk")[: self.most_at_once]

    def what_was_done(self, act: Act, row, changed: Changed) -> str:
        """Return how an act has changed a row."""
        return sentences(act, changed, name_of(row))

    def why_not(self, act: Act, row, changed: Changed) -> str:
        """Return why an act has not changed a row."""
        if act.unchanged:
            return act.unchanged % {"name": name_of(row)}
        return sentences(act, changed, name_of(row))

    # One row

    def act_on_one(self, request, act: Act, row):
        """Answer a button's request."""
        form = act.form(request.POST if request.method == "POST" else None)
        form.suggest(row)
        if form.is_valid():
            changed = self.carry_out(request, act, form, row)
            gone = changed and act.flag == DELETION
            return HttpResponseRedirect(self.url_back(request, None if gone else row))
        context = self.preview(act, row) | {"url_back": self.url_back(request, row)}
        return self.confirmation_page(request, act, form, context)

    def carry_out(self, request, act: Act, form, row) -> bool:
        """Act, log and report; return whether the row changed."""
        rows = self.get_queryset(request).filter(pk=row.pk)
        try:
            with self.audited(request, act, form, row.pk) as entry:
                changed = act.run(rows, **words_of(request, act, form))
                entry.number = changed.changed
        except (AlreadyEnqueued, EncryptionError) as error:
            text = f"{name_of(row)}: {error}"
            self.message_user(request, text, messages.WARNING)
            return False
        if not changed.changed:
            text = self.why_not(act, row, changed)
            self.message_user(request, text, messages.WARNING)
            return False
        text = self.what_was_done(act, row, changed)
        if act.flag == DELETION:
            self.log_deletions(request, [row])
        else:
            self.log_change(request, row, with_reason(text, form))
        self.message_user(request, text, messages.SUCCESS)
        return True

    def audited(self, request, act: Act, form, id: int | None = None):
        """Write what happens to the audit trail."""
        chosen = "" if id is not None else selection(request)
        what = {"chosen": chosen, "note": form.for_audit}
        return audited(request, act.verb, self.opts.model_name, id, **what)

    # The form

    def store(self, obj, form, change: bool) -> None:
        """Save a row as the form has it."""
        obj.save(using=self.model._default_manager.db_to_write)

    def save_model(self, request, obj, form, change):
        verb = "change" if change else "add"
        fields = ", ".join(form.changed_data)
        with self.audited_row(request, verb, obj, fields) as entry:
            self.store(obj, form, change)
            entry.object_id, entry.number = obj.pk, 1

    def delete_model(self, request, obj):
        with self.audited_row(request, "delete", obj, name_of(obj)) as entry:
            super().delete_model(request, obj)
            entry.number = 1

    def audited_row(self, request, verb: str, row, chosen: str):
        return audited(request, verb, self.opts.model_name, row.pk, chosen=chosen)

    # A selection

    def changelist_view(self, request, extra_context=None):
        selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if any(read_id(each) is None for each in selected):
            raise BadRequest("What is selected must be ids.")
        return super().changelist_view(request, extra_context)

    def act_on_selection(self, request, act: Act, rows):
        """Answer a bulk action's request; return None to lead back to the list."""
        form = act.form(request.POST if "confirmed" in request.POST else None)
        if not form.is_valid():
            context = self.preview_of_many(act, rows) | selection_context(request)
            context |= self.context_of_many(request, act, rows)
            return self.confirmation_page(request, act, form, context)
        wanted = read_id(request.POST.get(HOW_MANY, ""))
        is_limited = count_up_to(self.most_at_once + 1, rows) > self.most_at_once
        part = self.part_of(act, rows) if is_limited or wanted else rows
        if wanted:
            part, is_limited = part[:wanted], False
        try:
            with self.audited(request, act, form) as entry:
                changed = act.run(part, **words_of(request, act, form))
                entry.number = changed.changed
        except EncryptionError as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        name = counted(self.model, changed.changed)
        text = sentences(act, changed, name)
        if is_limited:
            text = f"{text} {LIMITED % {'count': self.most_at_once}}"
        if changed.changed:
            self.log_bulk_act(request, act, with_reason(text, form), name)
        complete = changed.changed and not changed.skipped and not is_limited
        level = messages.SUCCESS if complete else messages.WARNING
        self.message_user(request, text, level)
        there = self.where_they_went(request, act) if changed.changed else ""
        return HttpResponseRedirect(there) if there else None

    def log_bulk_act(self, request, act: Act, text: str, name: str) -> None:
        """Make one log entry for all rows: there may be very many."""
        LogEntry.objects.create(
            user_id=request.user.pk,
            content_type=ContentType.objects.get_for_model(self.model),
            object_id=None,
            object_repr=name,
            action_flag=act.flag,
            change_message=f"{act.label}. {text} {selection(request)}",
        )

    # The page

    def confirmation_page(self, request, act: Act, form, context: dict):
        # The subject is also the last of the breadcrumbs.
        context |= {"act": act, "form": form, "original": context["subject"]}
        return self.page(request, TEMPLATE, act.label, context)


def act_button(act: Act):
    @button(
        label=act.label,
        path=act.verb,
        permission=act.permission,
        is_offered=act.is_offered,
        label_for=act.label_for,
        is_harmful=act.is_harmful,
    )
    def view(self, request, row):
        return self.act_on_one(request, act, row)

    return view


def bulk_action(act: Act):
    @admin.action(permissions=[act.permission], description=act.bulk_label)
    def action(model_admin, request, queryset):
        return model_admin.act_on_selection(request, act, queryset)

    # By this name the bulk deletion replaces Django's own.
    action.__name__ = f"{act.verb}_selected"
    if hasattr(admin, "ActionLocation"):  # Django 6.1: the detail page has its buttons
        vars(action)["locations"] = [admin.ActionLocation.CHANGE_LIST]
    return action


def effects_by_status(act: Act, numbers: dict[Any, int], most: int) -> dict:
    """Return what the confirmation page shows of many jobs, counted by status."""
    total = sum(numbers.values())
    return {
        "statuses": [
            (status, numbers[status], status in act.statuses)
            for status in map(Status, Status.values)
            if numbers.get(status)
        ],
        "is_possible": any(numbers.get(status) for status in act.statuses),
        "running": numbers.get(Status.RUNNING, 0),
        "most_at_once": at_most(Job, most, total),
    }


def selection_context(request) -> dict:
    """Return what lets the confirmation page repeat the request of the list."""
    across = is_across(request)
    selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
    query = request.GET.copy()
    query.pop(PAGE_VAR, None)  # the page may be gone by then
    return {
        "is_across": across,
        "action": request.POST.get("action"),
        "checkbox_name": ACTION_CHECKBOX_NAME,
        # Django expects at least one.
        "selected": selected[:1] if across else selected,
        "form_url": f"{request.path}?{query.urlencode()}",
        "url_back": request.get_full_path(),
    }


def name_of(row) -> str:
    return excerpt(str(row), LONGEST_NAME)


def counted(model, number: int) -> str:
    """Return a number with the name of what is counted, such as "3 jobs"."""
    options = model._meta
    word = options.verbose_name if number == 1 else options.verbose_name_plural
    return f"{number} {word}"


def at_most(model, most: int, number: int) -> str | None:
    """Return how many of these rows one request handles, or None if it handles all."""
    return counted(model, most) if number > most else None


def sentences(act: Act, changed: Changed, name: str) -> str:
    """Return what an act has done, in words."""
    said = [act.done % {"count": changed.changed, "name": name}]
    if changed.skipped:
        said.append(act.skipped % {"count": changed.skipped})
    if isinstance(changed, Noted) and changed.note:
        said.append(changed.note)
    return " ".join(map(str, said))


def words_of(request, act: Act, form) -> dict[str, Any]:
    """Return what the act takes of its form; an empty reason names the operator."""
    words = form.words
    if "reason" not in words or words["reason"]:
        return words
    return words | {"reason": act.reason % {"user": request.user.get_username()}}


def with_reason(text: str, form) -> str:
    """Return the text with the reason that the operator gave.

    A result is not logged: the log has readers that may not see results.
    """
    reason = form.cleaned_data.get("reason")
    return f"{text} {form.fields['reason'].label}: {reason}" if reason else text


def selection(request) -> str:
    """Return which rows were selected, for the log."""
    if is_across(request):
        return all_that_match(request)
    ids = ", ".join(request.POST.getlist(ACTION_CHECKBOX_NAME))
    return gettext("Selected: %(ids)s") % {"ids": ids}


def all_that_match(request) -> str:
    """Return the filter of the list, for the log."""
    query = request.GET.urlencode()
    return gettext("Selected: all that match ?%(query)s") % {"query": query}


def is_across(request) -> bool:
    return request.POST.get("select_across") == "1"
