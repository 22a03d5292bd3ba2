"""The project, whose successes are deleted as the rivals delete them."""

from .settings import *  # noqa: F403

PGJOBS = {"KEEP": "failed"}
