from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgjobs', '0002_functions'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='worker_name',
            field=models.TextField(blank=True, null=True, verbose_name='worker'),
        ),
    ]
