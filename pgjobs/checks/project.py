"""System checks of PGJOBS, INSTALLED_APPS, and tables that refer to those of pgjobs."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.db.models import Field

from ..conf import problems, settings


@register("pgjobs")
def check_settings(**kwargs) -> list[CheckMessage]:
    found = [
        Error(problem.message, hint=problem.hint, id="pgjobs.E001")
        for problem in problems()
    ]
    if found:
        return found
    if settings.LEASE_DURATION < 3 * settings.HEARTBEAT_INTERVAL:
        message = (
            f"PGJOBS['LEASE_DURATION'] is {settings.LEASE_DURATION:g} s, less than "
            f"three heartbeats of {settings.HEARTBEAT_INTERVAL:g} s."
        )
        hint = "A living worker that misses one or two would lose its jobs."
        return [Error(message, hint=hint, id="pgjobs.E002")]
    return []


@register("pgjobs")
def check_admin_actions(**kwargs) -> list[CheckMessage]:
    """Check that the admin's buttons can be drawn, where there is an admin."""
    names = [config.name for config in apps.get_app_configs()]
    if "django.contrib.admin" not in names:
        return []
    cure = "INSTALLED_APPS = ['admin_actions', 'django.contrib.admin', 'pgjobs', ...]"
    if "admin_actions" not in names:
        message = "'admin_actions' is missing in INSTALLED_APPS."
        return [Error(message, hint=cure, id="pgjobs.E009")]
    if names.index("admin_actions") > names.index("django.contrib.admin"):
        message = (
            "'admin_actions' stands after 'django.contrib.admin' in INSTALLED_APPS."
        )
        hint = f"Its templates would not be found, and buttons be missing: {cure}"
        return [Error(message, hint=hint, id="pgjobs.E010")]
    return []


FORMER_NAME = "pgjobs"  # of the distribution, before any release on an index


@register("pgjobs")
def check_distributions(**kwargs) -> list[CheckMessage]:
    """Warn where two distributions have installed the module over each other."""
    try:
        names = [distribution(each) for each in (FORMER_NAME, "django-pgjobs")]
    except PackageNotFoundError:
        return []
    former, current = (each.read_text("top_level.txt") or "" for each in names)
    if "pgjobs" not in former.split() or "pgjobs" not in current.split():
        return []  # another project has that name, too
    message = "Two distributions bring the module pgjobs: django-pgjobs and pgjobs."
    hint = (
        "They write the same files, so remove both and install one: pip uninstall "
        "pgjobs django-pgjobs, then install django-pgjobs again."
    )
    return [Warning(message, hint=hint, id="pgjobs.W084")]


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
