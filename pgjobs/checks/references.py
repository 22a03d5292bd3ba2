"""A system check on tables of the project that refer to those of pgjobs."""

from collections.abc import Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Warning, register
from django.db.models import Field

PRUNED = ("job", "batch", "event")  # the models whose rows pgjobs deletes


@register("pgjobs")
def check_references(**kwargs) -> list[CheckMessage]:
    """Warn of foreign keys that keep jobs, batches and events from being deleted."""
    return [
        Warning(
            f"{field.model._meta.label}.{field.name} refers to "
            f"{field.remote_field.model._meta.label}: a row to which it refers is "
            "not pruned, and the admin does not delete it.",
            hint="With db_constraint=False the row goes, and its id stays. Or delete "
            "your own rows first.",
            obj=field,
            id="pgjobs.W045",
        )
        for field in references()
    ]


def references() -> Iterator[Field]:
    """Yield the foreign keys of the project that the database enforces."""
    for model in apps.get_models(include_auto_created=True):
        if model._meta.app_label == "pgjobs":
            continue
        for field in model._meta.local_fields:
            if field.remote_field is not None and is_enforced(field):
                yield field


def is_enforced(field: Field) -> bool:
    target = field.remote_field.model._meta
    is_ours = target.app_label == "pgjobs" and target.model_name in PRUNED
    return is_ours and getattr(field, "db_constraint", False)
