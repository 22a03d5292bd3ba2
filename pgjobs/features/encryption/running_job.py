"""What a running job encrypts and opens by itself: what its features store."""

from functools import partial
from typing import Any

from ...base.plain_json import dump
from ...exceptions import InvalidStep, LeaseLost
from .marking import store_mark
from .sealing import RESULT, Seal, opened


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

    def sealed(self, place: str, text: str | None) -> str | None:
        """Return the JSON text that is stored of a value at a place."""
        if self.seal is None or text is None:
            return text
        self.hides(text)
        return self.seal.whole(place, text)

    def opened(self, place: str, value: Any) -> Any:
        """Return what a stored value is. Raises EncryptionError."""
        plain = opened(self.seal, place, value)
        if plain is not value:
            self.hides(dump(plain))
        return plain

    def refuse_shown(self, what: str, text: str) -> None:
        """Raise InvalidStep for a text in the clear that has such a value."""
        if self.seal is not None and self.hide(text) != text:
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

    def hides(self, text: str) -> None:
        """Mask a JSON text's values from now on in what the job writes."""
        if "opened_texts" not in vars(self):
            self.opened_texts = []
            opened = partial(as_secret, self.opened_texts)
            self.hide.arguments = (*self.hide.arguments, opened)
        self.opened_texts.append(text)
        self.hide.mask = None  # it is made anew


def as_secret(texts: list[str]) -> str:
    """Return JSON texts as one whose values are all masked."""
    return f'{{"secret":[{",".join(texts)}]}}'


def opened_end(job: Any, end: dict[str, Any]) -> dict[str, Any]:
    """Return how a job has ended that this one waited for, with the plain result.

    Raises EncryptionError, and TypeError for what is no end of a job.
    """
    if "by" not in end:
        return end
    value = opened(Seal(end["by"]), RESULT, end["value"])
    job.begins_to_encrypt()
    job.hides(dump(value))
    return {**{name: end[name] for name in end if name != "by"}, "value": value}


METHODS = (Sealing,)
