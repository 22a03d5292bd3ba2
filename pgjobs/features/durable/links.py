"""Signed links to the page on which people answer what a job asks."""

from typing import Any, NamedTuple

from django.core import signing

from ...base.addresses import path_of
from .answering import check_answer_name


class Link(NamedTuple):
    """What a link is about: what one life of a job asks by this name."""

    job_id: int
    life: int
    name: str


def answer_url(job_id: int | None, life: int, name: Any) -> str:
    """Return the path of the page; see `Answering.answer_url`."""
    check_answer_name(name)
    if job_id is None:
        raise ValueError("A job that was not saved has no link.")
    return path_of("answer", token_of(job_id, life, name))


def token_of(job_id: int, life: int, name: str) -> str:
    """Return the last part of a link."""
    return signer().sign_object([job_id, life, name], compress=True)


def link_of(token: str) -> Link | None:
    """Return what the token says, or None if pgjobs has not signed it."""
    try:
        return Link(*signer().unsign_object(token))
    except signing.BadSignature:
        return None


def signer() -> signing.Signer:
    # Made at each use, because it reads SECRET_KEY and SECRET_KEY_FALLBACKS. Its usual
    # separator, a colon, would be escaped in a URL.
    return signing.Signer(sep=".", salt="pgjobs.answers")
