"""The URLs for a project's own: `path("jobs/", include("pgjobs.urls"))`."""

from django.urls import path

from . import views

app_name = "pgjobs"
urlpatterns = [
    path("answer/<str:token>/", views.answer_job, name="answer"),
    path("<str:token>/", views.job_status, name="job_status"),
]
