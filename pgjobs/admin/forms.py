"""What an operator may say with an act."""

import json

from django import forms
from django.utils.translation import gettext_lazy as _

from ..models.transitions import result_text


class ActForm(forms.Form):
    """The form of an act that needs no words; the others' fields are its parameters."""


class ReasonForm(ActForm):
    reason = forms.CharField(
        label=_("Reason"),
        required=False,
        max_length=1000,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
        help_text=_("Shown with the job."),
    )


class ResultField(forms.CharField):
    """A result as JSON: what a task could have returned."""

    widget = forms.Textarea(attrs={"class": "vLargeTextField", "rows": 4})

    def to_python(self, value):
        text = super().to_python(value)
        if not text:
            return None
        # Not forms.JSONField, which lets RecursionError and long numbers through.
        try:
            result = json.loads(text)
            result_text(result)
        except json.JSONDecodeError as error:
            raise forms.ValidationError(_("Enter valid JSON.")) from error
        except (ValueError, RecursionError) as error:
            message = _("The result cannot be stored: it %(problem)s.")
            raise forms.ValidationError(message, params={"problem": error}) from error
        return result


class ResultForm(ActForm):
    return_value = ResultField(
        label=_("Result"),
        required=False,
        help_text=_("JSON, such as 42 or {&quot;pages&quot;: 3}; empty for none."),
    )
