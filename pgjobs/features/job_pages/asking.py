"""What the page asks before an act on many jobs: which these are, and how many."""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.views.main import SEARCH_VAR
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from ...admin.acting import HOW_MANY, is_across
from ...admin.acts import Act
from ...admin.filters import chosen
from ...admin.listing import count_up_to
from ...models.job import Job
from ...reports.texts import excerpt

PARTS = (10, 100)
LONGEST_VALUE = 200


def confirmation_context(request, act: Act, rows, admin) -> dict[str, Any]:
    """Return the context for the template: the filter in words, and parts of it."""
    affected = rows.filter(status__in=act.statuses)
    number = count_up_to(PARTS[-1] + 1, affected)
    return {
        "narrowed": list(in_words(request, admin)) if is_across(request) else [],
        "how_many": HOW_MANY,
        "parts": [each for each in PARTS if each < number],
    }


def in_words(request, admin) -> Iterator[tuple[str, str]]:
    """Yield the titles of the active filters and what each was chosen to be."""
    for each in chosen(request):
        params = {each.parameter_name: request.GET.getlist(each.parameter_name)}
        spec = each(request, params, Job, admin)
        value = spec.value() or ""
        titles = {str(key): title for key, title in spec.lookup_choices}
        yield (
            capfirst(spec.title),
            excerpt(str(titles.get(value, value)), LONGEST_VALUE),
        )
    if term := request.GET.get(SEARCH_VAR, "").strip():
        yield _("Search"), excerpt(term, LONGEST_VALUE)
