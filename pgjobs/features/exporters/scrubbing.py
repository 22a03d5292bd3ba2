"""Masks what is sensitive in what telemetry sends, as the pages of the admin do."""

from collections.abc import Callable, Sequence
from typing import Any

from ...base.mask_names import MASKED
from ...base.plain_json import dump
from ...queue.new_job import NewJob
from ...reports.json_text import is_secret
from ...reports.secrets import Hiding
from ...reports.task_words import Words, with_own
from ...tasks.running_job import RunningJob
from ...tasks.sensitive import named_arguments, sensitive_by_task, sensitive_words
from ..encryption.kept import secrets_of
from ..encryption.running_job import as_secret
from ..encryption.stored import opened_texts

FILTERED = "[Filtered]"
OWN = __name__.partition(".")[0]
DEEPEST = 50
MOST_JOBS = 100

# Of an event, where keys are names of the project's values.
NAMED = ("contexts", "extra", "breadcrumbs", "spans", "request", "user", "tags")


class Scrubber:
    """Masks values of sensitive names, and texts that quote what `hide` knows."""

    def __init__(
        self, words: Words, hide: Callable[[str], str], is_encrypted: bool = False
    ):
        self.words = words
        self.hide = hide
        self.is_encrypted = is_encrypted  # local variables may hold any part of it

    @classmethod
    def of_attempt(cls, job: RunningJob) -> "Scrubber":
        own = getattr(job.hide, "words", ())
        words = (*sensitive_words(job.task_name), *own)
        return cls(words, job.hide, is_encrypted=job.seal is not None)

    @classmethod
    def of_job(cls, job: Any, error: BaseException | None = None) -> "Scrubber":
        """Return one for a row of the table, and for an error with which it ended."""
        own = dump((job.keys or {}).get(MASKED))
        words = with_own(sensitive_words(job.task), own)
        named = named_arguments(job.task, dump(job.args))
        texts = [dump(each) for each in (job.kwargs, job.meta or {})]
        if secrets := secrets_of(job):
            texts.append(as_secret(secrets))
        hide: Callable[[str], str] = Hiding(words, named, *texts)
        # An error of a call of many jobs may quote any of them.
        shared = getattr(error, "pgjobs_hide", None)
        if shared is None:
            return cls(words, hide, is_encrypted=bool(secrets))
        is_encrypted = bool(secrets) or getattr(shared, "is_encrypted", False)
        return cls(words, lambda text: hide(shared(text)), is_encrypted)

    @classmethod
    def of_new_jobs(cls, jobs: Sequence[NewJob]) -> "Scrubber":
        """Return one for texts about jobs that are enqueued."""
        tasks = sensitive_by_task({job.task for job in jobs})
        words = tuple({word for each in tasks.values() for word in each})
        texts: list[str] = []
        for job in jobs[:MOST_JOBS]:
            args, kwargs = opened_texts(job.args, job.kwargs, job.keys)
            texts += (kwargs, named_arguments(job.task, args))
        return cls(words, Hiding(words, *texts))

    def text(self, value: str) -> str:
        return self.hide(value)

    def value(self, value: Any, names: bool = True, depth: int = 0) -> Any:
        """Return a copy without what is sensitive. `names`: keys name values."""
        if isinstance(value, str):
            return self.hide(value)
        if depth > DEEPEST:
            return FILTERED
        if isinstance(value, dict):
            return {
                self.hide(key) if isinstance(key, str) else key: FILTERED
                if names and isinstance(key, str) and is_secret(key, self.words)
                else self.value(each, names or key in NAMED, depth + 1)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each, names, depth + 1) for each in value]
        return value if value is None or is_plain(value) else self.unknown(value)

    def unknown(self, value: Any) -> Any:
        """Return an object of the client's own as it is, without its values."""
        held = getattr(value, "value", None)  # Sentry's AnnotatedValue
        if held is not None and hasattr(value, "metadata"):
            value.value = self.value(held)
        return value

    def event(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return an event of Sentry's without what is sensitive."""
        for frame in frames_of(event):
            module = str(frame.get("module", ""))
            if self.is_encrypted or module.partition(".")[0] == OWN:
                frame.pop("vars", None)  # they hold arguments in forms of their own
            elif "vars" in frame:
                frame["vars"] = self.value(frame["vars"])
        return self.value(event, names=False)


def is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def frames_of(event: dict[str, Any]):
    """Yield the frames of all exceptions and threads."""
    for kind in ("exception", "threads"):
        for each in (event.get(kind) or {}).get("values") or ():
            yield from ((each or {}).get("stacktrace") or {}).get("frames") or ()
    yield from (event.get("stacktrace") or {}).get("frames") or ()
