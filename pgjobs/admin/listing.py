"""What all lists and pages share: they read no more of a table than they show."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.http import HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.text import capfirst

from ..base.ids import read_id
from ..reports.texts import excerpt
from .sites import databases

COUNTED = 10_000
LONGEST_TITLE = LONGEST_TERM = 200


def count_up_to(limit: int, queryset, order: tuple[str, ...] = ()) -> int:
    """Count the rows, but no more than `limit`, reading nothing but their ids.

    `order`: that of an index which has these rows. Without it PostgreSQL may walk over
    the table, since it does not know that they stand at its end.
    """
    return queryset.order_by(*order).values("pk")[:limit].count()


def by_id_or_beginning(rows, term: str, field: str):
    """Return the row with this id, or those whose field begins with the term."""
    id = read_id(term.removeprefix("#"))
    if id is not None:
        return rows.filter(pk=id)
    if len(term) > LONGEST_TERM:
        return rows.none()
    return rows.filter(**{f"{field}__startswith": term})


class CappedPaginator(Paginator):
    """Pages of the first 10,000 rows; the others are not even counted."""

    counted_in: tuple[str, ...] = ()  # see `count_up_to`

    @cached_property
    def found(self) -> int:
        """The number of rows, or one more than is counted."""
        return count_up_to(COUNTED + 1, self.object_list, self.counted_in)

    @property
    def is_capped(self) -> bool:
        return self.found > COUNTED

    @cached_property
    def count(self) -> int:
        return min(self.found, COUNTED)


class TableAdmin(admin.ModelAdmin):
    """The base of all admins here."""

    list_per_page = 50
    paginator = CappedPaginator
    show_facets = admin.ShowFacets.NEVER
    show_full_result_count = False
    sortable_by: Any = ()
    actions: Any = None

    # What to do where there are no rows at all.
    when_empty: Any = ""

    class Media:
        css = {"all": ["pgjobs/admin.css", "pgjobs/list.css", "pgjobs/job.css"]}

    def look_up(self, request, rows: list) -> None:
        """Attach to the rows of a page what their columns show of other tables."""

    def find(self, rows, term: str):
        """Return the rows that match a term of the search box."""
        return super().get_search_results(None, rows, term)[0]

    def lookup_allowed(self, lookup, value, request=None) -> bool:
        # Any other, such as kwargs__password__startswith, would let people guess what
        # they may not see, and read the whole table for it.
        return lookup in {each.parameter_name for each in self.list_filter}

    def get_changelist_instance(self, request):
        changelist = super().get_changelist_instance(request)
        changelist.result_list = list(changelist.result_list)
        if request.method != "POST":  # which no list answers, but an action
            self.look_up(request, changelist.result_list)
        if not changelist.result_list:
            changelist.empty_note = self.empty_note(changelist)
        return changelist

    def empty_note(self, changelist) -> Any:
        """Return what to do about a list without rows."""
        is_narrowed = changelist.query or changelist.get_filters_params()
        return "" if is_narrowed else self.when_empty

    def get_object(self, request, object_id, from_field=None):
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            self.look_up(request, [row])
        return row

    def _get_obj_does_not_exist_redirect(self, request, opts, object_id):
        super()._get_obj_does_not_exist_redirect(request, opts, object_id)  # says so
        name = f"admin:{opts.app_label}_{opts.model_name}_changelist"
        return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name))

    def changelist_view(self, request, extra_context=None):
        context = {
            "title": capfirst(self.opts.verbose_name_plural),
            "databases": databases(request, self.admin_site),
        }
        return super().changelist_view(request, context | (extra_context or {}))

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        if obj is not None:
            context |= {"title": excerpt(str(obj), LONGEST_TITLE), "subtitle": None}
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def get_search_results(self, request, queryset, search_term):
        term = search_term.strip()
        return (self.find(queryset, term) if term else queryset), False


class ReadOnly:
    """What users view, and neither add nor change nor delete."""

    def has_add_permission(self, request) -> bool:
        return False

    def has_change_permission(self, request, obj=None) -> bool:
        return False

    def has_delete_permission(self, request, obj=None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, TableAdmin):
    """Rows that users view, and neither add nor change nor delete."""
