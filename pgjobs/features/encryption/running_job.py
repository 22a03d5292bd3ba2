"""What a running job encrypts and opens by itself: what its features store."""

from typing import Any

from ...base.plain_json import dump
from .sealing import Seal, opened


class Sealing:
    """The encryption of a running job, for the features that store values of it."""

    seal: Seal | None = None  # of a job that has the mark
    mark: dict[str, Any]
    flowing: set[str]  # arguments whose values come of encrypted results
    opened_texts: list[str]  # JSON texts that must stand in no log, see arriving.py
    hide: Any

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

    def hides(self, text: str) -> None:
        """Mask a JSON text's values from now on in what the job writes."""
        self.opened_texts.append(text)
        self.hide.mask = None  # it is made anew


METHODS = (Sealing,)
