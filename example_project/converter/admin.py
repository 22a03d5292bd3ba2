"""Show the model in the admin."""

from django.contrib import admin

from .models import Conversion


@admin.register(Conversion)
class ConversionAdmin(admin.ModelAdmin):
    """Files come by upload, so they are only shown."""

    list_display = ["source_name", "created_at", "rows", "columns"]
    exclude = ["source", "result"]

    def get_queryset(self, request):
        """Leave the files themselves in the database."""
        return super().get_queryset(request).with_sizes()

    def has_add_permission(self, request):
        """Refuse: the upload page adds the job, too."""
        return False

    def has_change_permission(self, request, obj=None):
        """Refuse: there is nothing to change."""
        return False
