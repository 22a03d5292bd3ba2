"""What a job can do that waits, or may wait."""

from typing import Any

from ...base.queue_database import database_of_acts
from . import queue
from .answering import answer, mark_step
from .links import answer_url


class Answering:
    """The verbs of `Job` for its waits."""

    pk: Any
    life: int
    objects: Any

    def answer(self, name: str, value: Any, *, by: Any = None) -> bool:
        """Answer what the job asks by this name, in the caller's transaction.

        - `name`: of the wait, or the label of one of its ways.
        - `value`: what the task waits for, or its JSON form.
        - `by`: the user who answers, whose permission is checked. Without one the
          answer is trusted as code is.

        Returns False where nothing waits for it any more: the job has ended, the time
        is over, or there is an answer. An answer that comes before the task asks is
        kept. Raises ValueError, and PermissionDenied.
        """
        return answer(self, name, value, by)

    def newest(self) -> Any:
        """Return the job as which this one goes on now, or a fresh copy of itself.

        Each `continue_as` makes another job, also when those between are pruned.
        """
        database = database_of_acts(self)
        id = queue.newest(database, self.pk)
        return type(self).objects.using(database).get(pk=id)

    def answer_url(self, name: str) -> str:
        """Return the path of the page on which people answer what the job asks so.

        `name`: of the wait, or the label of one of its ways. There is a path before
        the task asks, too. It is signed, belongs to the job's present life, and ends
        with the wait. Raises ValueError, and NoReverseMatch if URLs do not include
        `pgjobs.urls`.
        """
        return answer_url(self.pk, self.life, name)

    def mark_step(self, name: str, value: Any) -> bool:
        """Mark a step, a sleep or a wait as done, and let the job go on.

        - `name`: of the call.
        - `value`: what the call returns from then on, as its step stores it: JSON. Of
          an event that is its id.

        Returns whether this changed anything: not while the job runs, not before it
        has begun, and not if the step is done. Raises ValueError.
        """
        return mark_step(self, name, value)


METHODS = (Answering,)
