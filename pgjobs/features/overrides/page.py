"""On the page of a task: what operators have changed, and the form that changes it."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import widgets
from django.db.models import Exists, OuterRef, Subquery
from django.http import HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...admin.buttons import ButtonsAdmin, button
from ...admin.markup import LONGEST_CELL, ago, status_word
from ...admin.searching import may_see_arguments
from ...exceptions import InvalidTask
from ...models.audit_entry import Via
from ...models.definition import TaskDefinition
from ...reports.texts import excerpt
from ...tasks.flow_control import LONGEST_KEY, MOST, RATE
from .queue import (
    Declared,
    Wish,
    current,
    ends_in,
    of_keys,
    set_override,
    wish_of,
)
from .tables import Kind, Override

TEMPLATE = "admin/pgjobs/taskdefinition/override.html"
NAME = "admin:pgjobs_taskdefinition_override"
MOST_KEYS = 50
LIFTED, KEPT = "0", "keep"
LASTS = (
    (LIFTED, _("Until it is lifted")),
    ("1", _("1 hour")),
    ("4", _("4 hours")),
    ("24", _("1 day")),
    ("168", _("7 days")),
)


# By the field that says so: what a task may not declare.
WISHES = {"max_running": Wish(max_running=1), "rate": Wish(rate="1/hour")}


class OverrideForm(forms.Form):
    """What to change of a task, or of all jobs with a key."""

    kind = forms.ChoiceField(label=_("Of"), choices=Kind)
    key = forms.CharField(
        label=_("Key"),
        required=False,
        max_length=LONGEST_KEY,
        widget=widgets.AdminTextInputWidget,
        help_text=_("Of the lock, limit or rate; empty for the task."),
    )
    paused = forms.BooleanField(
        label=_("Paused"),
        required=False,
        help_text=_("Its jobs wait, and so do new ones. Running jobs go on."),
    )
    max_running = forms.IntegerField(
        label=_("Most running jobs"), required=False, min_value=1, max_value=MOST
    )
    rate = forms.RegexField(
        RATE,
        label=_("Rate"),
        required=False,
        widget=widgets.AdminTextInputWidget,
        help_text=_("Such as 100/minute. Starts already made count."),
    )
    lasts = forms.ChoiceField(label=_("How long"), choices=LASTS, required=False)
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=1_000,
        widget=widgets.AdminTextInputWidget,
        help_text=_("Why. Shown with it."),
    )

    def __init__(self, declared: Declared, sees_keys: bool, data, initial):
        super().__init__(data, initial=initial)
        self.until, self.declared = initial["until"], declared
        if self.until is not None:
            self.fields["lasts"].choices = [(KEPT, _("As it is now")), *LASTS]
        kinds = declared.kinds(initial["kind"])
        self.fields["kind"].choices = [
            each for each in Kind.choices if each[0] in kinds
        ]
        if not sees_keys or kinds == {"task"}:
            del self.fields["kind"], self.fields["key"]
        for name, kind in (("max_running", Kind.LIMIT), ("rate", Kind.RATE)):
            said = getattr(declared, name)
            if kind not in kinds:
                del self.fields[name]
            elif said is not None:
                help = gettext("Empty: %(value)s, as the code says.")
                self.fields[name].help_text = help % {"value": said}

    def clean(self):
        cleaned = super().clean()
        if cleaned.get("kind", Kind.TASK) != Kind.TASK and not cleaned.get("key"):
            self.add_error("key", gettext("Enter the key."))
        for name, wish in WISHES.items():
            why = self.declared.why_not(wish)
            if why and name not in self.fields and self.data.get(name):
                self.add_error(None, why)
        return cleaned

    @property
    def wish(self) -> Wish:
        given = self.cleaned_data
        is_kept = given.get("lasts") == KEPT
        hours = 0 if is_kept else int(given.get("lasts") or LIFTED)
        until = self.until if is_kept else None
        return Wish(
            paused=given["paused"],
            max_running=given.get("max_running"),
            rate=given.get("rate") or None,
            until=ends_in(timedelta(hours=hours)) if hours else until,
            note=given["note"],
        )


class OverridesMixin(ButtonsAdmin):
    """The button of a task, its form, and what its page says of overrides."""

    def has_override_permission(self, request) -> bool:
        return request.user.has_perm("pgjobs.change_taskdefinition")

    @button(
        label=_("Change at run time"),
        path="override",
        permission="override",
        is_offered=lambda definition: True,
    )
    def pgjobs_taskdefinition_override(self, request, definition):
        sees_keys = may_see_arguments(request)
        declared = Declared.of(definition)
        data = request.POST if request.method == "POST" else None
        kind, key = self.subject(request, definition, sees_keys)
        override = current(TaskDefinition.objects.db, kind, key)
        form = OverrideForm(declared, sees_keys, data, initial_of(kind, key, override))
        if form.is_valid() and self.store(request, definition, declared, form):
            return HttpResponseRedirect(self.url_back(request, definition))
        name = excerpt(definition.name, LONGEST_CELL)
        context = {
            "media": self.media + form.media,
            "original": name,
            "form": form,
            "url_back": self.url_back(request, definition),
            "why_not": why_not(declared) if kind == Kind.TASK else [],
            "until": ago(override.until) if override and override.until else "",
        }
        title = gettext("Change %(task)s at run time") % {"task": name}
        return self.page(request, TEMPLATE, title, context)

    def subject(self, request, definition, sees_keys: bool) -> tuple[str, str]:
        """Return what the form begins with: the task, or a key of the address."""
        kind, key = request.GET.get("kind", ""), request.GET.get("key", "")
        is_key = kind in Kind.values and kind != Kind.TASK and "\0" not in key
        if sees_keys and is_key and 0 < len(key) <= LONGEST_KEY:
            return kind, key
        return "task", definition.name

    def store(self, request, definition, declared: Declared, form) -> bool:
        """Store what the form says; return False if it turns out to have errors."""
        wish, given = form.wish, form.cleaned_data
        kind = given.get("kind", Kind.TASK)
        key = definition.name if kind == Kind.TASK else given["key"]
        if kind == Kind.TASK and (why := declared.why_not(wish)):
            form.add_error(None, why)
            return False
        actor, database = request.user.get_username(), TaskDefinition.objects.db
        try:
            changed = set_override(database, kind, key, wish, actor, Via.PAGE)
        except InvalidTask as error:
            form.add_error(None, str(error))
            return False
        text = gettext("%(what)s is changed.")
        shown = excerpt(f"{Kind(kind).label} {key}", LONGEST_CELL)
        level = messages.SUCCESS if changed else messages.WARNING
        if not changed:
            text = gettext("%(what)s is like that already.")
        self.message_user(request, text % {"what": shown}, level)
        return True

    def get_queryset(self, request):
        own = Override.objects.filter(kind=Kind.TASK, key=OuterRef("name")).in_force()
        return (
            super()
            .get_queryset(request)
            .annotate(
                is_changed=Exists(own), paused_since=Subquery(own.values("paused_at"))
            )
        )

    # Fields

    @admin.display(description=_("at run time"))
    def at_run_time(self, definition: TaskDefinition) -> str:
        """Show where the code and operators differ."""
        override = current(TaskDefinition.objects.db, "task", definition.name)
        if override is None:
            return gettext("as the code says")
        return in_words(override, Declared.of(definition))

    @admin.display(description=_("keys changed at run time"))
    def keys_at_run_time(self, definition: TaskDefinition) -> str:
        """Show the overrides of keys, which jobs of this task may have."""
        url = reverse(NAME, args=(definition.pk,), current_app=self.admin_site.name)
        found = of_keys(TaskDefinition.objects.db, MOST_KEYS + 1)
        rows = [
            (
                f"{url}?{urlencode({'kind': each.kind, 'key': each.key})}",
                excerpt(f"{each.get_kind_display()} {each.key}", LONGEST_CELL),
                in_words(each, Declared(None, None, None)),
            )
            for each in found[:MOST_KEYS]
        ]
        shown = format_html_join("", '<div><a href="{}">{}</a>: {}</div>', rows)
        left = gettext("There are more. All keys: manage.py tasks")
        return format_html("{}{}", shown, left if len(found) > MOST_KEYS else "")

    def fields_of_overrides(self, request) -> list[str]:
        fields = ["at_run_time"]
        database = TaskDefinition.objects.db
        if may_see_arguments(request) and of_keys(database, most=1):
            fields.append("keys_at_run_time")
        return fields


def initial_of(kind: str, key: str, override: Override | None) -> dict[str, Any]:
    wish = wish_of(override)
    return {
        "kind": kind,
        "key": "" if kind == Kind.TASK else key,
        "paused": wish.paused,
        "max_running": wish.max_running,
        "rate": wish.rate,
        "until": wish.until,
        "note": wish.note,
    }


def why_not(declared: Declared) -> list[str]:
    """Return why the form lacks a field."""
    return [why for each in WISHES.values() if (why := declared.why_not(each))]


def in_words(override: Override, declared: Declared) -> str:
    """Say what an override says, and what the code says instead."""
    parts = []
    if override.paused_at is not None:
        parts.append(status_word("waiting", gettext("Paused"), ago(override.paused_at)))
    for title, said, of_code in (
        (_("most running jobs"), override.max_running, declared.max_running),
        (_("rate"), override.rate, declared.rate),
    ):
        if said is not None:
            text = gettext("%(title)s: %(value)s")
            if of_code is not None:
                text = gettext("%(title)s: %(value)s (in the code: %(declared)s)")
            parts.append(text % {"title": title, "value": said, "declared": of_code})
    if override.until is not None:
        parts.append(format_html(gettext("ends {time}"), time=ago(override.until)))
    if override.note:
        parts.append(excerpt(override.note, LONGEST_CELL))
    return format_html_join(", ", "{}", ((part,) for part in parts))
