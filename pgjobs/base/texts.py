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


def in_a_log(text: str) -> str:
    """Return the text as lines of a log hold it, whatever it is.

    Control characters are escaped. All lines but the first are indented, so that no
    text can look like another record.
    """
    if text.isprintable():
        return text
    return "\n  ".join(map(escaped, text.splitlines()))


def escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
