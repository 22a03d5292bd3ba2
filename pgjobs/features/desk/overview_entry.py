"""The entry *Overview* among the models: on the start page and in the sidebar.

Django lists models there, and nothing else. So the overview is one that no table, no
migration and no permission knows: it is in a registry of its own.
"""

from django.apps.registry import Apps
from django.contrib import admin
from django.db import models
from django.urls import path
from django.utils.translation import gettext_lazy as _

from ...admin.listing import ReadOnly
from ...models.job import Job
from .overview import overview_view


class Overview(models.Model):
    """Stands for the page; it has no rows."""

    class Meta:
        apps = Apps()
        app_label = "pgjobs"
        managed = False
        default_permissions = ()
        verbose_name = verbose_name_plural = _("overview")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


@admin.register(Overview)
class OverviewAdmin(ReadOnly, admin.ModelAdmin):
    """One page; who may view jobs may view it."""

    def has_module_permission(self, request) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request, obj=None) -> bool:
        return request.user.has_perm("pgjobs.view_job")

    def get_urls(self):
        view = self.admin_site.admin_view(self.overview)
        names = ("pgjobs_overview_changelist", "pgjobs_overview")
        return [path("", view, name=name) for name in names]

    def overview(self, request):
        return overview_view(request, self.admin_site._registry[Job])
