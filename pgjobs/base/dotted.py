"""What settings name by a dotted path."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string


def named_in(setting: str, path: str) -> Any:
    """Return what a setting names; raise ImproperlyConfigured if it is not there."""
    try:
        return import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(
            f"PGJOBS[{setting!r}] names {path!r}, which cannot be imported: {error}"
        ) from error
