"""What the lists and pages of jobs show besides what the core knows."""

from functools import partial

from .asking import confirmation_context
from .bar import list_context
from .counts import tabs_context
from .export import export_view
from .people import history_context, job_context
from .suggestions import suggestions_view

# Route, name and view.
PAGES = (
    ("export.csv", "pgjobs_job_export_csv", partial(export_view, kind="csv")),
    ("export.json", "pgjobs_job_export_json", partial(export_view, kind="json")),
    ("suggestions/", "pgjobs_job_suggestions", suggestions_view),
)
LIST_CONTEXTS = (list_context, tabs_context)
JOB_CONTEXTS = (job_context,)
HISTORY_CONTEXTS = (history_context,)
CONFIRMATION_CONTEXTS = (confirmation_context,)
