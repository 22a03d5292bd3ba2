"""Route the pages of the app."""

from django.urls import path

from . import views

app_name = "converter"

urlpatterns = [
    path("", views.upload, name="upload"),
    path("<uuid:pk>/", views.conversion_detail, name="conversion_detail"),
    path("<uuid:pk>/result/", views.download, name="download"),
    path("<uuid:pk>/back/", views.convert_back, name="convert_back"),
]
