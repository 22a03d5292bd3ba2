"""Ids that a user typed."""

LARGEST_ID = 2**63 - 1  # of a bigint


def read_id(text: str) -> int | None:
    """Return the id that the text is, or None if no row can have it."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    return int(text) if int(text) <= LARGEST_ID else None
