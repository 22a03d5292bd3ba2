"""What migrations name of the models' fields. No name here may move or go."""

import json

from django.db import models

from .base.plain_json import UnreadableJson


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

    def __init__(self):
        columns = ("unique_for", "unique_until", "status", "attempts", "finished_at")
        super().__init__(*columns)

    def as_sql(self, compiler, connection, **context):
        return "NULL", []

    def as_postgresql(self, compiler, connection, **context):
        return super().as_sql(
            compiler, connection, function="pgjobs_holds_key", **context
        )

    def deconstruct(self):
        return "pgjobs.fields.HoldsKey", (), {}


class Histogram(models.Field):
    """How many durations were in each bucket: see queue/figures.py.

    An array of integers. Django's own field for it wants an app of its own.
    """

    description = "Histogram"

    def db_type(self, connection):
        return "integer[]"

    def to_python(self, value):
        """Return the numbers; a fixture has them as JSON text."""
        return json.loads(value) if isinstance(value, str) else value
