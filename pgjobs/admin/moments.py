"""A point in time in a form: a box for the date and one for the time."""

from typing import Any

from django import forms
from django.contrib.admin import widgets
from django.utils.translation import gettext_lazy as _


class MomentField(forms.SplitDateTimeField):
    """Names each of its two boxes, which share one label."""

    widget = widgets.AdminSplitDateTime

    def __init__(self, **options):
        super().__init__(**options)
        self.name_boxes(self.label or "")

    def name_boxes(self, label: Any) -> None:
        names = (_("%(label)s: date"), _("%(label)s: time"))
        for box, name in zip(self.widget.widgets, names, strict=True):
            box.attrs["aria-label"] = name % {"label": label}
