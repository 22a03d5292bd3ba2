"""The values of a schedule's columns with few values, and its state."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Overlap(models.TextChoices):
    SKIP = "skip", _("Skip: not while the last run is unfinished")
    ALLOW = "allow", _("Allow: enqueue it beside the last run")


class CatchUp(models.TextChoices):
    LATEST = "latest", _("One run for all missed ones")
    ALL = "all", _("All missed runs")
    NONE = "none", _("None: missed runs are skipped")


class Anchor(models.TextChoices):
    START = "start", _("Fixed times")
    END = "end", _("Counted from the end of the last run")


class State(models.TextChoices):
    ACTIVE = "active", _("Active")
    PAUSED = "paused", _("Paused")
    ORPHANED = "orphaned", _("Gone from the code")
    RUNNING = "running", _("Waits for the end of its run")
    BROKEN = "broken", _("Broken")
    ENDED = "ended", _("Ended")
