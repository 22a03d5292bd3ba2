"""What an operator may say with an act."""

import json

from django import forms
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from ..base.plain_json import check_json, dump
from ..queue.acts import result_text


class ActForm(forms.Form):
    """The form of an act without parameters. Other acts have a field for each."""


class ReasonForm(ActForm):
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=_("Shown with the job."),
    )


class NoteForm(ActForm):
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=_("Why; shown with the queue and its jobs."),
    )


class JsonField(forms.CharField):
    """A value as JSON, decoded; None if nothing was entered."""

    widget = forms.Textarea(attrs={"class": "vLargeTextField", "rows": 4})
    refusal: str | Promise = "%(problem)s"

    def to_python(self, value):
        text = super().to_python(value)
        if not text:
            return None
        # Not forms.JSONField, which lets RecursionError and long numbers through.
        try:
            data = json.loads(text)
            self.check_data(data)
        except json.JSONDecodeError as error:
            raise forms.ValidationError(_("Enter valid JSON.")) from error
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(
                self.refusal, params={"problem": error}
            ) from error
        return data

    def check_data(self, data) -> None:
        """Raise ValueError unless the data can be stored."""
        check_json(data)

    def prepare_value(self, value):
        return value if value is None or isinstance(value, str) else dump(value)


class ResultField(JsonField):
    """A result as JSON: what a task could have returned."""

    refusal = _("The result cannot be stored: it %(problem)s.")

    def check_data(self, data) -> None:
        result_text(data)


class ResultForm(ActForm):
    return_value = ResultField(
        label=_("Result"),
        required=False,
        help_text=_("JSON, such as 42 or {&quot;pages&quot;: 3}; empty for none."),
    )
