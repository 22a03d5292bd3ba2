"""The functions and triggers of the database: see pgjobs/database/."""

from django.db import migrations

from pgjobs.database.install import InstallSQL


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0001_initial")]

    operations = [InstallSQL()]
