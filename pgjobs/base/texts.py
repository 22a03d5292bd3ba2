"""Making any text storable in PostgreSQL."""

CUT = "\n... {} characters left out ...\n"


def storable(text: str, limit: int) -> str:
    """Return the text as PostgreSQL can store it, without its middle if it is too long.

    NUL and lone surrogates become U+FFFD, so that storing an error cannot fail.
    """
    if len(text) > limit:
        half = limit // 2
        text = text[:half] + CUT.format(len(text) - 2 * half) + text[-half:]
    text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
