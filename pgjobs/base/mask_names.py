"""Names whose values are masked, and names that only look secret."""

HARMLESS = "!"  # before a name that only looks secret
RESULT = "return"  # what a task returns; no argument can have this name
# In `Job.keys`: the arguments of this job that are masked, whatever its task says.
MASKED = "masked"


def names_to_mask(value):
    """Return the names; raise ValueError unless each of them can mean something."""
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of strings, got {value!r}.")
    for each in value:
        if not isinstance(each, str) or not each:
            raise ValueError(f"must be a non-empty string, got {each!r}.")
        if each == HARMLESS:
            raise ValueError('must name what is harmless, such as "!s3_key", got "!".')
        if f"{HARMLESS}{each}" in value:
            raise ValueError(f"says of {each!r} both that it is sensitive and not.")
    return tuple(value)
