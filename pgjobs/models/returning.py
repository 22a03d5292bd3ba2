"""What type checkers know of a job's result: `Job[str]` is the job of a `-> str`."""

from typing import TYPE_CHECKING, Any, Generic

from django.db import models

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Value = TypeVar("Value", default=Any, covariant=True)

    class Returning(models.Model, Generic[Value]):
        class Meta:
            abstract = True

else:
    Value = "Value"

    class Returning(models.Model):
        class Meta:
            abstract = True

        def __class_getitem__(cls, value):
            # A real Generic would stand among the bases of the model in migrations.
            return cls
