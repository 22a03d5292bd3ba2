"""Route the pages of the app."""

from django.urls import path

from . import views

app_name = "passes"

urlpatterns = [
    path("", views.satellite_list, name="satellite_list"),
    path("satellites/<int:number>/", views.satellite_detail, name="satellite_detail"),
    path("satellites/<int:number>/recompute/", views.recompute, name="recompute"),
    path("satellites/<int:number>/retire/", views.retire, name="retire"),
]
