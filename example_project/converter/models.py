"""Uploaded files and what became of them."""

import uuid
from pathlib import PurePath

from django.db import models
from django.db.models.functions import Length
from pgjobs.models import Job

CONTENT_TYPES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
OPPOSITES = {".csv": ".parquet", ".parquet": ".csv"}


class ConversionQuerySet(models.QuerySet):
    """Conversions without the burden of their files."""

    def with_sizes(self):
        """Load the sizes of the files instead of the files."""
        return self.defer("source", "result").annotate(
            source_size=Length("source"), result_size=Length("result")
        )


class Conversion(models.Model):
    """A file and its conversion into the other format.

    The files are in the database, so that upload and job are committed together and
    the worker may run on another machine. That suits files of some megabytes.
    """

    # A UUID, because everyone with the address can download the file.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    source_name = models.CharField(max_length=255)
    source = models.BinaryField()
    result = models.BinaryField(null=True)
    rows = models.PositiveBigIntegerField(null=True)
    columns = models.PositiveIntegerField(null=True)
    # No foreign key: finished jobs are pruned some day, the files stay.
    job_id = models.BigIntegerField(null=True)

    objects = ConversionQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self):
        return f"{self.source_name} to {self.result_name}"

    @property
    def suffix(self):
        """Return the suffix that tells the format: .csv or .parquet."""
        return PurePath(self.source_name).suffix.lower()

    @property
    def result_name(self):
        """Return the name under which the result is downloaded."""
        return PurePath(self.source_name).stem + OPPOSITES[self.suffix]

    @property
    def result_content_type(self):
        """Return the media type of the result."""
        return CONTENT_TYPES[OPPOSITES[self.suffix]]

    @property
    def job(self):
        """Return the job that converts the file, None once it was pruned."""
        return Job.objects.filter(pk=self.job_id).first()
