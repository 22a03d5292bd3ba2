"""What a running job encrypts and opens by itself: what its features store."""

import json
from functools import partial
from typing import Any

from ...base.plain_json import dump, dump_checked
from ...conf import settings
from ...exceptions import EncryptionError, Fail, InvalidStep, LeaseLost, Snooze
from ...queue.statements import execute_on
from ...reports.secrets import (
    MOST_VALUES,
    TEXT_MASK,
    Hiding,
    hiding_values,
    sensitive_values,
)
from ...sql import statement
from .keyring import LATER, NoKey
from .marking import store_mark
from .sealing import RESULT, SEALED, Seal, opened


class Sealing:
    """The encryption of a running job, for the features that store values of it."""

    seal: Seal | None = None  # of a job that has the mark
    mark: dict[str, Any]
    flowing: set[str]  # arguments whose values come of encrypted results
    opened_texts: list[str]  # JSON texts that must stand in no log
    hide: Any
    id: int
    lease_token: int
    has_row: bool
    steps: Any

    def sealed(self, place: str, text: str | None) -> str | None:
        """Return the JSON text that is stored of a value at a place."""
        if self.seal is None or text is None:
            return text
        self.hides(text)
        return self.seal.whole(place, text)

    def opened(self, place: str, value: Any) -> Any:
        """Return what a stored value is. Raises LacksKey and Fail."""
        plain = opened_here(self.seal, place, value)
        if plain is not value:
            self.hides(dump(plain))
        return plain

    def shows(self, text: str) -> bool:
        """Whether a text has an encrypted value of the job."""
        if self.seal is None or (hidden := self.hide(text)) == text:
            return False
        if hidden != TEXT_MASK:
            return True
        # It is such a value, or there are so many that all of any text is masked.
        values = values_of(self.hide)
        return len(values) <= MOST_VALUES or quotes(text, values)

    def refuse_shown(self, what: str, text: str) -> None:
        """Raise InvalidStep for a text in the clear that has such a value."""
        if self.shows(text):
            raise InvalidStep(
                f"{what} has the value of an encrypted argument, and stands in the "
                "clear. Use an id, or a number."
            )

    def begins_to_encrypt(self) -> None:
        """Mark a job that has met an encrypted value: what it stores is one, too."""
        if self.seal is not None:
            return
        seal = Seal.new()
        mark: dict[str, Any] = {"by": seal.by, "names": []}
        if self.has_row and not store_mark(self.id, self.lease_token, mark):
            raise LeaseLost(self.id)
        self.seal, self.mark, self.flowing = seal, mark, set()

    def seal_ends(self, name: str) -> None:
        """Encrypt what plain jobs have returned, in the step of a wait for them.

        The database has stored it as it stands in their rows. A job that dies before
        this leaves it to its next attempt.
        """
        ends = json.loads(self.steps.load()[name])
        is_open = self.seal is not None and self.has_row and isinstance(ends, list)
        plain = [end for end in ends if is_open and is_plain(end)]
        if not plain:
            return
        for end in plain:
            text, seal = dump_checked(end["value"]), Seal.new()
            self.hides(text)
            end |= {"value": {SEALED: seal.close(RESULT, text)}, "by": seal.by}
        self.store_step(name, dump_checked(ends))

    def store_step(self, name: str, text: str) -> None:
        """Store another text of a step that is done. Raises LeaseLost."""
        parameters = {
            "job_id": self.id,
            "lease_token": self.lease_token,
            "name": name,
            "return_value": text,
        }
        if not execute_on(settings.DATABASE)(statement("seal_step"), parameters):
            raise LeaseLost(self.id)
        self.steps.load()[name] = text

    def hides(self, text: str) -> None:
        """Mask a JSON text's values from now on in what the job writes."""
        if "opened_texts" not in vars(self):
            self.opened_texts = []
            opened = partial(as_secret, self.opened_texts)
            self.hide.arguments = (*self.hide.arguments, opened)
        self.opened_texts.append(text)
        self.hide.mask = None  # it is made anew


def values_of(hide: Hiding) -> set[str]:
    """Return the texts of all values that it masks."""
    given = (each() if callable(each) else each for each in hide.arguments)
    own = getattr(hide, "own", ())  # of the jobs of a call
    return sensitive_values(hide.words, given).union(*map(values_of, own))


def quotes(text: str, values: set[str]) -> bool:
    """Whether a text has one of these values, of which it may have few."""
    return hiding_values(value for value in values if value in text)(text) != text


def as_secret(texts: list[str]) -> str:
    """Return JSON texts as one whose values are all masked."""
    return f'{{"secret":[{",".join(texts)}]}}'


class LacksKey(Snooze):
    """This worker lacks the key of what the job has stored: another one may have it."""

    verdict = "UNKNOWN"

    def __init__(self, reason: str) -> None:
        super().__init__(LATER)
        self.args = (reason,)


def opened_here(seal: Seal | None, place: str, value: Any) -> Any:
    """Return what a stored value is, in the body of a job. Raises LacksKey and Fail."""
    try:
        return opened(seal, place, value)
    except NoKey as error:
        raise LacksKey(str(error)) from None
    except EncryptionError as error:
        raise Fail(str(error)) from error


def is_plain(end: dict[str, Any]) -> bool:
    """Whether how a job has ended has a result that stands in the clear."""
    return "by" not in end and end.get("value") is not None


def opened_end(job: Any, end: dict[str, Any]) -> dict[str, Any]:
    """Return how a job has ended that this one waited for, with the plain result.

    Raises LacksKey and Fail, and TypeError for what is no end of a job.
    """
    if "by" not in end:
        return end
    value = opened_here(Seal(end["by"]), RESULT, end["value"])
    job.begins_to_encrypt()
    job.hides(dump(value))
    return {**{name: end[name] for name in end if name != "by"}, "value": value}


METHODS = (Sealing,)
