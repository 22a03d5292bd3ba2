"""The users who have answered, of whom only the primary key is stored."""

from collections.abc import Iterable
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError


def actor_of(user: Any) -> str:
    """Return by which name the audit trail knows a visitor."""
    return "link" if user is None else user.get_username()


def names_of(keys: Iterable[str | None]) -> dict[str, str]:
    """Return the names of users by the texts of their primary keys; gone ones lack."""
    if not apps.is_installed("django.contrib.auth"):
        return {}
    users = get_user_model()._default_manager
    texts = (text for text in keys if text is not None)
    by_key = {key: text for text in texts if (key := key_of(text)) is not None}
    return {
        by_key[key]: user.get_username() for key, user in users.in_bulk(by_key).items()
    }


def key_of(text: str) -> Any:
    """Return a primary key from its text, or None; SQL may have stored any text."""
    field = get_user_model()._meta.pk
    try:
        key = field.to_python(text)
        field.run_validators(key)
    except ValidationError:
        return None
    return key
