"""What the migrations share. The underscore tells Django that this is none."""

from django.db import migrations


class RunPostgreSQL(migrations.RunSQL):
    """SQL for PostgreSQL; another vendor's database has empty tables, and no queue."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor == "postgresql":
            super().database_backwards(app_label, schema_editor, from_state, to_state)
