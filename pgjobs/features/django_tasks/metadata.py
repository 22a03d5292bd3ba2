"""Metadata of a result, as it is proposed for Django.

See https://github.com/django/new-features/issues/141. It is a part of the job's `meta`,
which the job does not hand on to those that it enqueues.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

from ...base.plain_json import check_json, dump
from ...conf import settings
from ...exceptions import InvalidTask, LeaseLost
from ...queue.meta import LARGEST, OWN, collected
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks.running_job import RunningJob


def metadata_of(meta: Any) -> dict[str, Any]:
    """Return the metadata that is a part of `meta`, for the caller to change."""
    own = meta.get(OWN) if isinstance(meta, Mapping) else None
    return copy.deepcopy(own) if isinstance(own, dict) else {}


def check_metadata(metadata: Any, meta: Mapping[str, Any]) -> None:
    """Raise ValueError unless metadata can be stored beside the rest of `meta`."""
    if not isinstance(metadata, dict):
        raise ValueError(f"metadata must be a dict, got {metadata!r}.")
    try:
        check_json(metadata)
    except ValueError as error:
        raise ValueError(f"metadata cannot be stored: {error}.") from None
    size = len(dump({**meta, OWN: metadata}).encode())
    if size > LARGEST:
        raise ValueError(
            f"metadata and what else the job takes along are {size} bytes of JSON, and "
            f"may be {LARGEST}. Store them elsewhere, and their key in the metadata."
        )


def own_meta(metadata: Any) -> str:
    """Return the own part of the `meta` of a new job. Raises InvalidTask.

    What else it takes along is joined to it as it is inserted, in the span of that.
    """
    try:
        check_metadata(metadata, json.loads(collected() or "{}"))
    except ValueError as error:
        raise InvalidTask(str(error)) from None
    return dump({OWN: metadata})


def save_metadata(job: RunningJob, metadata: Any) -> None:
    """Store the metadata of the running job, in its transaction if there is one.

    Raises ValueError, InvalidStep for metadata with an encrypted value that the job has
    met, and LeaseLost if the job no longer belongs to this worker.
    """
    check_metadata(metadata, job.meta)
    text = dump({OWN: metadata})
    job.refuse_shown("The metadata", text)
    parameters = {"id": job.id, "lease_token": job.lease_token, "metadata": text}
    if not execute_on(settings.DATABASE)(statement("save_metadata"), parameters):
        raise LeaseLost(job.id)
