"""The list of the audit trail, and the page of one act. Nobody edits them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import Max, Q
from django.db.models.functions import Now
from django.http import StreamingHttpResponse
from django.urls import NoReverseMatch, re_path, reverse
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...admin.acting import all_that_match
from ...admin.auditing import audited
from ...admin.filters import ChoiceFilter, reads_all
from ...admin.links import page
from ...admin.listing import LONGEST_TERM, ReadOnlyAdmin
from ...admin.markup import LONGEST_CELL, breakable, exact, exactly, full, short
from ...base.ids import read_id
from ...models.audit_entry import AuditEntry, Via
from ...reports.texts import excerpt
from ..desk.overview import ACTS, act_in_words, name_of_model
from ..job_pages.export import CONTENT_TYPES, all_of_list, counted, csv_lines
from ..job_pages.job_rows import json_lines

# Nothing but the time has an index: an act of months ago is found by an export.
LOOKED_AT = 100_000
LATEST = 1_000  # entries whose acts are offered
MOST_ACTS = 20
COLUMNS = (
    *("id", "at", "actor", "via", "act", "model", "object_id", "number", "chosen"),
    "note",
)
MODELS = (
    "batch",
    "errorgroup",
    "event",
    "job",
    "override",
    "queue",
    "schedule",
    "worker",
)


class ActFilter(ChoiceFilter):
    """Offers the acts of the latest entries: all would be a long list."""

    title = _("act")
    parameter_name = "act"

    def lookups(self, request, model_admin):
        latest = AuditEntry.objects.order_by("-id").values("act")[:LATEST]
        names = {entry["act"] for entry in latest}
        if chosen := request.GET.get(self.parameter_name):
            names.add(chosen)
        known = [(name, ACTS[name]) for name in sorted(names & ACTS.keys())]
        return known[:MOST_ACTS]

    def queryset(self, request, queryset):
        # Features and SQL may store others, which a link of the page names.
        if (act := self.value()) is None:
            return queryset
        if len(act) > LONGEST_CELL or "\0" in act:
            raise IncorrectLookupParameters
        return queryset.filter(act=act)


class ModelFilter(ChoiceFilter):
    title = _("on")
    parameter_name = "model"

    def lookups(self, request, model_admin):
        return [(name, capfirst(name_of_model(name))) for name in MODELS]

    def queryset(self, request, queryset):
        if (name := self.value()) is None:
            return queryset
        if name not in MODELS:
            raise IncorrectLookupParameters
        return queryset.filter(model=name)


class ViaFilter(ChoiceFilter):
    title = _("by")
    parameter_name = "via"
    choices_by_name = {name: (label, {"via": name}) for name, label in Via.choices}


class TimeFilter(ChoiceFilter):
    title = _("time")
    parameter_name = "since"
    choices_by_name = {
        name: (title, {"at__gte": Now() - age})
        for name, title, age in (
            ("hour", _("Last hour"), timedelta(hours=1)),
            ("day", _("Last 24 hours"), timedelta(days=1)),
            ("week", _("Last 7 days"), timedelta(days=7)),
            ("month", _("Last 30 days"), timedelta(days=30)),
        )
    }


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    """What people did: whoever may see it sees what they did it to, and why."""

    list_display = (
        "time",
        "who",
        "what",
        "how_many",
        "chosen_by",
        "short_note",
    )
    list_display_links = ("time",)
    list_filter = (TimeFilter, ActFilter, ModelFilter, ViaFilter)
    ordering = ("-id",)
    search_fields = ("actor",)
    search_help_text = _(
        "A part of a person's name, of a filter or of a note, or the id of a row"
    )
    change_list_template = "admin/pgjobs/auditentry/change_list.html"
    when_empty = _("What people do appears here.")
    fields = ("full_time", "who", "what", "how_many", "full_chosen", "full_note")

    def get_queryset(self, request):
        """Return all entries; of a list that is narrowed the latest ones only.

        Filters and searches have no index, and the trail may have millions of entries.
        """
        rows = super().get_queryset(request)
        if reads_all(request) or not is_narrowed(request):
            return rows
        return rows.filter(pk__gt=latest_id() - LOOKED_AT)

    def find(self, rows, term: str):
        if "\0" in term or len(term) > LONGEST_TERM:
            return rows.none()
        has_text = Q(actor__icontains=term)
        has_text |= Q(chosen__icontains=term) | Q(note__icontains=term)
        id = read_id(term.removeprefix("#"))
        return rows.filter(has_text if id is None else has_text | Q(object_id=id))

    def look_up(self, request, rows):
        """Give each entry the name of its row, by one statement for each model."""
        named = names_of(rows)
        for entry in rows:
            entry.name_of_row = named.get((entry.model, entry.object_id), "")
            entry.address = address_of(entry, request.user, self.admin_site)

    def changelist_view(self, request, extra_context=None):
        query = request.GET.copy()
        query.pop("p", None)
        context = {
            f"export_{kind}": f"{self.url_of_export(kind)}?{query.urlencode()}"
            for kind in CONTENT_TYPES
        } | {"title": gettext("Audit trail")}
        is_cut = is_narrowed(request) and latest_id() > LOOKED_AT
        cut = {"cut_at": LOOKED_AT if is_cut else None}
        return super().changelist_view(request, context | cut | (extra_context or {}))

    def url_of_export(self, kind: str) -> str:
        name = "admin:pgjobs_auditentry_export"
        return reverse(name, args=(kind,), current_app=self.admin_site.name)

    def get_urls(self):
        export = self.admin_site.admin_view(self.export_view)
        route, name = r"^export\.(csv|json)$", "pgjobs_auditentry_export"
        return [re_path(route, export, name=name), *super().get_urls()]

    def export_view(self, request, kind: str):
        """Answer with all entries of a list, whose filters the address repeats."""
        entries = all_of_list(request, self)
        entry = audited(request, "export", "auditentry", chosen=all_that_match(request))
        rows = counted(entries.values(*COLUMNS).iterator(), entry)
        return StreamingHttpResponse(
            csv_lines(COLUMNS, rows) if kind == "csv" else json_lines(rows),
            content_type=CONTENT_TYPES[kind],
            headers={"Content-Disposition": f'attachment; filename="audit.{kind}"'},
        )

    # Columns

    short_note = short("note", _("note"))
    full_note = full("note", _("note"))
    full_chosen = full("chosen", _("chosen by"))

    @admin.display(description=_("time"))
    def time(self, entry: AuditEntry) -> str:
        return exact(entry.at)

    @admin.display(description=_("time"))
    def full_time(self, entry: AuditEntry) -> str:
        return exactly(entry.at)

    @admin.display(description=_("who"))
    def who(self, entry: AuditEntry) -> str:
        return f"{excerpt(entry.actor, LONGEST_CELL)} ({entry.get_via_display()})"

    @admin.display(description=_("act"))
    def what(self, entry: AuditEntry) -> str:
        """Show what was done to what, as a link to it if there is a page."""
        text = excerpt(act_in_words(entry), LONGEST_CELL)
        if entry.name_of_row:
            text = f"{text} ({excerpt(entry.name_of_row, LONGEST_CELL)})"
        if not entry.address:
            return text
        return format_html('<a href="{}">{}</a>', entry.address, breakable(text))

    @admin.display(description=_("how many"))
    def how_many(self, entry: AuditEntry) -> str:
        return gettext("unfinished") if entry.number is None else f"{entry.number:,}"

    @admin.display(description=_("chosen by"))
    def chosen_by(self, entry: AuditEntry) -> str:
        """Show the filter of an act on many jobs, as a link to their list."""
        shown = excerpt(entry.chosen, LONGEST_CELL)
        _before, mark, query = entry.chosen.partition(" ?")
        if not mark or entry.model != "job" or not entry.is_list_seen:
            return breakable(shown) if shown else self.get_empty_value_display()
        name = "admin:pgjobs_job_changelist"
        url = reverse(name, current_app=self.admin_site.name)
        return format_html('<a href="{}?{}">{}</a>', url, query, breakable(shown))


def is_narrowed(request) -> bool:
    """Whether the address of a list has a filter or a search."""
    names = ("q", *(each.parameter_name for each in AuditEntryAdmin.list_filter))
    return any(request.GET.get(name) for name in names)


def latest_id() -> int:
    return AuditEntry.objects.aggregate(id=Max("pk"))["id"] or 0


def names_of(entries: list[AuditEntry]) -> dict[tuple[str, int], str]:
    """Return the names of the rows that there still are, by their model and id."""
    ids: dict[str, set[int]] = {}
    for entry in entries:
        if entry.object_id is not None:
            ids.setdefault(entry.model, set()).add(entry.object_id)
    return {
        (model, id): name for model in ids for id, name in rows_of(model, ids[model])
    }


def rows_of(model: str, ids: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the ids and names of rows; SQL may have stored any model."""
    try:
        found: Any = apps.get_model("pgjobs", model)
    except LookupError:
        return
    fields = {field.name for field in found._meta.concrete_fields}
    column = next((each for each in ("name", "task") if each in fields), None)
    if column is not None:
        rows = found.objects.filter(pk__in=ids).values_list("pk", column)
        yield from rows


def address_of(entry: AuditEntry, user, admin_site) -> str:
    """Return the page of the row of an entry, if there is one that the user may see."""
    entry.is_list_seen = user.has_perm("pgjobs.view_job")
    is_there = bool(entry.name_of_row)
    if not is_there or not user.has_perm(f"pgjobs.view_{entry.model}"):
        return ""
    try:
        return page(entry.model, entry.object_id, admin_site)
    except NoReverseMatch:  # a table without pages
        return ""
