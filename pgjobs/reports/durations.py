"""Durations in words: `1 h`, `12 s`, `4 ms`."""

UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def seconds_in_words(seconds: float | None) -> str:
    """Return a duration in one unit, or nothing if it is not known."""
    if seconds is None:
        return ""
    for unit, size in UNITS:
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.0f} {unit}"
    if seconds >= 10:
        return f"{seconds:.0f} s"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1_000:.0f} ms"
