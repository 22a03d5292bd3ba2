"""The names of events, and the patterns that fit several."""

import re
from typing import Any

from ...base.plain_json import shortened
from ...exceptions import InvalidTask

LONGEST_TEXT = 200  # of names and ids
NAME = re.compile(r"[^\s*\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")


def check_pattern(where: str, event: Any) -> None:
    """Raise InvalidTask unless it is a name, or a pattern such as "tle.*"."""
    stem = event.removesuffix(".*") if isinstance(event, str) else ""
    if not NAME.fullmatch(stem) or len(event) > LONGEST_TEXT:
        raise InvalidTask(
            f"{where} takes the name of an event, such as 'tle.refreshed', or "
            f"'tle.*' for all that begin so, got {shortened(event)}."
        )
