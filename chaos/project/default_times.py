"""The settings of a project that has chosen no times: those of most projects."""

from .settings import *  # noqa: F403

PGJOBS: dict = {}
