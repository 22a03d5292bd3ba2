"""Fields of models, and one of forms. Migrations name them: no name may move or go."""

import json

from django import forms
from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from .base.plain_json import UnreadableJson, check_json, dump


class LenientDecoder(json.JSONDecoder):
    """Returns JSON that Python cannot read as text, so that no row hides all others."""

    def decode(self, s: str, *args, **kwargs):
        try:
            return super().decode(s, *args, **kwargs)
        except (ValueError, RecursionError):
            return UnreadableJson(s)


class HoldsKey(models.Func):
    """Whether a job with a unique key holds it: a function of the database decides.

    A generated column would be computed for each version of each row, also without a
    key. Databases of other vendors have the table, but no queue.
    """

    arity = 5
    output_field = models.BooleanField()
    columns: tuple[str, ...]
    columns = ("unique_for", "unique_until", "status", "attempts", "finished_at")
    function = "pgjobs_holds_key"

    def __init__(self):
        super().__init__(*self.columns)

    def as_sql(self, compiler, connection, **context):
        return "NULL", []

    def as_postgresql(self, compiler, connection, **context):
        return super().as_sql(compiler, connection, **context)

    def deconstruct(self):
        return f"pgjobs.fields.{type(self).__name__}", (), {}


class ChunkKey(HoldsKey):
    """With which jobs of its task and queue a job may share a call."""

    arity = 8
    output_field = models.TextField()
    columns = (
        *("keys", "kwargs", "chunk", "life", "attempts", "status"),
        *("run_after", "enqueued_at"),
    )
    function = "pgjobs_chunk_key"


class Histogram(models.Field):
    """How many durations were in each bucket: see features/desk/counting.py.

    An array of integers. Django's own field for it wants an app of its own.
    """

    description = "Histogram"

    def db_type(self, connection):
        return "integer[]"

    def to_python(self, value):
        """Return the numbers; a fixture has them as JSON text."""
        return json.loads(value) if isinstance(value, str) else value


class JsonField(forms.CharField):
    """A value as JSON in a form, decoded; None if nothing was entered."""

    widget = forms.Textarea(attrs={"rows": 4})
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
