"""What all tables have in common."""

from typing import Any

from django.core.checks import CheckMessage
from django.db import models

# Checks of Django's: databases of other vendors keep no comments.
NO_COMMENTS = ("models.W046", "fields.W163")


class Table(models.Model):
    """A table whose comments say in the database what each column means."""

    id = models.BigAutoField(
        "ID",
        primary_key=True,
        db_comment="Number of the row; a new row draws the next.",
    )

    class Meta:
        abstract = True

    @classmethod
    def check(cls, **kwargs: Any) -> list[CheckMessage]:
        """Check the model, but not whether the database keeps comments."""
        messages = super().check(**kwargs)
        return [each for each in messages if each.id not in NO_COMMENTS]
