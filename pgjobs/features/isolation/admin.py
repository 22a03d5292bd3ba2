"""The processes of isolated jobs, on the page of a worker."""

from django.contrib import admin
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...models.worker import Worker
from .shown import in_words


@admin.display(description=_("processes of isolated jobs"))
def children(worker: Worker) -> str:
    return in_words(worker.children) if worker.children else gettext("None.")


WORKER_FIELDS = (children,)
