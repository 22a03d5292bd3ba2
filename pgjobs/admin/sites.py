"""A site of the admin for each further database, and the way from one to the other."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import NamedTuple

from django.contrib import admin, messages
from django.contrib.admin.sites import all_sites
from django.core.exceptions import ImproperlyConfigured
from django.db import InternalError, connections
from django.http import HttpResponseRedirect
from django.template.response import SimpleTemplateResponse
from django.urls import NoReverseMatch, reverse
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from psycopg.errors import ReadOnlySqlTransaction

from ..base.database_choice import routed
from ..conf import settings


class DatabaseSite(admin.AdminSite):
    """The pages of pgjobs for one database, at an address of their own.

    `database` is an alias of DATABASES. It may be that of a replica, where people look
    and change nothing. Users and permissions are those of the project. The pages are
    those of `admin.site`, with what the project has changed of them. Raises
    ImproperlyConfigured for an unknown alias.
    """

    # An id means another row in each database. Therefore the address says which one is
    # meant, and not the session: an operator with two tabs cannot hit the wrong job.

    def __init__(self, database: str):
        if database not in connections:
            raise ImproperlyConfigured(f"DATABASES has no {database!r}.")
        super().__init__(name=f"pgjobs_{database}")
        self.database = database
        self.site_header = self.site_title = format_lazy(_("Jobs of {}"), database)
        self.index_title = self.site_header
        for model, model_admin in admin.site._registry.items():
            if model._meta.app_label == "pgjobs":
                self.register(model, type(model_admin))

    def admin_view(self, view: Callable, cacheable: bool = False) -> Callable:
        return super().admin_view(self.in_database(view), cacheable)

    def in_database(self, view: Callable) -> Callable:
        @wraps(view)
        def view_in_database(request, *args, **kwargs):
            with settings.using_database_here(self.database):
                try:
                    response = view(request, *args, **kwargs)
                except InternalError as error:
                    if not isinstance(error.__cause__, ReadOnlySqlTransaction):
                        raise
                    return refuse(request)
                # While the page is written, its columns read from the database.
                if isinstance(response, SimpleTemplateResponse):
                    response.render()
            return response

        return view_in_database


def refuse(request) -> HttpResponseRedirect:
    text = gettext("This database is a replica. Nothing can be changed here.")
    messages.error(request, text)
    return HttpResponseRedirect(request.get_full_path())


class Choice(NamedTuple):
    """A database in the switch of a page."""

    database: str
    address: str
    is_current: bool


def databases(request, current: admin.AdminSite) -> list[Choice]:
    """Return where this list or page is in each database; nothing if there is one."""
    page = request.resolver_match.url_name
    found = [
        Choice(alias, address, site is current)
        for alias, site in sites()
        if (address := address_of(site, page))
    ]
    return found if len(found) > 1 else []


def sites() -> Iterator[tuple[str, admin.AdminSite]]:
    """Yield the databases and their sites, the project's own site first."""
    yield routed("db_for_read") or settings.get("DATABASE"), admin.site
    others = [site for site in all_sites if isinstance(site, DatabaseSite)]
    for site in sorted(others, key=lambda site: site.name):
        yield site.database, site


def address_of(site: admin.AdminSite, page: str) -> str | None:
    """Return None for a site that the project's addresses do not have."""
    try:
        return reverse(f"{site.name}:{page}")
    except NoReverseMatch:
        return None
