"""The bar above the list of jobs: a select for each filter, and what is active."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR
from django.urls import reverse
from django.utils.text import capfirst

from ...admin.tabs import PARAMETER as STATUS


class Choice(NamedTuple):
    name: str
    title: str
    options: list[tuple[str, Any]]
    value: str | None  # None if the filter is not active
    without: str  # the address of the list without this filter


def list_context(request, changelist, admin) -> dict[str, Any]:
    """Return the context for the template: `bar.html`, and the exports."""
    query = changelist.get_query_string(remove=[PAGE_VAR])
    choices = list(choices_of(changelist))
    own = {STATUS, SEARCH_VAR, PAGE_VAR, *(choice.name for choice in choices)}
    return {
        "bar": choices,
        "status": request.GET.get(STATUS),
        "kept": [pair for pair in request.GET.items() if pair[0] not in own],
        "search_var": SEARCH_VAR,
        "without_search": changelist.get_query_string(remove=[SEARCH_VAR, PAGE_VAR]),
        "suggestions": url_of("suggestions", admin),
        "export_csv": url_of("export_csv", admin) + query,
        "export_json": url_of("export_json", admin) + query,
    }


def url_of(name: str, admin) -> str:
    return reverse(f"admin:pgjobs_job_{name}", current_app=admin.admin_site.name)


def choices_of(changelist) -> Iterator[Choice]:
    """Yield the filters but for the status, which has tabs; active ones come first."""
    specs = [each for each in changelist.filter_specs if each.parameter_name != STATUS]
    for spec in sorted(specs, key=lambda spec: spec.value() is None):
        yield Choice(
            spec.parameter_name,
            capfirst(spec.title),
            [(str(value), title) for value, title in spec.lookup_choices],
            spec.value(),
            changelist.get_query_string(remove=[spec.parameter_name, PAGE_VAR]),
        )
