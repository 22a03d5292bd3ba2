"""What an operator may say with an act."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from .. import fields
from ..base.plain_json import result_text

AUDIT_NOTE = "audit_note"


class ActForm(forms.Form):
    """The form of an act without parameters. Other acts have a field for each."""

    def suggest(self, row) -> None:
        """Change the fields to what may be said of a row."""

    @property
    def words(self) -> dict[str, Any]:
        """What the act is told of a valid form."""
        return {k: v for k, v in self.cleaned_data.items() if k != AUDIT_NOTE}

    @property
    def for_audit(self) -> str:
        """What the audit trail notes of a valid form."""
        words = self.cleaned_data
        notes = (words.get(name) for name in ("reason", "note", AUDIT_NOTE))
        return str(next(filter(None, notes), ""))


def line_of_text(label: Any, help_text: Any) -> forms.CharField:
    """Return an optional field of one line, as wide as Django's own.

    `label`, `help_text`: texts, translated when they are shown.
    """
    return forms.CharField(
        label=label,
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=help_text,
    )


class NotedForm(ActForm):
    audit_note = line_of_text(
        _("Note"), _("Why. Shown in the audit trail and in the job's timeline.")
    )


class ReasonForm(ActForm):
    reason = line_of_text(_("Reason"), _("Shown with the job."))


class NoteForm(ActForm):
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=_("Why. Shown with the queue and its jobs."),
    )


class JsonField(fields.JsonField):
    widget = forms.Textarea(attrs={"class": "vLargeTextField", "rows": 4})


class ResultField(JsonField):
    """A result as JSON: what a task could have returned."""

    refusal = _("The result cannot be stored: it %(problem)s.")

    def check_data(self, data) -> None:
        result_text(data)


class ResultForm(NotedForm):
    return_value = ResultField(
        label=_("Result"),
        required=False,
        help_text=_("JSON, such as 42 or {&quot;pages&quot;: 3}; empty for none."),
    )
