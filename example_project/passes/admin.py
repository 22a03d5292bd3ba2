"""Show the models in the admin."""

from django.contrib import admin

from .models import GroundStation, Notice, Pass, Satellite


@admin.register(Satellite)
class SatelliteAdmin(admin.ModelAdmin):
    """Saving changed elements here publishes it, in the admin's transaction."""

    list_display = ["name", "catalog_number", "epoch"]
    fields = ["catalog_number", "name", "line1", "line2", "epoch"]
    readonly_fields = ["epoch"]  # Satellite.clean() takes it from the lines.
    search_fields = ["name", "catalog_number"]


@admin.register(GroundStation)
class GroundStationAdmin(admin.ModelAdmin):
    """Saving a station enqueues a job per satellite."""

    list_display = ["name", "latitude", "longitude", "altitude"]
    search_fields = ["name"]


class ComputedAdmin(admin.ModelAdmin):
    """What jobs compute is only shown."""

    list_filter = ["satellite", "station"]
    list_select_related = ["satellite", "station"]

    def has_add_permission(self, request):
        """Refuse: only the job adds rows."""
        return False

    def has_change_permission(self, request, obj=None):
        """Refuse: the next job would undo it."""
        return False


@admin.register(Pass)
class PassAdmin(ComputedAdmin):
    """Passes are recomputed with each new set of elements."""

    list_display = ["satellite", "station", "rise_at", "set_at", "max_elevation"]


@admin.register(Notice)
class NoticeAdmin(ComputedAdmin):
    """Notices are renewed with each new set of elements."""

    list_display = ["station", "satellite", "epoch", "event"]
