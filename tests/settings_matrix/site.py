"""A project with an admin site of its own, as Django documents it."""

from django.contrib.admin import AdminSite
from django.contrib.admin.apps import AdminConfig


class OwnSite(AdminSite):
    site_header = "Own site"
    index_title = "What there is"
    enable_nav_sidebar = False


class OwnAdminConfig(AdminConfig):
    default_site = "tests.settings_matrix.site.OwnSite"
