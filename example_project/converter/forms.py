"""Check an upload as far as that is quick; the job finds the rest."""

from pathlib import PurePath

from django import forms

from .models import CONTENT_TYPES

MAX_BYTES = 25 * 1024 * 1024
PARQUET_MAGIC = b"PAR1"


class UploadForm(forms.Form):
    """Take a CSV or Parquet file."""

    file = forms.FileField(
        label="CSV or Parquet file",
        help_text=f"Up to {MAX_BYTES // (1024 * 1024)} MiB; CSV as UTF-8 with commas.",
        widget=forms.ClearableFileInput(attrs={"accept": ",".join(CONTENT_TYPES)}),
    )

    def clean_file(self):
        """Refuse what is too large or not what its name says."""
        upload = self.cleaned_data["file"]
        suffix = PurePath(upload.name).suffix.lower()
        if suffix not in CONTENT_TYPES:
            raise forms.ValidationError("The name must end with .csv or .parquet.")
        if upload.size > MAX_BYTES:
            raise forms.ValidationError("The file is too large.")
        content = upload.read()
        if suffix == ".parquet" and not content.startswith(PARQUET_MAGIC):
            raise forms.ValidationError("This is not a Parquet file.")
        if suffix == ".csv" and b"\0" in content:
            raise forms.ValidationError("This is not a CSV file: it has NUL bytes.")
        self.content = content
        return upload
