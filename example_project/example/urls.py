"""Route the pages of the example."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("passes.urls")),
    path("converter/", include("converter.urls")),
    path("jobs/", include("pgjobs.urls")),
    path("admin/", admin.site.urls),
]
