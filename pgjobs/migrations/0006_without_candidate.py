from pgjobs.database.install import RunFiles
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pgjobs', '0005_functions'),
    ]

    operations = [
        RunFiles('tables/without_candidate.sql', undone_by='tables/without_candidate_undone.sql'),
    ]
