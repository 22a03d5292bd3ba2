"""What is encrypted of a job, for `jobs show`."""

from collections.abc import Iterator

from django.db.models.fields.json import KT

from ...exceptions import EncryptionError
from ...models.job import Job
from ...reports.texts import one_line
from .sealing import MARK, NO_MARK, REST, seal_of
from .stored import read


def encrypted_of(alias: str, job: Job) -> Iterator[str]:
    """Yield which values only those with a key can read."""
    rows = Job.objects.using(alias).filter(pk=job.pk, keys__has_key=MARK)
    for text in rows.values_list(KT(f"keys__{MARK}"), flat=True):
        if text is None:  # SQL has stored the mark null
            yield f"encrypted: {NO_MARK}"
            continue
        mark = read(text)
        try:
            seal_of(mark)
        except EncryptionError as error:
            yield f"encrypted: {error}"
            continue
        names = [*mark["names"], *(["unnamed arguments"] if mark.get(REST) else [])]
        shown = one_line(", ".join((*names, "the result, the steps and the answers")))
        yield f"encrypted: {shown}; its page in the admin opens them"


SECTIONS = (encrypted_of,)
