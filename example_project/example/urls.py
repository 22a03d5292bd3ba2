"""Route the pages of the example."""

from django.contrib import admin
from django.urls import include, path

from example import jobs

urlpatterns = [
    path("", include("passes.urls")),
    path("converter/", include("converter.urls")),
    path("jobs/<str:token>/", jobs.job_status, name="job_status"),
    path("admin/", admin.site.urls),
]
