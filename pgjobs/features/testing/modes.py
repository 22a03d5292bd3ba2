"""The modes of `PGJOBS["MODE"]`, for the length of a block, a test or a class."""

from typing import Any

from django.conf import settings as django_settings
from django.test import override_settings

from ...conf import MODES


class override_mode(override_settings):
    """Set PGJOBS["MODE"], as a decorator or in a `with` statement.

    The other settings in PGJOBS stay as they are. As `override_settings` does, it takes
    a function, an async function or a class that derives from SimpleTestCase. Raises
    ValueError for an unknown mode.
    """

    def __init__(self, mode: str):
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.")
        self.mode = mode
        super().__init__()

    @property
    def options(self) -> dict[str, Any]:
        """The settings to change, with the PGJOBS that is in force when it begins."""
        return {"PGJOBS": {**getattr(django_settings, "PGJOBS", {}), "MODE": self.mode}}

    @options.setter
    def options(self, given: dict[str, Any]) -> None:
        """Ignore what `override_settings` itself wants to keep."""
