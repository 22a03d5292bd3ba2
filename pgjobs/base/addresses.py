"""Signed addresses by which people follow a job; they cannot guess those of others."""

from django.core import signing
from django.urls import NoReverseMatch, reverse

SALT = "pgjobs.addresses"
CURE = (
    "The addresses of jobs are not routed: add "
    "path('jobs/', include('pgjobs.urls')) to the project's URLs."
)


def status_url(id: int) -> str:
    """Return the path that tells how the job is, the same each time.

    Raises NoReverseMatch if the project does not include `pgjobs.urls`.
    """
    try:
        return reverse("pgjobs:job_status", args=[token_of(id)])
    except NoReverseMatch as error:
        raise NoReverseMatch(f"{CURE} ({error})") from error


def token_of(id: int) -> str:
    return signer().sign(str(id))


def id_of(token: str) -> int | None:
    """Return the id of the job that the token was made for, None if we made none."""
    try:
        return int(signer().unsign(token))
    except signing.BadSignature:
        return None


def signer() -> signing.Signer:
    # Made at use: it reads SECRET_KEY and SECRET_KEY_FALLBACKS. A colon, its usual
    # separator, is no beauty in a URL.
    return signing.Signer(sep=".", salt=SALT)
