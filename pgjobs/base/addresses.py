"""Signed addresses by which people follow a job; they cannot guess those of others."""

from django.core import signing
from django.urls import NoReverseMatch, reverse

SALT = "pgjobs.addresses"
CURE = (
    "The addresses of jobs are not routed: add "
    "path('jobs/', include('pgjobs.urls')) to the project's URLs."
)


def status_url(id: int) -> str:
    """Return the path of the job's status, the same each time.

    Raises NoReverseMatch if the project does not include `pgjobs.urls`.
    """
    return path_of("job_status", token_of(id))


def path_of(page: str, token: str) -> str:
    """Return a path of `pgjobs.urls`; raise NoReverseMatch with the cure."""
    try:
        return reverse(f"pgjobs:{page}", args=[token])
    except NoReverseMatch as error:
        raise NoReverseMatch(f"{CURE} ({error})") from error


def token_of(id: int) -> str:
    return signer().sign(str(id))


def id_of(token: str) -> int | None:
    """Return the id of the token's job, or None if pgjobs has not signed the token."""
    try:
        return int(signer().unsign(token))
    except signing.BadSignature:
        return None


def signer() -> signing.Signer:
    # Made at each use, because it reads SECRET_KEY and SECRET_KEY_FALLBACKS. Its usual
    # separator, a colon, would be escaped in a URL.
    return signing.Signer(sep=".", salt=SALT)
