"""Buttons on rows and on the detail page, by django-admin-actions.

That package (0.1.1) draws the buttons and makes their URLs; only this module knows it.
Left alone, the package runs a method on a GET, asks for no permission, shows every
button to every user, and links to a method of the same name of another site or model.
Here a button's method is a view that checks the permission and finds the object. Which
buttons a page shows depends on the user and on the object.

List buttons are not offered: the package pastes the page's query into their links.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import django
from admin_actions.admin import ActionsModelAdmin
from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_http_methods

from ..reports.texts import excerpt
from .links import list_url, page
from .listing import TableAdmin

FROM_PAGE = "from=page"  # rather than from a row of the list
LONGEST_NAME = 80
# Where a version of Django has other markup around a page than the one before.
MARKUP = f"admin/pgjobs/markup_{'5.2' if django.VERSION < (6, 1) else '6.1'}"


def button(
    *,
    label: str,
    path: str,
    permission: str,
    is_offered: Callable[[Any], bool],
    label_for: Callable[[Any], str] | None = None,
    is_harmful: bool = False,
):
    """Make a method of `ButtonsAdmin` the view behind a button.

    It is called with the request and the object. `permission`: the word in the admin's
    `has_<permission>_permission`. `label_for`: the label beside an object, if that
    decides. `is_harmful`: it looks so. The method's name must be unique among all
    models (the package makes it the URL's name), so it begins with app and model.
    """

    def decorate(method):
        @method_decorator(require_http_methods(["GET", "HEAD", "POST"]))
        @wraps(method)
        def view(self, request, pk):
            return method(self, request, self.object_behind_button(request, view, pk))

        view.short_description = label
        view.url_path = path
        view.permission = permission
        view.is_offered = is_offered
        view.label_for = label_for or (lambda obj: label)
        view.is_harmful = is_harmful
        return view

    return decorate


class ButtonsAdmin(TableAdmin, ActionsModelAdmin):
    """A model admin whose `actions_row` and `actions_detail` name `@button` methods."""

    row_template = "admin/pgjobs/row_buttons.html"

    def object_behind_button(self, request, button, pk):
        """Return the object; raise PermissionDenied or Http404."""
        if not self.may_press(request, button):
            raise PermissionDenied
        obj = self.get_object(request, str(pk))
        if obj is None:
            raise Http404
        if not self.has_view_permission(request, obj):
            raise PermissionDenied
        return obj

    def may_press(self, request, button) -> bool:
        has_permission = getattr(self, f"has_{button.permission}_permission")
        return has_permission(request)

    def permitted_buttons(self, request, names) -> dict[str, Any]:
        buttons = {name: getattr(self, name) for name in names}
        is_permitted = partial(self.may_press, request)
        return {name: each for name, each in buttons.items() if is_permitted(each)}

    def links(self, request, buttons: dict[str, Any], obj, origin: str = ""):
        """Return what the package's templates draw: the buttons offered for obj."""
        return [
            {
                "title": button.label_for(obj),
                "path": self.button_url(request, name, obj, origin),
                "is_harmful": button.is_harmful,
            }
            for name, button in buttons.items()
            if button.is_offered(obj)
        ]

    def button_url(self, request, name: str, obj, origin: str = "") -> str:
        url = reverse(f"admin:{name}", args=(obj.pk,), current_app=self.admin_site.name)
        # The filters of the list, for the way back; made and url-encoded by Django.
        query = "&".join(filter(None, [self.get_preserved_filters(request), origin]))
        return f"{url}?{query}" if query else url

    def url_back(self, request, obj=None) -> str:
        """Return where the button was: the list with its filters, or the page of obj.

        Whatever the request says, it is a page of this admin.
        """
        is_on_page = obj is not None and request.GET.get("from") == "page"
        model, site = self.opts.model_name, self.admin_site
        url = page(model, obj.pk, site) if is_on_page else list_url(model, site)
        filters = self.get_preserved_filters(request)
        return add_preserved_filters(
            {"opts": self.opts, "preserved_filters": filters}, url
        )

    def page(self, request, template: str, title: str, context: dict):
        """Return a page of its own in the frame of this admin."""
        frame = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "media": self.media,
            "markup": MARKUP,
            "title": title,
        }
        return TemplateResponse(request, template, frame | context)

    def get_list_display(self, request):
        columns: tuple[Any, ...] = tuple(
            admin.ModelAdmin.get_list_display(self, request)
        )
        buttons = self.permitted_buttons(request, self.actions_row)
        if not buttons:
            return columns

        # A function inside, because a column's method does not get the request.
        @admin.display(description=_("actions"))
        def actions_holder(obj):  # the package's name, to which its CSS refers
            links = self.links(request, buttons, obj)
            name = excerpt(str(obj), LONGEST_NAME)
            context = {"actions_row": links, "name": name}
            return render_to_string(self.row_template, context)

        return (*columns, actions_holder)

    def change_view(self, request, object_id, form_url="", extra_context=None):
        # Past the package, which cannot make URLs of what is no id.
        return admin.ModelAdmin.change_view(
            self, request, object_id, form_url, extra_context
        )

    def render_change_form(self, request, context, *args, obj=None, **kwargs):
        if obj is not None:
            buttons = self.permitted_buttons(request, self.actions_detail)
            context["actions_list"] = self.links(request, buttons, obj, FROM_PAGE)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)
