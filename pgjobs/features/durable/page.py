"""The page on which people answer what a job asks, by a signed link."""

from typing import Any

from django.conf import settings as django_settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import urlencode
from django.views.decorators.cache import cache_control
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_http_methods

from .links import link_of
from .visits import SIGN_IN, answered


@csrf_protect
@xframe_options_deny
@cache_control(no_store=True, private=True)
@require_http_methods(["GET", "HEAD", "POST"])
def answer_job(request: HttpRequest, token: str) -> HttpResponse:
    """Show what a job asks by the link of `job.answer_url`, and take the answer.

    `token`: the last part of the link. People have to sign in and need the permission,
    unless the task says `anyone_with_link`. Returns 404 for a link that pgjobs has not
    signed, 410 for one that is over, 403 without the permission, and 400 with the form
    if the answer does not fit. `request` is that of a browser.
    """
    link = link_of(token)
    if link is None:
        raise Http404("There is no such link.")
    reply = answered(request, link)
    if reply.state == SIGN_IN:
        return to_sign_in(request)
    context: dict[str, Any] = {"heading": reply.heading, "text": reply.text}
    template = "pgjobs/message.html"
    if reply.form is not None and reply.wait is not None:
        template = "pgjobs/answer.html"
        context = {"wait": reply.wait, "job": reply.wait.job, "form": reply.form}
    return render(request, template, context, status=reply.status)


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Lead to LOGIN_URL, and back. Django's own function needs its app of users."""
    url = resolve_url(django_settings.LOGIN_URL)
    is_elsewhere = url.startswith(("http:", "https:", "//"))
    back = request.build_absolute_uri() if is_elsewhere else request.get_full_path()
    mark = "&" if "?" in url else "?"
    return redirect(f"{url}{mark}{urlencode({'next': back})}")
